# Sourced by demo.sh and test.sh: makes the virtual environment once.
#
#   PYTHON          interpreter to use (3.11 to 3.13); found if not set
#   CTRL_JAX_VENV   the environment's folder (.venv)

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
venv="${CTRL_JAX_VENV:-.venv}"

find_python() {
  local name
  for name in ${PYTHON:-python3.12 python3.13 python3.11 python3 python}; do
    if "$name" -c 'import sys, venv
sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  echo "Error: Python 3.11, 3.12 or 3.13 is needed; set PYTHON=/path/to/it." >&2
  return 1
}

# Installs `.[$1]` unless that was done for this state of setup.py already.
install() {
  local extra="$1" stamp
  stamp="$venv/.installed-$extra-$(cksum < setup.py | tr ' ' '-')"
  if [ ! -e "$stamp" ]; then
    if [ ! -x "$venv/bin/python" ]; then
      local python
      python=$(find_python) || exit 2
      echo "Making the environment $venv with $("$python" --version) ..."
      "$python" -m venv "$venv" || exit 2
    fi
    echo "Installing ctrl_jax and what it needs ..."
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
      -e ".[$extra]" || exit 2
    touch "$stamp"
  fi
  export PATH="$PWD/$venv/bin:$PATH"
}
