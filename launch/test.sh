#!/usr/bin/env bash
# Makes the environment and runs all tests, fast ones and slow ones.
#
#   bash launch/test.sh            everything (under 15 minutes on two cores)
#   bash launch/test.sh tests/data what pytest is told (without the slow ones)
set -euo pipefail
source "$(dirname "$0")/environment.sh"
install test

if [ $# -gt 0 ]; then
  exec python -m pytest "$@"
fi
ruff check .
python -m pytest -n 2 --dist loadfile -m "slow or not slow" --durations=10
