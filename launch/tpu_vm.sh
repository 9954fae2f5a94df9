#!/usr/bin/env bash
# Trains on a slice of Cloud TPUs, from any machine that has gcloud.
#
#   bash launch/tpu_vm.sh COMMAND --name=NAME --zone=ZONE [OPTION ...] [-- ...]
#
#   create     asks for the slice (a queued resource) and waits for it
#   setup      installs this project on every worker, with its extras tpu, gcs
#   run        starts what follows -- on every worker; it outlives this terminal
#   watch      follows the log of worker 0
#   status     says how the slice and the run on it are
#   stop       ends the run by SIGTERM: a training saves; and a supervise
#   supervise  create, setup and run, and all of it again after a preemption,
#              until the run is done; the workdir must be in a bucket. Another
#              command or commit takes the place of what runs there
#   delete     gives the slice back
#
#   --type=v5litepod-16   what to ask for: create, supervise
#   --spot                at the price of what can be taken away
#   --version=...         of the machines' system, if not the type's usual one
#   --gcloud-flag=...     of `queued-resources create`, --reserved say; repeat it
#   --ref=HEAD            the commit of this folder to install
#   --data=gs://.../NAME  a prepared data set to copy to data/NAME
#   --project=...         if not gcloud's own
#   --poll=60             seconds between two looks at a slice
#   --max-failures=3      what may go wrong before supervise gives up: a run that
#                         ends with an error, say; forgotten once one has lasted
#                         for half an hour
#   --dry-run             prints every command, runs none
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
name="" zone="" project="" type="" version="" ref=HEAD data="" poll=60
max_failures=3 spot="" create_flags=() command=()
commit=""  # That $ref is now.
# What the looks at a slice find in a dry run, in turn.
dry_states=() dry_runs=()
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$root/launch/common.sh"
# shellcheck source-path=SCRIPTDIR source=tpu_look.sh
source "$root/launch/tpu_look.sh"
errors="$(mktemp)"
trap 'rm -f "$errors"' EXIT

tpus() {  # GROUP VERB ...
  do_it gcloud compute tpus "$@" "--zone=$zone" ${project:+"--project=$project"}
}

on_workers() {  # WHICH COMMAND, in their home folders.
  tpus tpu-vm ssh "$name" "--worker=$1" "--command=$2" --quiet
}

worker() {  # Arguments of tpu_worker.sh, for every worker.
  on_workers all "bash ctrl_jax/launch/tpu_worker.sh $(quoted "$@")"
}

# Stands for the command, whatever is in it.
run_id() { quoted "${command[@]}" | git hash-object --stdin; }

pause() { [ -n "$dry_run" ] || sleep "$poll"; }

usual_version() {
  case "$type" in
    v2-* | v3-* | v4-*) echo tpu-ubuntu2204-base ;;
    v5litepod-*) echo v2-alpha-tpuv5-lite ;;
    v5p-*) echo v2-alpha-tpuv5 ;;
    v6e-*) echo v2-alpha-tpuv6e ;;
  esac
}

create() {
  tpus queued-resources create "$name" "--node-id=$name" \
    "--accelerator-type=$type" "--runtime-version=$version" \
    ${spot:+--spot} ${create_flags[@]+"${create_flags[@]}"} --quiet
}

delete() { tpus queued-resources delete "$name" --force --quiet; }

wait_for_slice() {
  local same=0 seen=""
  while :; do
    look_again
    case "$now" in
      ACTIVE*) return ;;
      NONE | GONE | FAILED | SUSPENDED)
        echo "Error: no slice ($now): gcloud compute tpus queued-resources" \
          "describe $name says why; delete it, and ask again." >&2
        return 1 ;;
    esac
    pause
  done
}

