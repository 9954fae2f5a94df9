"""A training that tests run on the slice of fake/gcloud: worker 0's six steps.

Its checkpoint is $FAKE/step, and each start adds a line to $FAKE/starts.
$FAKE/plan says what happens at step 3, once: "preempt" takes the slice away,
"stop" is what `tpu_vm.sh stop` does, any number is the exit code.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

fake = pathlib.Path(os.environ["FAKE"])
checkpoint, plan = fake / "step", fake / "plan"
is_main = os.environ["HOME"].endswith("0")
step = int(checkpoint.read_text()) if is_main and checkpoint.exists() else 0
code = os.environ["CTRL_JAX_PREEMPTED_EXIT_CODE"]
if is_main:
  with (fake / "starts").open("a") as f:
    print(step, code, *sys.argv[1:], file=f)
print("training from step", step, flush=True)
while is_main and step < 6:
  step += 1
  checkpoint.write_text(str(step))
  if step == 3 and plan.exists():
    what = plan.read_text()
    plan.unlink()
    if what == "stop":
      script = str(pathlib.Path("launch", "tpu_worker.sh").resolve())
      subprocess.Popen(["bash", script, "stop"], start_new_session=True)
      signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(code)))
      time.sleep(60)
    if what != "preempt":
      print("it ends with", what, flush=True)
      sys.exit(int(what))
    (fake / "slice").write_text("SUSPENDED")
    time.sleep(60)
