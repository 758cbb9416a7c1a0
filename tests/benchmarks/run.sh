#!/usr/bin/env bash
# The benchmarks on a release build, each printed with its terms. Part of tests/run.sh --all.
#
#   tests/benchmarks/run.sh             all of them; fails where a ratio that is a goal is missed
#   tests/benchmarks/run.sh --quick     fewer rounds
#
# Environment: COHORT_BUILD (build/release), COHORT_TENSORFLOW_PYTHON (build/venv-tensorflow's; with
# tensorflow-cpu and tf_keras), COHORT_STEPS_PYTHON (build/venv-steps's; with torch and tensorflow-cpu),
# COHORT_DATA_DIR. Absolute times are printed and never asserted.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${COHORT_BUILD:-build/release}
python=${COHORT_TENSORFLOW_PYTHON:-build/venv-tensorflow/bin/python}
steps_python=${COHORT_STEPS_PYTHON:-build/venv-steps/bin/python}
rounds=5
apply_rounds=9
transport_launches=6
journal_closures=1000000
if [[ "${1:-}" == --quick ]]; then
  rounds=3
  apply_rounds=5
  transport_launches=2
  journal_closures=100000
fi
failed=()

# Runs one benchmark. A failure does not stop the script, which then runs the next one.
run() {
  local name=$1
  shift
  echo
  echo "== $name"
  "$@" || failed+=("$name")
}

echo "== machine: $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), Linux $(uname -r), load $(cut -d' ' -f1-3 /proc/loadavg)"
run "copies and allocations of a step" "$build/tests/data_path_counts_test"
run "applies" "$build/bin/apply_bench" --rounds "$apply_rounds"
run "transport" "$build/bin/transport_bench" --launches "$transport_launches" --check
run "steps per second, beside TensorFlow" python3 tests/benchmarks/compare_tensorflow.py --build "$build" \
  --tensorflow_python "$python" --rounds "$rounds"
run "decoding images, beside tf.data" python3 tests/benchmarks/compare_image_decoding.py --build "$build" \
  --python "$python" --rounds "$rounds"
run "a large layer, read in place, beside TensorFlow" python3 tests/benchmarks/in_place/in_place.py --build "$build" \
  --tensorflow "$python" --rounds "$rounds"
run "mutual TLS beside plaintext" python3 tests/benchmarks/compare_tls.py --build "$build" --rounds "$rounds"
run "mode sync beside async" python3 tests/benchmarks/compare_modes.py --build "$build" --rounds "$rounds"
if [[ -x "$steps_python" ]]; then
  run "a step in one process, beside PyTorch and TensorFlow" python3 tests/benchmarks/compare_steps.py --build "$build" \
    --python "$steps_python" --rounds "$rounds"
  run "gradients summed and new values everywhere, beside an all-reduce of Gloo" \
    python3 tests/benchmarks/collective/compare_gloo.py --build "$build" --python "$steps_python" --rounds "$rounds"
  run "steps of multi_worker_mirrored, beside TensorFlow and PyTorch" \
    python3 tests/benchmarks/strategies/compare_strategies.py --build "$build" --torch_python "$steps_python" \
    --tensorflow_python "$python" --rounds "$rounds"
else
  echo "not run: steps and all-reduce beside PyTorch and TensorFlow, because there is no $steps_python"
fi
for job in recommender mnist_mlp; do
  run "two copies of each tablet, $job" python3 tests/benchmarks/compare_copies.py --builds "$build" --job "$job" \
    --rounds "$rounds" --least 0.6
done
run "memory of servers" python3 tests/benchmarks/server_memory.py --build "$build"
run "checkpoints and killed servers" python3 tests/benchmarks/cuts_and_kills.py --build "$build" --rounds "$((rounds + 2))"
run "the journal over a million closures" python3 tests/benchmarks/journal_growth.py --build "$build" \
  --closures "$journal_closures"

echo
if [[ ${#failed[@]} -gt 0 ]]; then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
echo "all goals met"
