# Sourced by tpu_vm.sh, whose variables these are: how a slice and its run are.
# shellcheck disable=SC2034,SC2154

# Sets $now: NONE; UNKNOWN, when gcloud does not say; the state of the slice;
# GONE, when it has no machines, and the queue does not know yet; or "ACTIVE
# RUN", with what look_at_run says.
look() {
  look_up queued-resources 'state.state'
  if [ "$now" = ACTIVE ]; then
    look_up tpu-vm state  # Of the machines: READY, PREEMPTED, ...
    case "$now" in
      READY) look_at_run ;;
      NONE) now=GONE ;;
    esac
  fi
}

look_up() {  # GROUP FIELD
  if [ -n "$dry_run" ]; then
    tpus "$1" describe "$name" "--format=value($2)"
    now="${dry_states[0]}"
    dry_states=("${dry_states[@]:1}")
  elif ! now="$(tpus "$1" describe "$name" "--format=value($2)" \
      2>"$errors")"; then
    now=UNKNOWN
    if grep -q NOT_FOUND "$errors"; then now=NONE; else cat "$errors" >&2; fi
  fi
}

# All workers together: none, running, done, mistake, stopped, preempted, failed;
# other, of another run than supervise's; or unknown, when they do not answer.
look_at_run() {
  local script=ctrl_jax/launch/tpu_worker.sh states ours=""
  [ "$verb" != supervise ] || ours=" $commit${data:+ "$data"} $(run_id)"
  local ask="if [ -e $script ]; then bash $script state$ours;"
  ask="$ask else echo ctrl_jax: none; fi"
  if [ -n "$dry_run" ]; then
    on_workers all "$ask"
    now="ACTIVE ${dry_runs[0]}"
    dry_runs=("${dry_runs[@]:1}")
    return
  fi
  states="$(on_workers all "$ask" 2>"$errors" | sed -n 's/.*ctrl_jax: //p' |
    sort -u | tr '\n' ';')" || states=""
  case ";$states" in
    *";other;"*) now="ACTIVE other" ;;
    *";exit 2;"*) now="ACTIVE mistake" ;;
    *";exit stopped;"*) now="ACTIVE stopped" ;;
    *";exit 143;"* | *";lost;"*) now="ACTIVE preempted" ;;
    ";exit 0;") now="ACTIVE done" ;;
    *";exit "[1-9]*) now="ACTIVE failed" ;;
    *";none;"*) now="ACTIVE none" ;;
    *";running;"*) now="ACTIVE running" ;;
    *) now="ACTIVE unknown"; cat "$errors" >&2 ;;
  esac
}

# Looks; $same is how often it was the same before. Says what is new, and now and
# then what is not.
look_again() {
  look
  same=$((same + 1))
  [ "$now" = "$seen" ] || same=0
  [ $((same % 60)) -gt 0 ] || note "$name: $now"
  seen="$now"
  case "$now" in
    UNKNOWN | "ACTIVE unknown")
      [ "$same" -lt 20 ] || { note "No answer 20 times in a row."; exit 1; } ;;
  esac
}
