#!/usr/bin/env bash
# Makes a bare Debian 12 root file system, for tests that install Cohort into one.
#
#   tests/deploy/debian_root.sh DIRECTORY    fills DIRECTORY, which must be empty or absent
#
# The first call runs debootstrap (about a minute, network needed) and keeps the result as a tar file in
# build/debian-root; later calls unpack it. Calls at the same time wait for each other.
#
# The root has a sources.list with Debian's security updates, but no package lists: call `apt-get update` in it.
# COHORT_DEBIAN_MIRROR names another mirror.
#
# Exit codes: 64 for a wrong call, 77 if this is not root or debootstrap is not installed, else those of debootstrap.
set -euo pipefail

if [[ $# -ne 1 ]]; then
  sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
  exit 64
fi
target=$1
if [[ $(id -u) -ne 0 ]] || ! command -v debootstrap >/dev/null; then
  echo "$0: this needs root and the package debootstrap (deploy/install_dependencies.sh --test)" >&2
  exit 77
fi
if [[ -e "$target" && -n "$(ls -A "$target")" ]]; then
  echo "$0: $target is not empty" >&2
  exit 64
fi
cache=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/debian-root
mirror=${COHORT_DEBIAN_MIRROR:-http://deb.debian.org/debian}
tar_file=$cache/bookworm-minbase.tar
mkdir -p "$cache" "$target"

exec {lock}>"$cache/lock"
flock "$lock"
if [[ ! -f "$tar_file" ]]; then
  making=$(mktemp -d "$cache/making.XXXXXX")
  trap 'rm -rf --one-file-system "$making" "$tar_file.new"' EXIT
  log=$cache/debootstrap.log
  debootstrap --variant=minbase bookworm "$making" "$mirror" >"$log" 2>&1 || {
    code=$?
    tail -n 20 "$log" >&2
    exit $code
  }
  cat >"$making/etc/apt/sources.list" <<LIST
deb $mirror bookworm main
deb $mirror bookworm-updates main
deb ${mirror%/debian}/debian-security bookworm-security main
LIST
  rm -rf "$making"/var/lib/apt/lists/* "$making"/var/cache/apt/archives/*.deb
  tar -C "$making" --one-file-system -cf "$tar_file.new" .
  mv "$tar_file.new" "$tar_file"
fi
flock -u "$lock"
tar -C "$target" -xpf "$tar_file"
cp /etc/resolv.conf "$target/etc/resolv.conf"