setup() {
  local archive="${TMPDIR:-/tmp}/ctrl_jax-$name.tar.gz"
  [ -z "$(git -C "$root" status --porcelain --untracked-files=no)" ] ||
    echo "Note: changes of $root that are not committed are left out." >&2
  do_it git -C "$root" archive --format=tar.gz "--output=$archive" "$commit" &&
    tpus tpu-vm scp "$archive" "$name:ctrl_jax.tar.gz" --worker=all --quiet &&
    on_workers all "if [ -e ctrl_jax/launch/tpu_worker.sh ]; then\
 bash ctrl_jax/launch/tpu_worker.sh end; fi &&\
 rm -rf ctrl_jax && mkdir ctrl_jax &&\
 tar -xzf ctrl_jax.tar.gz -C ctrl_jax &&\
 bash ctrl_jax/launch/tpu_worker.sh setup $commit${data:+ "$data"}"
}

start() { worker start "$(run_id)" "${command[@]}"; }

show_log() { on_workers 0 "tail -n 20 ctrl_jax_run/log" || true; }

# What a look calls for, if not patience (REPAIRING, RESTARTING, ...). Counts what
# goes wrong.
react() {
  case "$now" in
    NONE) create || failures=$((failures + 1)) ;;
    GONE) [ "$same" -lt 5 ] || delete || true ;;  # The queue mostly notices.
    # What was taken away is still in the queue's list, under its name.
    SUSPENDED | PREEMPTED | TERMINATED) delete || true ;;
    FAILED)  # No quota, a disk that is not there, ...
      failures=$((failures + 1))
      tpus queued-resources describe "$name" \
        "--format=value(state.failedData)" >&2 || true
      delete || true ;;
    STOPPED)
      fail "the machines of $name are stopped, not taken away: start them" \
        "(gcloud compute tpus tpu-vm start $name --zone=$zone), or delete the" \
        "slice." ;;
    "ACTIVE none" | "ACTIVE other")
      if setup && start; then started=1; else failures=$((failures + 1)); fi ;;
    "ACTIVE preempted")
      # The slice is about to go, or its machines were only started anew.
      [ "$same" -lt 5 ] || { same=0; start || true; } ;;
    "ACTIVE failed")
      show_log
      failures=$((failures + 1))
      [ "$failures" -ge "$max_failures" ] || start || true ;;
    "ACTIVE stopped")
      note "By 'stop': supervise goes on; the slice is still there."
      exit 1 ;;
    "ACTIVE mistake")
      show_log
      fail "the command says so above (exit code 2): mend it, and run it" \
        "again; or delete the slice, which is still there." ;;
  esac
}

# The command begins again wherever it runs next: from its last checkpoint.
supervise() {
  local failures=0 same=0 seen="" started=""
  while :; do
    look_again
    case "$now" in
      "ACTIVE done") return 0 ;;
      "ACTIVE running")
        started=1
        [ $((same * poll)) -lt 1800 ] || failures=0 ;;
      "ACTIVE mistake" | "ACTIVE failed" | "ACTIVE stopped")
        # An earlier supervise's, and perhaps mended: in the bucket, say.
        [ -n "$started" ] || now="ACTIVE none" ;;
    esac
    react
    if [ "$failures" -ge "$max_failures" ]; then
      note "Gave up after $failures failures; the slice, if any, is still there."
      exit 1
    fi
    pause
  done
}

parse() {
  verb="${1:-}"
  case "$verb" in
    create | setup | run | watch | status | stop | supervise | delete) shift ;;
    -h | --help | help) help_of "$0" ;;
    *) fail "${verb:-no command}: create, setup, run, watch, status, stop," \
      "supervise or delete? (--help)" ;;
  esac
  while [ $# -gt 0 ]; do
    case "$1" in
      --name=?*) name="${1#*=}" ;;
      --zone=?*) zone="${1#*=}" ;;
      --project=?*) project="${1#*=}" ;;
      --type=?*) type="${1#*=}" ;;
      --version=?*) version="${1#*=}" ;;
      --gcloud-flag=--*) create_flags+=("${1#*=}") ;;
      --ref=?*) ref="${1#*=}" ;;
      --data=gs://?*) data="${1#*=}"; data="${data%/}" ;;
      --poll=?*) poll="${1#*=}" ;;
      --max-failures=?*) max_failures="${1#*=}" ;;
      --spot) spot=1 ;;
      --dry-run) dry_run=1 ;;
      -h | --help) help_of "$0" ;;
      --) shift; command=("$@"); break ;;
      *) fail "unknown option, or one without its value: $1 (--help)" ;;
    esac
    shift
  done
}

