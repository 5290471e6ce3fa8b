#!/usr/bin/env bash
# Installs what is missing, builds, measures everything that TileKV claims to reach in one run, and writes
# docs/benchmarks.md and docs/benchmarks.png. About five minutes once it is built, and 12 GB of disk. Other work on the
# machine spoils it.
#
#   deploy/bench.sh [--quick] [--folder DIR] [--out DIR] [SECTION...]
#
# --quick shows in two minutes that everything works. Exit status 1 when a target is missed.
set -euo pipefail
# shellcheck source=deploy/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
part "packages" deploy/install-packages.sh bench
part "build (bench)" build_preset bench
current_part=measurements
/usr/bin/python3 deploy/bench.py --bin build/bench/bin "$@"
current_part=
