#!/usr/bin/env bash
# Keeps the programs of a release for the tests of upgrades: writes release-VERSION.tar.xz beside this script, in place of
# the last one. The same programs give the same bytes.
#
#   tests/upgrade/keep_release.sh build/release 2.7
#
# The first argument is a release tree that deploy/install_dependencies.sh and `cmake --preset release` have built on
# Debian 12, amd64. The second one is the protocol that its programs speak (common/cluster/protocol_version.h).
set -euo pipefail
if [[ $# -ne 2 || ! "$2" =~ ^[0-9]+\.[0-9]+$ ]]; then
  sed -n '5s/^# *//p' "$0" >&2
  exit 64
fi
build=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"
programs=(cohort-chief cohort-ps cohort-worker)
stripped=$(mktemp -d)
trap 'rm -rf "$stripped"' EXIT
for program in "${programs[@]}"; do
  strip -s -o "$stripped/$program" "$build/bin/$program"
done
tar -C "$stripped" --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=0755 -cf - "${programs[@]}" |
  xz -9e --threads=1 >"$stripped/kept"
rm -f release-*.tar.xz
cp "$stripped/kept" "release-$2.tar.xz"
ls -l "release-$2.tar.xz"