check() {
  [[ "$name" =~ ^[a-z]([-a-z0-9]*[a-z0-9])?$ ]] ||
    fail "--name='$name': lower-case letters, digits and hyphens, a letter" \
      "first."
  [ -n "$zone" ] || fail "--zone is missing, as in --zone=us-west4-a."
  # No zero in front, which would mean another base; nothing that overflows.
  [[ "$poll" =~ ^(0|[1-9][0-9]{0,5})$ ]] ||
    fail "--poll=$poll: give seconds, up to 999999."
  [[ "$max_failures" =~ ^[1-9][0-9]{0,5}$ ]] ||
    fail "--max-failures=$max_failures: give a number from 1 to 999999."
  [[ -z "$data" || "$data" =~ ^gs://[a-z0-9][a-z0-9_.-]*(/[A-Za-z0-9_.:-]+)+$ &&
    ! "$data/" =~ /\.\.?/ ]] ||
    fail "--data=$data: a folder of a bucket, letters, digits and _ . - alone" \
      "in its path, no part of it empty or . or .."
  case "$verb" in
    create | supervise)
      [ -n "$type" ] || fail "--type is missing, as in --type=v5litepod-16."
      version="${version:-$(usual_version)}"
      [ -n "$version" ] || fail "--type=$type: give --version, too (gcloud" \
        "compute tpus tpu-vm versions list --zone=$zone)." ;;
  esac
  case "$verb" in
    setup | supervise)
      commit="$(git -C "$root" rev-parse --verify --quiet "$ref^{commit}")" ||
        fail "--ref=$ref is no commit of $root." ;;
  esac
  case "$verb" in
    run | supervise)
      [ ${#command[@]} -gt 0 ] || fail "what to run? End with -- python -m" \
        "ctrl_jax.train --config=... --workdir=gs://..." ;;
    *) [ ${#command[@]} -eq 0 ] || fail "$verb takes no command after --." ;;
  esac
  if [ "$verb" = supervise ]; then
    case " ${command[*]} " in
      *" --workdir=gs://"*) ;;
      *" --workdir gs://"*) fail "write --workdir=gs://..., with the sign." ;;
      *) fail "the command must have --workdir=gs://...: what lies on a slice" \
        "goes with it." ;;
    esac
  fi
  check_is_committed
  needs gcloud https://cloud.google.com/sdk/docs/install
}

# What is not in the commit is on no worker.
check_is_committed() {
  local part file
  [ -n "$commit" ] || return 0
  for part in ${command[@]+"${command[@]}"}; do
    case "$part" in
      --config=*.py | --config=*.py:*)
        file="${part#--config=}"
        file="${file%%.py*}.py"
        git -C "$root" cat-file -e "$commit:$file" 2>/dev/null ||
          fail "$file is not in commit ${commit:0:9}, which the workers get:" \
            "commit it, and the files that it imports." ;;
    esac
  done
}

main() {
  parse "$@"
  check
  case "$verb" in
    create) dry_states=(ACTIVE READY) dry_runs=(none)
      create && wait_for_slice ;;
    setup) setup ;;
    run) start ;;
    watch) on_workers 0 "bash ctrl_jax/launch/tpu_worker.sh log" ;;
    status) dry_states=(ACTIVE READY) dry_runs=(running)
      look; note "$name: $now" ;;
    stop) worker stop ;;
    # A preemption comes in between.
    supervise)
      dry_states=(NONE ACTIVE READY ACTIVE READY SUSPENDED NONE ACTIVE READY
        ACTIVE READY)
      dry_runs=(none running none "done")
      supervise ;;
    delete) delete ;;
  esac
}

main "$@"
