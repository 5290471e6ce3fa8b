#!/usr/bin/env bash
# Installs what is missing, builds the release preset and runs every test; prints the minutes of each part.
#
#   deploy/test.sh [ctest arguments, such as -R NAME or -L unit]
set -euo pipefail
# shellcheck source=deploy/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

run_tests() {
  ctest --test-dir "$ROOT/build/release" --parallel "$(nproc)" --output-on-failure --no-tests=error "$@"
}

part "packages" "$ROOT/deploy/install-packages.sh" test
part "build (release)" build_preset release
part "tests" run_tests "$@"
