#!/usr/bin/env bash
# Packs what tests/gpu/run.sh needs on a machine with a GPU and without this project's libraries:
#
#   tests/gpu/pack.sh [BUILD] [FILE]     default: build/release cohort-gpu-tests.tar.xz
#
# The build must have been configured with CUDA. The file holds programs, the shared libraries that they were
# linked with, golden files and jobs; at most 60 MB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build/release}
file=${2:-cohort-gpu-tests.tar.xz}
grep -q '^CMAKE_CUDA_COMPILER:[A-Z]*=/' "$build/CMakeCache.txt" || { echo "$build was configured without CUDA" >&2; exit 78; }
pack=$(mktemp -d)
trap 'rm -rf "$pack"' EXIT

programs=(bin/cohort bin/cohort-chief bin/cohort-doctor bin/cohort-in-process bin/cohort-profile bin/cohort-ps bin/cohort-worker
  tests/device_limits tests/device_test tests/device_kernels_test tests/exec_test tests/optimizers_test tests/resident_test
  tests/model_golden_test tests/application_golden_test)
mkdir -p "$pack/bin" "$pack/lib" "$pack/tests/golden"
for program in "${programs[@]}"; do
  cp "$build/$program" "$pack/bin/"
  # The loader and the C library travel too, so that the machine may run another distribution.
  ldd "$build/$program" | grep -o '/[^ ]*' | while read -r library; do cp -nL "$library" "$pack/lib/"; done
done
strip --strip-unneeded "$pack"/bin/* "$pack"/lib/*.so* 2>/dev/null || true
cp tests/golden/*.json tests/golden/*.json.gz "$pack/tests/golden/"
cp -r tests/golden/weights "$pack/tests/golden/"
cp tests/gpu/run.sh tests/gpu/torch_cuda_steps.py tests/gpu/jobs/* "$pack/"
# The golden models are small and of float64; steps are timed in float32, ResNet50 with images of 224 x 224.
zcat tests/golden/applications.json.gz | python3 -c '
import json, sys
for case in json.load(sys.stdin)["cases"]:
    model = json.loads(json.dumps(case["keras_json"]).replace("\"float64\"", "\"float32\""))
    for layer in model["config"]["layers"]:
        if case["name"] == "resnet50" and layer["class_name"] == "InputLayer":
            layer["config"]["batch_shape"] = [None, 224, 224, 3]
    if case["name"] in ("mobilenet_v2", "resnet50"):
        json.dump(model, open(sys.argv[1] + "/" + case["name"] + ".json", "w"))' "$pack"
# The programs share most of their code: a dictionary that spans them all saves a third.
tar -C "$pack" -c . | xz --x86 --lzma2=preset=6,dict=256MiB > "$file"
size=$(stat -c %s "$file")
echo "$file: $((size / 1000000)) MB"
[[ $size -le 60000000 ]] || { echo "$file is larger than 60 MB" >&2; exit 73; }
