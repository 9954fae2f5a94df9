"""Peak memory of this process."""

import re
import resource
import sys


def peak_bytes() -> int:
  """Returns the most resident memory this process has had so far, in bytes.

  What a device of its own holds (a GPU's or TPU's memory) is not in it.
  """
  if sys.platform == "linux":
    # getrusage would count what the process was before it exec'ed, too.
    with open("/proc/self/status", encoding="ascii", errors="replace") as f:
      return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", f.read())[1])
  used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  return used if sys.platform == "darwin" else 1024 * used
