#!/usr/bin/env bash
# Builds a preset of CMakePresets.json into build/PRESET.
#
#   deploy/build.sh [release|dev|asan|tsan] [TARGET...]
set -euo pipefail
# shellcheck source=deploy/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
build_preset "${1:-release}" "${@:2}"
