#!/usr/bin/env bash
# Runs every fuzzer for a while, two at a time.
#
#   tests/fuzz/run.sh [SECONDS]     of each; 30 by default
#
# Builds the preset `fuzz` first. What a fuzzer finds is left in build/fuzz/found and named; it goes to
# tests/fuzz/corpus/NAME once it is mended. Inputs that reach new code stay in build/fuzz/corpus.
set -euo pipefail
# shellcheck source=deploy/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/lib.sh"
cd "$ROOT"
seconds=${1:-30}
build_preset fuzz fuzzers

# fuzz NAME: one fuzzer; its own log is shown where it fails.
fuzz() {
  local name=$1 work=build/fuzz/corpus/$1 log=build/fuzz/$1.log
  mkdir -p "$work" build/fuzz/found
  if "build/fuzz/bin/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -verbosity=1 \
    -artifact_prefix="build/fuzz/found/$name-" "$work" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
    printf '%s: %s\n' "$name" "$(grep -E '^Done' "$log" || tail -1 "$log")"
  else
    cat "$log" >&2
    printf '%s: FAILED, see build/fuzz/found\n' "$name" >&2
    return 1
  fi
}
export -f fuzz
export seconds

printf '%s\n' tests/fuzz/corpus/* | xargs -n1 basename | xargs -P2 -I{} bash -euo pipefail -c 'fuzz {}'
