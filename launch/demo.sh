#!/usr/bin/env bash
# From nothing to a small CTRL: environment, data, training, samples,
# attribution, numbers. Under 15 minutes on two CPU cores; what is there already
# is used again. Everything lies in data/demo and runs/demo.
set -euo pipefail
begin=$SECONDS
# shellcheck source-path=SCRIPTDIR source=environment.sh
source "$(dirname "$0")/environment.sh"
install ""
run="${CTRL_JAX_DEMO_RUN:-runs/demo}"

echo; echo "== 1. Prepare: documentation strings of installed packages =="
python -m ctrl_jax.prepare --config=configs/demo.py

echo; echo "== 2. Train =="
python -m ctrl_jax.train --config=configs/demo.py --workdir="$run"

echo; echo "== 3. The same prompt under three control codes =="
for code in scipy matplotlib jax; do
  echo "--- $code"
  python -m ctrl_jax.sample --model="$run" --code="$code" \
    --prompt="Parameters" --max-new-tokens=60 --min-new-tokens=40 \
    --temperature=0.7 --top-p=0.9 --penalty=1.1 --penalty-rule=sign_aware
done

echo; echo "== 4. Where do these texts come from? (held-out documents) =="
python -m ctrl_jax.attribute --model="$run" --top=3 --max-texts=4 \
  --texts-file=data/demo/documents/test.jsonl.gz

echo; echo "== 5. Numbers =="
python -m ctrl_jax.evaluate --model="$run" --output="$run/evaluation"
echo
echo "Took $(( (SECONDS - begin) / 60 )) min $(( (SECONDS - begin) % 60 )) s."
echo "The model lies in $(cd "$run" && pwd), the data in $PWD/data/demo."
echo "Go on: source $venv/bin/activate"
echo "       python -m ctrl_jax.sample --model=$run --code=numpy --stream"
