#!/usr/bin/env bash
# in_temporary_directory.sh PROGRAM: runs PROGRAM DIR, where DIR is new, empty and gone afterwards.
set -euo pipefail
directory=$(mktemp -d "${TMPDIR:-/tmp}/tilekv-example.XXXXXX")
trap 'rm -rf "$directory"' EXIT
"$1" "$directory"
