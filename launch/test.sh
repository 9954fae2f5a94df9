#!/usr/bin/env bash
# Makes the environment and runs the tests, but for those marked slow.
#
#   bash launch/test.sh            under 15 minutes on two cores
#   bash launch/test.sh tests/data what pytest is told
#   bash launch/test.sh -m slow    the slow ones
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=environment.sh
source "$(dirname "$0")/environment.sh"
install test

if [ $# -gt 0 ]; then
  exec python -m pytest "$@"
fi
ruff check .
python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=15
