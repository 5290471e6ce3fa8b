#!/usr/bin/env bash
# Installs what TileKV needs from Debian's packages.
#
#   deploy/install-packages.sh [build|test|bench]
#
# build  what building and running need, the quickstart included
# test   the default: the same and what the tests, the sanitizers and the linters need
# bench  what building needs, and what deploy/bench.sh measures against and draws with
#
# Does nothing, quickly, when everything is there. Runs as root, or by sudo where there is one.
set -euo pipefail

build_packages=(
  # The build.
  g++ cmake ninja-build ccache libgtest-dev libgmock-dev
  # Libraries: each has its line in deploy/cmake/TileKVPackages.cmake.
  libabsl-dev libfmt-dev libspdlog-dev libprotobuf-dev protobuf-compiler libgrpc++-dev protobuf-compiler-grpc
  librocksdb-dev libzstd-dev zlib1g-dev nlohmann-json3-dev libcli11-dev prometheus-cpp-dev
  # The catalog of a cluster.
  etcd-server etcd-client
  # The quickstart: a real model by pip, a matrix by NumPy.
  python3 python3-numpy python3-pip ca-certificates
)
test_packages=(
  # Sanitizers and linters.
  clang-14 libclang-rt-14-dev llvm-14 clang-tidy-14 clang-format-14 shellcheck git
  python3-venv
  # Certificates for an etcd that the tests start.
  openssl
  # The shells whose completion is tested, beside bash.
  zsh fish
  # Models of docs/models.
  spin
)

bench_packages=(libhiredis-dev redis-server python3-matplotlib git)

case ${1:-test} in
  build) wanted=("${build_packages[@]}") ;;
  test) wanted=("${build_packages[@]}" "${test_packages[@]}") ;;
  bench) wanted=("${build_packages[@]}" "${bench_packages[@]}") ;;
  *)
    echo "usage: deploy/install-packages.sh [build|test|bench]" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "This system has no dpkg. TileKV is built with the packages of Debian 12: ${wanted[*]}" >&2
  exit 1
fi

# missing PACKAGE...: prints those that are not installed.
missing() {
  local installed package
  installed=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^ii *//p' || true)
  for package in "$@"; do
    grep -qxF "$package" <<<"$installed" || printf '%s\n' "$package"
  done
}

missing_lines=$(missing "${wanted[@]}")
read -r -d '' -a lacking <<<"$missing_lines" || true # words; read ends with 1 at the end of its input
# BLAKE3: the library where the release has one, else the C sources that Debian 12 packs for Rust.
if [[ -n $(missing libblake3-dev) && -n $(missing librust-blake3-dev) ]]; then
  lacking+=(librust-blake3-dev)
fi
((${#lacking[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "These packages are missing; install them as root, then start again:" >&2
    echo "  apt-get update && apt-get install --no-install-recommends ${lacking[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing ${#lacking[@]} packages: ${lacking[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${lacking[@]}"
