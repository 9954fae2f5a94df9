# Sourced by tpu_vm.sh and xpk.sh: errors, and commands that can be printed
# instead of run.
dry_run=""

fail() {  # One line, and the exit code of bad input.
  local text="$*"
  echo "Error: ${text//$'\n'/ }" >&2
  exit 2
}

note() {
  if [ -n "$dry_run" ]; then
    echo "# $*"
  else
    echo "$(date '+%F %T') $*"
  fi
}

# Prints arguments as a shell reads them.
quoted() {
  local argument quote="'\\''" space=""
  for argument in "$@"; do
    case "$argument" in
      *[!A-Za-z0-9_./:=@%,+-]* | "")
        printf "%s'%s'" "$space" "${argument//\'/$quote}" ;;
      *) printf '%s%s' "$space" "$argument" ;;
    esac
    space=" "
  done
}

do_it() {  # Or prints it.
  if [ -n "$dry_run" ]; then
    quoted "$@"
    echo
  else
    "$@"
  fi
}

needs() {  # COMMAND, and where it comes from; not for a dry run.
  [ -n "$dry_run" ] || command -v "$1" >/dev/null ||
    fail "$1 is not installed: $2"
}

help_of() {  # The comment on top of a script.
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$1"
  exit 0
}
