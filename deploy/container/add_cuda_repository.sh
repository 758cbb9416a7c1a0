#!/bin/sh
# Adds NVIDIA's package repository for Debian 12, by its package cuda-keyring. Called while an image is built.
set -eu
case "$(dpkg --print-architecture)" in
  amd64) machine=x86_64 ;;
  arm64) machine=sbsa ;;
  *)
    echo "$0: NVIDIA has no CUDA for $(dpkg --print-architecture)" >&2
    exit 1
    ;;
esac
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends ca-certificates curl
curl -fsSLo /tmp/cuda-keyring.deb \
  "https://developer.download.nvidia.com/compute/cuda/repos/debian12/$machine/cuda-keyring_1.1-1_all.deb"
dpkg -i /tmp/cuda-keyring.deb
rm /tmp/cuda-keyring.deb
apt-get update -qq
