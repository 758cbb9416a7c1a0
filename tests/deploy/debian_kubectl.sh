#!/usr/bin/env bash
# Prints the path of Debian 12's kubectl (package kubernetes-client, 1.20), whose kustomize is the oldest that
# deploy/kubernetes supports.
#
# It is not installed, because a machine may have another kubectl: the package is unpacked into build/kubectl once.
set -euo pipefail

cache=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/kubectl
mkdir -p "$cache"
exec {lock}>"$cache/lock"
flock "$lock"
if [[ ! -x "$cache/kubectl" ]]; then
  fetched=$(mktemp -d)
  trap 'rm -rf "$fetched"' EXIT
  cd "$fetched"
  apt-get download -qq kubernetes-client >&2 || {
    apt-get update -qq >&2
    apt-get download -qq kubernetes-client >&2
  }
  dpkg-deb -x kubernetes-client_*.deb unpacked
  mv unpacked/usr/bin/kubectl "$cache/kubectl"
fi
echo "$cache/kubectl"
