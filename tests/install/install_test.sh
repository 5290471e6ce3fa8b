#!/usr/bin/env bash
# install_test.sh BUILD_DIR CMAKE [CONFIGURE_FLAG...]: installs the build into a temporary prefix, moves the prefix away (an
# installed package has no absolute paths of its own), and builds and runs the project beside this script against it.
set -euo pipefail
build=$1 cmake=$2
shift 2
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/outside" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tilekv-install.XXXXXX")
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"

"$work/prefix/bin/tilekv" version
"$work/prefix/bin/tilekv-server" --help >/dev/null

"$cmake" -S "$project" -B "$work/outside" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" "$@"
"$cmake" --build "$work/outside"
"$work/outside/with_client" "$work/store-1"
"$work/outside/with_tilekv" "$work/store-2"
