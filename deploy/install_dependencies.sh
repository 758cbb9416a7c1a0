#!/usr/bin/env bash
# Installs the packages that Cohort is built from; all are packages of Debian 12. It is quick if they are
# installed.
#
#   deploy/install_dependencies.sh              what a build needs
#   deploy/install_dependencies.sh --runtime    only what installed programs need
#   deploy/install_dependencies.sh --test       also what the tests need: clang, its sanitizers, Python's venv
#   deploy/install_dependencies.sh --print      prints the names and installs nothing
set -euo pipefail

build=(
  build-essential ca-certificates cmake ninja-build ccache mold pkg-config
  libgrpc++-dev libgrpc-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  libc-ares-dev libre2-dev libssl-dev zlib1g-dev libzip-dev libzstd-dev
  libfmt-dev libcli11-dev libyaml-cpp-dev nlohmann-json3-dev
  prometheus-cpp-dev libcivetweb-dev libcurl4-openssl-dev libmicrohttpd-dev
  libjpeg62-turbo-dev libpng-dev libfarmhash-dev
  libdnnl-dev ocl-icd-opencl-dev libhwy-dev libmimalloc-dev libhdf5-dev libmuparser-dev librocksdb-dev
  catch2 python3
)
test=(clang libclang-rt-14-dev clang-format llvm python3-venv git procps iproute2 debootstrap openssl file systemd)
runtime=(
  libabsl20220623 libgrpc++1.51 libgrpc29 libprotobuf32 libssl3 zlib1g libzip4 libzstd1 libfmt9 libyaml-cpp0.7
  libprometheus-cpp-core1.0 libcurl4 libmicrohttpd12 libjpeg62-turbo libpng16-16 libfarmhash0
  libdnnl2 libgomp1 ocl-icd-libopencl1 libhwy1 libmimalloc2.0 libhdf5-103-1 libmuparser2v5 librocksdb7.8 libstdc++6
)
# Debian has this library for one architecture. Without it AES of TLS takes twice as long.
if [[ "$(dpkg --print-architecture)" == amd64 ]]; then
  build+=(libipsec-mb-dev)
  runtime+=(libipsec-mb1)
fi

wanted=("${build[@]}")
print=false
for argument in "$@"; do
  case "$argument" in
    --test) wanted+=("${test[@]}") ;;
    --runtime) wanted=("${runtime[@]}") ;;
    --print) print=true ;;
    *)
      echo "usage: $0 [--test | --runtime] [--print]" >&2
      exit 64
      ;;
  esac
done
if $print; then
  printf '%s\n' "${wanted[@]}"
  exit 0
fi

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "$0: run this as root: apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 77
  fi
  as_root=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
