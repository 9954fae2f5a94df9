#!/usr/bin/env bash
# Makes the environment and runs the tests, but for those marked slow.
#
#   bash launch/test.sh            15 to 20 minutes on two shared cores
#   bash launch/test.sh tests/data what pytest is told
#   bash launch/test.sh -m slow    the slow ones
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=environment.sh
source "$(dirname "$0")/environment.sh"
install test

# The TPU compiler, for the tests of `plan`. Not inside of the environment, where
# every command would look for TPUs.
install_tpu_compiler() {
  local folder="$venv/tpu_compiler" wanted stamp
  [ "$(uname -sm)" = "Linux x86_64" ] || return 0
  wanted="$(python -c 'import importlib.metadata as m
print(*(r.split(";")[0].strip() for r in m.requires("jax")
        if r.startswith("libtpu") and "tpu" in r.partition(";")[2]))')"
  stamp="$folder/.installed-$(echo "$wanted" | tr -c 'a-z0-9.\n' _)"
  if [ ! -e "$stamp" ]; then
    python -m pip install --quiet --disable-pip-version-check --no-deps \
      --upgrade --target "$folder" "$wanted" || exit 2
    touch "$stamp"
  fi
  export CTRL_JAX_TPU_COMPILER="$folder"
}
install_tpu_compiler

if [ $# -gt 0 ]; then
  exec python -m pytest "$@"
fi
ruff check .
python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=15
