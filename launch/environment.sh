# Sourced by demo.sh and test.sh: makes the virtual environment once.
#
#   PYTHON          interpreter to use (3.11 to 3.13); found if not set
#   CTRL_JAX_VENV   the environment's folder (.venv)

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
case "${CTRL_JAX_VENV:-.venv}" in
  /*) venv="$CTRL_JAX_VENV" ;;
  *) venv="$PWD/${CTRL_JAX_VENV:-.venv}" ;;
esac

# Whether "$1" is a Python that can make an environment with pip.
is_suitable() {
  "$1" -c 'import ensurepip, sys, venv
sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

find_python() {
  local name
  if [ -n "${PYTHON:-}" ]; then
    is_suitable "$PYTHON" && { echo "$PYTHON"; return; }
    echo "Error: PYTHON=$PYTHON is not Python 3.11, 3.12 or 3.13 with venv and" \
      "ensurepip: name another." >&2
    return 1
  fi
  for name in python3.12 python3.13 python3.11 python3 python; do
    is_suitable "$name" && { echo "$name"; return; }
  done
  echo "Error: Python 3.11, 3.12 or 3.13 with venv and ensurepip is needed" \
    "(Debian: the package python3-venv); or set PYTHON=/path/to/python." >&2
  return 1
}

# Installs this folder with the extras "$1" ("" for none), unless that was done
# for this state of setup.py, in this folder, already.
install() {
  local extras="$1" stamp python
  stamp="$venv/.installed-${extras:-plain}-$( (pwd; cat setup.py) | cksum |
    tr ' ' '-')"
  if [ ! -e "$stamp" ]; then
    if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
      python=$(find_python) || exit 2
      echo "Making the environment $venv with $("$python" --version) ..."
      "$python" -m venv --clear "$venv" || exit 2
    fi
    echo "Installing ctrl_jax and what it needs ..."
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
      -e ".${extras:+[$extras]}" || exit 2
    touch "$stamp"
  fi
  export PATH="$venv/bin:$PATH"
}
