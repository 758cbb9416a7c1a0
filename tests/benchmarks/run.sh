#!/usr/bin/env bash
# The benchmarks against peers, on a release build. Part of tests/run.sh --all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build/venv-tensorflow/bin/python tests/benchmarks/compare_tensorflow.py --build build/release
