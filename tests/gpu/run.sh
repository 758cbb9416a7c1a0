#!/usr/bin/env bash
# Tests and times everything that needs a GPU, and prints one table (Markdown) for tests/benchmarks/RESULTS.md.
#
#   tests/gpu/run.sh [--device cuda:0] [FILE | FOLDER]
#
# FILE is what tests/gpu/pack.sh packed, FOLDER a place where it was unpacked; default: the folder of this script.
# The machine needs a driver and cuBLAS, and no network. compute-sanitizer and Python with PyTorch are used if they
# are there. Takes at most 10 minutes. Ends with 1 if a test fails.
set -uo pipefail
device=cuda:0
[[ ${1:-} == --device ]] && { device=$2; shift 2; }
source=${1:-$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [[ -f $source ]]; then
  mkdir "$scratch/pack" && tar -C "$scratch/pack" -xJf "$source" && source=$scratch/pack || exit 66
fi
cd "$source" || exit 66
[[ -x bin/cohort ]] || { echo "$source holds no programs: make them with tests/gpu/pack.sh" >&2; exit 66; }
export COHORT_SOURCE_DIR=$source COHORT_TEST_DEVICE=$device COHORT_DATA_DIR=$scratch
# PyTorch brings the libraries of CUDA in its own folders.
python=$(command -v python3 || true)
torch_libraries=$([[ -n $python ]] && "$python" -c '
import glob, os, site
print(":".join(sorted({os.path.dirname(p) for d in site.getsitepackages() for p in glob.glob(d + "/nvidia/**/lib*.so*", recursive=True)})))' 2>/dev/null)
libraries=$source/lib:/usr/local/cuda/lib64${torch_libraries:+:$torch_libraries}:${LD_LIBRARY_PATH:-}
failed=0
rows=()
simulated=$([[ $device == simulated* ]] && echo true || echo false)

# run PROGRAM ARGUMENTS...: one of the packed programs, with the packed loader and libraries.
run() {
  local program=$1
  shift
  "$source/lib/ld-linux-x86-64.so.2" --library-path "$libraries:$(ldconfig -p 2>/dev/null | grep -o '/[^ ]*libcuda\.so\.1' | head -1 | xargs -r dirname)" \
    "$source/bin/$program" "$@"
}

row() { rows+=("| $1 | $2 |"); echo "-- $1: $2"; }

# check NAME SECONDS PROGRAM ARGUMENTS...: a test; its result is a row of the table.
check() {
  local name=$1 seconds=$2 log="$scratch/${3//\//_}.log" code
  shift 2
  [[ $simulated == true ]] && seconds=$((seconds * 4))  # loops on one core of the CPU
  if timeout "$seconds" bash -c "$(declare -f run); source='$source' libraries='$libraries' run \"\$@\"" _ "$@" > "$log" 2>&1; then
    row "$name" "passed ($(grep -o '[0-9]* assertions[^)]*' "$log" | tail -1))"
  else
    code=$?
    failed=1
    tail -40 "$log"
    row "$name" "FAILED$([[ $code == 124 ]] && echo ": longer than $seconds s")"
  fi
}

echo "== $(run cohort-doctor --devices "$device")"
check "devices" 60 device_test
check "kernels beside the CPU's, float32 and float64" 180 device_kernels_test
check "programs, slots, gradient rules" 120 exec_test
check "optimizers beside the CPU's, whole variables and rows" 120 optimizers_test
check "variables that live on the device" 120 resident_test
check "golden models of Keras" 120 model_golden_test
check "MobileNetV2, ResNet50, EfficientNetB0 beside Keras" 180 application_golden_test

echo "== memory errors"
if [[ $simulated == true ]]; then
  row "compute-sanitizer" "skipped: the device is simulated"
elif sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null); then
  if timeout 120 "$sanitizer" --error-exitcode 9 "$source/lib/ld-linux-x86-64.so.2" --library-path "$libraries" \
    "$source/bin/device_kernels_test" > "$scratch/sanitizer.log" 2>&1; then
    row "compute-sanitizer" "clean"
  else
    failed=1
    tail -20 "$scratch/sanitizer.log"
    row "compute-sanitizer" "FAILED"
  fi
else
  row "compute-sanitizer" "not installed here"
fi

# The same job twice, the second time with a worker that is killed: the same weights to the bit.
echo "== a cluster of 2 workers on $device and 2 servers"
awk 'BEGIN { srand(3); print "a,b,place,label"; for (i = 0; i < 4000; ++i) { a = rand() - 0.5; b = rand() - 0.5; p = int(rand() * 20);
  printf "%.4f,%.4f,%d,%d\n", a, b, p, (a * b > 0) == (p > 6) } }' > "$scratch/points.csv"
