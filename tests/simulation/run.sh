#!/bin/sh
# Many schedules: run.sh [--schedules N] [--seed S] [--bug NAME] [--build DIR]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../../build/release
TILEKV_SIMULATION_SCHEDULES=100000
while [ $# -gt 1 ]; do
  case $1 in
    --schedules) TILEKV_SIMULATION_SCHEDULES=$2 ;;
    --seed) export TILEKV_SIMULATION_SEED="$2" ;;
    --bug) export TILEKV_SIMULATION_BUG="$2" ;;
    --build) build=$2 ;;
    *) echo "run.sh: unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
if [ $# -ne 0 ]; then echo "run.sh: $1 needs a value" >&2; exit 2; fi
export TILEKV_SIMULATION_SCHEDULES
exec "$build/bin/simulation_test" --gtest_filter='Simulation.*:SimulationOfNames.*'
