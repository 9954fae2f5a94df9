#!/usr/bin/env bash
# What tpu_vm.sh runs on every worker of a slice of TPUs, in its home folder.
#
#   setup COMMIT [gs://...]
#                      installs this folder; copies a prepared data set, too
#                      (as train does, slower, with --config.data.folder=gs://...)
#   start RUN COMMAND  starts a command in place of the one that runs, if any;
#                      it goes on when the connection ends; RUN stands for it
#   state [COMMIT [gs://...] RUN]
#                      none, running, exit CODE, exit stopped, or lost (by a
#                      reboot); other, when it is of a run that is not this one
#   log                follows what the command prints
#   end                SIGTERM, so that the training saves, and waits for its end
#   stop               the same, and nobody is to start it again
set -euo pipefail
export CTRL_JAX_VENV="$HOME/ctrl_jax_venv"
data="$HOME/ctrl_jax_data"
run="$HOME/ctrl_jax_run"
installed="$HOME/ctrl_jax_installed"
# shellcheck source-path=SCRIPTDIR source=environment.sh
source "$(dirname "$0")/environment.sh"

# The images of TPU VMs come with Python 3.10.
ensure_python() {
  if [ -x "$venv/bin/python" ] || find_python >/dev/null 2>&1; then
    return
  fi
  local apt=(sudo DEBIAN_FRONTEND=noninteractive apt-get
    -o DPkg::Lock::Timeout=600 -yq)  # They update themselves at first.
  # Without its own update, which does not wait.
  sudo add-apt-repository -yn ppa:deadsnakes/ppa
  "${apt[@]}" update
  "${apt[@]}" install python3.12 python3.12-venv
}

setup() {  # COMMIT [gs://...]
  rm -f "$installed"
  ensure_python
  install tpu,gcs
  mkdir -p "$data"
  ln -sfn "$data" data
  if [ -n "${2:-}" ]; then
    mkdir -p "$data/${2##*/}"
    check_fits "$2" "$data/${2##*/}"
    gcloud storage rsync --recursive "$2" "$data/${2##*/}"
  fi
  echo "$*" >"$installed"
  echo "ctrl_jax: installed"
}

check_fits() {  # BUCKET FOLDER: rather than hours of copying first.
  local wanted free there
  wanted="$(gcloud storage du --summarize "$1" | awk '{printf "%.0f", $1 / 1024}')"
  there="$(du -sk "$2" | cut -f1)"
  free="$(df -Pk "$2" | awk 'END {print $4}')"
  if [ "$((wanted - there))" -gt "$free" ]; then
    echo "Error: $1 takes $((wanted / 1048576)) GiB, and this machine's disk has" \
      "$((free / 1048576)) free: put it on a disk of its own (README, Data in a" \
      "bucket)." >&2
    exit 2
  fi
}

is_running() {  # After a reboot the number may be another program's.
  [ -e "$run/pid" ] &&
    grep -qaF "$run" "/proc/$(cat "$run/pid")/cmdline" 2>/dev/null
}

start() {  # RUN COMMAND ...
  local id="$1"
  shift
  end
  mkdir -p "$run"
  rm -f "$run/exit" "$run/stopping"
  echo "$(cat "$installed" 2>/dev/null) $id" >"$run/id"
  export PATH="$venv/bin:$PATH"
  # That of a process ended by SIGTERM: tpu_vm.sh starts it again.
  export CTRL_JAX_PREEMPTED_EXIT_CODE=143
  # The shell outlives a SIGTERM to both, and writes down how the command ended.
  # shellcheck disable=SC2016
  setsid nohup bash -c 'trap : TERM; "$@"; echo $? >"$0/exit.partial"
    mv "$0/exit.partial" "$0/exit"' "$run" "$@" >>"$run/log" 2>&1 </dev/null &
  echo $! >"$run/pid"
  echo "ctrl_jax: started"
}

state() {  # [COMMIT [gs://...] RUN]
  if [ $# -gt 0 ] && [ -e "$run/pid" ] &&
      [ "$*" != "$(cat "$run/id" 2>/dev/null)" ]; then
    echo "ctrl_jax: other"
  elif is_running; then
    echo "ctrl_jax: running"
  elif [ -e "$run/stopping" ] && ! grep -qsx 0 "$run/exit"; then
    echo "ctrl_jax: exit stopped"
  elif [ -e "$run/exit" ]; then
    echo "ctrl_jax: exit $(cat "$run/exit")"
  elif [ -e "$run/pid" ]; then
    echo "ctrl_jax: lost"
  else
    echo "ctrl_jax: none"
  fi
}

log() {
  if [ ! -e "$run/log" ]; then
    echo "Error: nothing was started here: tpu_vm.sh run." >&2
    exit 2
  fi
  tail -n 100 -F --pid="$(cat "$run/pid")" "$run/log"
}

stop() {
  # Before it ends: nobody is to see the end, and not by whom.
  [ ! -e "$run/pid" ] || touch "$run/stopping"
  end
}

end() {
  local second
  is_running || return 0
  kill -TERM -- "-$(cat "$run/pid")"
  for ((second = 0; second < 300; second++)); do
    is_running || return 0
    sleep 1
  done
  kill -KILL -- "-$(cat "$run/pid")"
}

case "${1:-}" in
  setup | start | state | log | end | stop) "$@" ;;
  *)
    echo "Error: tpu_worker.sh: setup, start, state, log, end or stop?" >&2
    exit 2
    ;;
esac