# Programs that start other programs need wrappers, because the loader is not that of the machine.
mkdir "$scratch/bin"
for program in cohort cohort-chief cohort-in-process cohort-ps cohort-worker; do
  printf '#!/bin/bash\nexec "%s" --library-path "%s" --argv0 "%s" "%s" "$@"\n' "$source/lib/ld-linux-x86-64.so.2" "$libraries" \
    "$scratch/bin/$program" "$source/bin/$program" > "$scratch/bin/$program"
  chmod +x "$scratch/bin/$program"
done
train() {
  timeout 120 "$scratch/bin/cohort" local --fresh --restart --ps 2 --workers 2 --bin_dir "$scratch/bin" --task_flag "worker=--devices=$device" \
    --run_dir "$scratch/$1" --checkpoint_dir "$scratch/$1/checkpoints" --log_dir "$scratch/$1/logs" "$source/cluster.yaml" \
    > "$scratch/$1.log" 2>&1
}
weights() { find "$scratch/$1/checkpoints" -name '*.safetensors' -printf '%f\n' -exec sha256sum {} + | sed 's# .*/# #' | sort | tail -4; }
began=$(date +%s.%N)
if train quiet; then
  row "cluster, undisturbed" "$(awk -v b="$began" -v e="$(date +%s.%N)" 'BEGIN { printf "%.1f s", e - b }')"
  (
    until ls "$scratch"/killed/checkpoints/*/manifest.json > /dev/null 2>&1; do sleep 0.1; done
    pkill -KILL -n -f "^[^ ]*ld-linux.*$scratch/bin/cohort-worker" && touch "$scratch/was_killed"
  ) &
  killer=$!
  if train killed && [[ -f $scratch/was_killed && $(weights quiet) == "$(weights killed)" && -n $(weights quiet) ]]; then
    row "cluster, a worker killed" "recovered, the same weights to the bit"
  else
    failed=1
    tail -20 "$scratch/killed.log"
    row "cluster, a worker killed" "FAILED"
  fi
  kill "$killer" 2>/dev/null
else
  failed=1
  tail -20 "$scratch/quiet.log"
  row "cluster, undisturbed" "FAILED"
fi

# The same job in one process: variables, sums and updates stay on the device. Two replicas that share it have the
# losses of one.
pair=$device,${device%:*}:$((${device#*:} + 1))
in_process() {
  local name=$1
  shift
  timeout 120 "$scratch/bin/cohort-in-process" train --fresh --virtual_gpus 2 --run_dir "$scratch/$name" --checkpoint_dir "$scratch/$name/checkpoints" \
    --log_dir "$scratch/$name/logs" "$@" "$source/cluster.yaml" > "$scratch/$name.log" 2>&1 &&
    grep -q variables_on_device "$scratch/$name/tasks/"*
}
last_loss() { grep -o '"loss": *[0-9.e-]*' "$scratch/$1/logs/metrics.jsonl" | tail -1; }
if in_process single --strategy one_device --devices "$device" && in_process double --strategy mirrored --devices "$pair" &&
  [[ -n $(last_loss single) && $(last_loss single) == "$(last_loss double)" ]]; then
  row "mirrored over $pair" "variables on both; the loss of one device, to the last digit"
else
  failed=1
  tail -20 "$scratch/single.log" "$scratch/double.log"
  row "mirrored over $pair" "FAILED"
fi

# The largest FLOP/s (a product of float32 matrices) and memory bandwidth (a copy) of the device.
echo "== limits"
limit_flops=- limit_bytes=-
if [[ $simulated == true ]]; then
  row "limits" "skipped: the device is simulated"
elif limits=$(timeout 60 bash -c "$(declare -f run); source='$source' libraries='$libraries' run device_limits --devices '$device'" 2>&1); then
  read -r limit_flops limit_bytes <<< "$limits"
  row "limits" "$limit_flops GFLOP/s in a product of 8192 x 8192 float32, $limit_bytes GB/s in a copy of 1 GiB"
else
  failed=1
  row "limits" "FAILED: $(tail -1 <<< "$limits")"
fi

# Milliseconds of a training step, beside PyTorch with and without torch.compile where it is installed: variables on the
# host, which a step pulls and pushes, and variables that live on the device, as PyTorch's.
echo "== steps"
awk 'BEGIN { srand(4); for (i = 0; i < 13; ++i) printf "d%d,", i; for (i = 0; i < 26; ++i) printf "c%d,", i; print "label";
  for (n = 0; n < 4096; ++n) { for (i = 0; i < 13; ++i) printf "%.4f,", rand(); for (i = 0; i < 26; ++i) printf "%d,", int(rand() * 100000);
  print n % 2 } }' > "$scratch/dlrm.csv"

# profile MODEL STEPS WARMUP RESIDENT: prints "MILLISECONDS BYTES GFLOP/S GB/S" of a step, or what went wrong.
profile() {
  local text
  text=$(timeout 90 bash -c "$(declare -f run); source='$source' libraries='$libraries' run \"\$@\"" _ cohort-profile "$source/step_$1.yaml" \
    --devices "$device" --step_only --steps "$2" --warmup "$3" --resident_variables="$4" 2>&1) || { tail -1 <<< "$text"; return 1; }
  awk '/a step copies/ { bytes = $4 } /a step takes/ { ms = $4 } / GFLOP and / { flops = $(NF - 3); memory = $(NF - 1) }
    END { print ms, bytes, flops, memory }' <<< "$text"
}

for model in mlp cnn mobilenet_v2 resnet50 dlrm; do
  steps=200 warmup=20
  [[ $model == resnet50 ]] && steps=50 warmup=10
  if [[ $simulated == true ]]; then
    steps=1 warmup=0
    if [[ $model == mobilenet_v2 || $model == resnet50 ]]; then
      row "step of $model" "skipped: too slow on a simulated device"
      continue
    fi
  fi
  pulled=$(profile "$model" "$steps" "$warmup" false) && resident=$(profile "$model" "$steps" "$warmup" true) ||
    { failed=1; row "step of $model" "FAILED: ${resident:-$pulled}"; resident=; continue; }
  peers=
  if [[ -n $python && $simulated == false ]]; then
    peers=$(timeout 100 "$python" "$source/torch_cuda_steps.py" --model "$model" 2>/dev/null | xargs)
  fi
  row "step of $model" "$(awk -v pulled="$pulled" -v resident="$resident" -v peers="$peers" -v flops="$limit_flops" -v bytes="$limit_bytes" 'BEGIN {
    split(pulled, p, " "); split(resident, r, " "); peer_count = split(peers, t, " ")
    printf "%s ms, %s bytes copied; variables on the device: %s ms, %s bytes", p[1], p[2], r[1], r[2]
    if (flops != "-") printf ", %.0f %% of the FLOP/s and %.0f %% of the bandwidth", 100 * r[3] / flops, 100 * r[4] / bytes
    if (peer_count > 0 && t[1] != "-") printf "; PyTorch eager %s ms (%.2f x)", t[1], t[1] / r[1]
    if (peer_count > 1 && t[2] != "-") printf ", torch.compile %s ms (%.2f x)", t[2], t[2] / r[1]
    if (peer_count == 0) printf "; no PyTorch beside it" }')"
  resident=
done

printf '\n| on %s | |\n|---|---|\n' "$(run cohort-doctor --devices "$device" | grep -A1 "  $device" | head -1 | sed 's/^ *//')"
printf '%s\n' "${rows[@]}"
exit "$failed"
