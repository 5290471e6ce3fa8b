# shellcheck shell=bash
# Shared by the scripts of this folder and by CI: where things are, how they are built, how they report. Sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export ROOT

# One cache of compiled objects for every clone and preset: paths below the repository count as relative to it.
export CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-time_macros}

die() {
  printf '%s\n' "$*" >&2
  exit 1
}

# part NAME COMMAND...: runs a command as a named part and prints the minutes it took; a failure names the part and ends
# the script.
part() {
  local name=$1 started=$SECONDS
  shift
  printf '== %s\n' "$name"
  current_part=$name
  "$@"
  current_part=
  printf '== %s: %s\n' "$name" "$(minutes $((SECONDS - started)))"
}
current_part=
trap '[[ -z $current_part ]] || printf "== %s: FAILED\n" "$current_part" >&2' EXIT

# minutes SECONDS: "2.5 min".
minutes() {
  printf '%d.%d min' $(($1 / 60)) $(($1 % 60 / 6))
}

# build_preset PRESET [TARGET...]: configures build/PRESET and builds it, or only the targets named.
build_preset() {
  local preset=$1 target_args=()
  shift
  (($# == 0)) || target_args=(--target "$@")
  (
    cd "$ROOT" || exit
    cmake --preset "$preset" >/dev/null
    cmake --build "build/$preset" "${target_args[@]}"
  )
}
