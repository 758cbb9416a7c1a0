#!/usr/bin/env bash
# A long run of a cluster beside kills, cuts and slow links: right weights at the end, and nothing grows.
#
#   tests/soak/run.sh [--all] [BUILD]     a minute per mode, with --all half an hour; default: build/release
#
# tests/cluster/soak_test.cc has the disturbances and the gates: memory, descriptors, files, journal.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=60
[[ ${1:-} == --all ]] && { seconds=1800; shift; }
build=${1:-build/release}
COHORT_SOAK_SECONDS=$seconds exec ctest --test-dir "$build" --output-on-failure --verbose \
  -R '^soak_(sync|async)_test$'
