#!/usr/bin/env bash
# Trains on GKE by xpk (pip install xpk), on a cluster that `xpk cluster create`
# made; the image is launch/Dockerfile's.
#
#   bash launch/xpk.sh --name=NAME --cluster=CLUSTER --zone=ZONE \
#       --type=v5litepod-16 --image=IMAGE [OPTION ...] -- COMMAND
#
#   --project=...        if not gcloud's own
#   --max-restarts=1000  how often the training may be taken away; it goes on
#                        from its last checkpoint
#                        (of 120 seconds to save, Spot VMs leave 15 to 25)
#   --dry-run            prints the command, does not run it
#
# The data lie in the image, or in a bucket that xpk mounts in every container:
#   xpk storage attach data --type=gcsfuse --bucket=BUCKET --mount-point=/bucket \
#       --readonly=true --auto-mount=true --size=1 --cluster=CLUSTER --zone=ZONE
# and the command has --config.data.folder=/bucket/data/ctrl_256. Or train copies
# them into every container: --config.data.folder=gs://BUCKET/data/ctrl_256.
# The workdir's bucket must be one that the containers may write: with a storage
# attached xpk's account xpk-sa, which --readonly=true gives the right to read
# alone (another bucket, then, or roles/storage.objectUser for
# .../subject/ns/default/sa/xpk-sa, as README grants it to `ctrl`); without one
# the nodes' service account.
#
# Follow it: kubectl logs -f -l jobset.sigs.k8s.io/jobset-name=NAME
# End it:    xpk workload delete --workload=NAME --cluster=CLUSTER --zone=ZONE
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
name="" cluster="" zone="" type="" image="" project="" max_restarts=1000
command=()

while [ $# -gt 0 ]; do
  case "$1" in
    --name=?*) name="${1#*=}" ;;
    --cluster=?*) cluster="${1#*=}" ;;
    --zone=?*) zone="${1#*=}" ;;
    --type=?*) type="${1#*=}" ;;
    --image=?*) image="${1#*=}" ;;
    --project=?*) project="${1#*=}" ;;
    --max-restarts=?*) max_restarts="${1#*=}" ;;
    --dry-run) dry_run=1 ;;
    -h | --help) help_of "$0" ;;
    --) shift; command=("$@"); break ;;
    *) fail "unknown option, or one without its value: $1 (--help)" ;;
  esac
  shift
done
for option in name cluster zone type image; do
  [ -n "${!option}" ] || fail "--$option is missing (--help)."
done
[[ "$max_restarts" =~ ^[0-9]+$ ]] ||
  fail "--max-restarts=$max_restarts: give a number."
[ ${#command[@]} -gt 0 ] || fail "what to run? End with -- python -m" \
  "ctrl_jax.train --config=... --workdir=gs://..."
case " ${command[*]} " in
  *" --workdir=gs://"*) ;;
  *) fail "the command must have --workdir=gs://...: what lies in a container" \
    "goes with it." ;;
esac
needs xpk "pip install xpk"

# xpk starts again what ends with 42 or a code from 127 to 255, and is to start
# again what a missing machine or a bucket ended, which is 1; 2 is a mistake.
do_it xpk workload create "--workload=$name" "--cluster=$cluster" \
  "--zone=$zone" ${project:+"--project=$project"} "--tpu-type=$type" \
  --num-slices=1 "--docker-image=$image" "--max-restarts=$max_restarts" \
  --restart-on-exit-codes=1 \
  --termination-grace-period-seconds=120 \
  "--command=CTRL_JAX_PREEMPTED_EXIT_CODE=143 $(quoted "${command[@]}")"
