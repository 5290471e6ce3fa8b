#!/usr/bin/env bash
# Searches the models of docs/models whole, and each of their mutations for its counterexample, with spin and a C compiler.
#
#   deploy/check-models.sh [MODEL...]     gc-fence, drop-rule, ...; all of them where none is named
#
# What is run stands in the comment at the top of each model:
#   Instance: NAME=VALUE ...     holds with these values too
#   Mutation: NAME=VALUE  what   does not hold
# Each search has at most 512 MiB; as many run at once as there are processors. Exit status 1 if anything is not as it should be, 77 where
# spin is not installed, unless CI is set.
set -euo pipefail
# shellcheck source=deploy/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export memory_mib=512 depth=20000 seconds=600

# search MODEL holds|fails [NAME=VALUE...]: one search, one line.
search() (
  set -euo pipefail
  model=$1 expected=$2
  shift 2
  started=$SECONDS
  directory=$(mktemp -d)
  trap 'rm -rf "$directory"' EXIT
  cd "$directory"
  cp "$ROOT/docs/models/$model.pml" .
  spin "${@/#/-D}" -a "$model.pml" >spin.log || { cat spin.log; exit 1; }
  "${CC:-cc}" -O1 -w -DSAFETY -DMEMLIM="$memory_mib" -o pan pan.c
  flags=("-m$depth")
  # Processes of a model about data may wait for ever; those of one about budgets may not.
  [[ $model == *budget* ]] || flags+=(-E)
  timeout "$seconds" ./pan "${flags[@]}" >log 2>&1 || true
  case $expected in
    holds) good=$(grep -c 'errors: 0$' log) && ! grep -Eq 'not completed|too small|aborted|out of memory' log || good=0 ;;
    fails) good=$(grep -Ec 'assertion violated|invalid end state \(' log) || good=0 ;;
  esac
  states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' log)
  printf '%-14s %-20s %s: %s states, %s s\n' "$model" "$*" \
    "$( ((good)) && echo "$expected, as it must" || echo "WRONG, it must be so that it $expected")" "${states:-no}" $((SECONDS - started))
  ((good)) || { cat log; exit 1; }
)
export -f search

# plan MODEL: "MODEL holds|fails [NAME=VALUE...]" for everything that its comment names.
plan() {
  local file=$ROOT/docs/models/$1.pml
  [[ -f $file ]] || die "there is no model $1 in docs/models"
  grep -q '^ *Mutation: ' "$file" || die "docs/models/$1.pml names no mutation that it catches"
  echo "$1 holds"
  sed -n "s/^ *Instance: \([A-Z]*=[A-Z0-9= ]*\).*/$1 holds \1/p; s/^ *Mutation: \([A-Z]*=[0-9]*\) .*/$1 fails \1/p" "$file"
}

if ! command -v spin >/dev/null; then
  [[ -z ${CI:-} ]] || die "spin is not installed: deploy/install-packages.sh test installs it"
  echo "passed over: spin is not installed (deploy/install-packages.sh test installs it)"
  exit 77
fi
models=("$@")
if ((${#models[@]} == 0)); then
  for file in "$ROOT"/docs/models/*.pml; do
    models+=("$(basename "$file" .pml)")
  done
fi
searches=$(for model in "${models[@]}"; do plan "$model"; done)
# shellcheck disable=SC2016 # expanded by the inner shell, which splits a line into its words
xargs -P "$(nproc)" -I LINE bash -c 'search $1' bash LINE <<<"$searches"
echo "$(wc -l <<<"$searches") searches, all as they must be"
