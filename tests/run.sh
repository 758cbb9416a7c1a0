#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests. What .ci/run calls.
#
#   tests/run.sh          what CI runs: all tests in the release tree, and in the trees of the address and
#                         the thread sanitizer, which have assertions, those that are labelled for them
#   tests/run.sh --all    and what is long: tests labelled `long`, all tests in the sanitizers' trees, the
#                         comparisons with TensorFlow and Keras
#   tests/run.sh --since REF    only the tests of folders that changed since the commit REF, and of those that
#                         depend on them
#   tests/run.sh --tree release|asan|tsan|dev    one tree only
#   tests/run.sh --no-install                    takes the machine as it is
#
# COHORT_WERROR=ON: warnings are errors in the release tree, too; .ci/run sets it. (A release tree that was
# built without it is rebuilt completely.)
# A skipped test that is not on tests/lint/allowed_skips.txt fails the run. A test that fails runs twice more, alone. If
# it passes then, the run passes, too, and its last lines list the test as UNSTABLE, with the log of its failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=false
since=
install=true
trees=(release asan tsan)
while [[ $# -gt 0 ]]; do
  case "$1" in
    --all)
      all=true
      ;;
    --no-install) install=false ;;
    --since)
      since=${2:?--since needs a commit}
      shift
      ;;
    --tree)
      trees=("${2:?--tree needs release, asan, tsan or dev}")
      shift
      ;;
    *)
      sed -n '2,16s/^# \{0,1\}//p' "$0" >&2
      exit 64
      ;;
  esac
  shift
done
jobs=$(nproc)
# Real data beside the checkout, where there is some (deploy/examples name the public sources).
if [[ -z "${COHORT_DATA_DIR:-}" && -d ../shared/data ]]; then
  COHORT_DATA_DIR=$(cd ../shared/data && pwd)
  export COHORT_DATA_DIR
fi
# Each commit tries other seeds of the simulator.
commit=$(git rev-parse --short=7 HEAD 2>/dev/null || echo 0)
export COHORT_SIMULATOR_FIRST=${COHORT_SIMULATOR_FIRST:-$((16#$commit % 100000 * 10000 + 1))}
if $all; then
  export COHORT_SIMULATOR_SEEDS=${COHORT_SIMULATOR_SEEDS:-10000} COHORT_COLLECTIVE_SEEDS=${COHORT_COLLECTIVE_SEEDS:-3000}
  export COHORT_FUZZ_SECONDS=${COHORT_FUZZ_SECONDS:-600}
fi
started=$SECONDS
closing=()
unstable=()
failed=false

# Makes a Python environment with these packages, unless it is there already.
make_venv() {
  local venv=$1
  shift
  local stamp="$venv/.cohort-packages"
  if [[ -f "$stamp" && "$(cat "$stamp")" == "$*" ]]; then return; fi
  echo "== making $venv: $*"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"
  echo "$*" >"$stamp"
}

# Configures and builds build/<tree>, runs its tests, notes ctest's closing line.
run_tree() {
  local tree=$1 target=$2
  shift 2
  local log="build/$tree-ctest.log" junit="$PWD/build/$tree-ctest.xml" from=$SECONDS
  echo "== $tree: configure and build"
  mkdir -p build
  cmake --preset "$tree" "$@" >"build/$tree-configure.log" 2>&1 || {
    cat "build/$tree-configure.log"
    closing+=("$tree: could not be configured")
    return 1
  }
  local selection=() targets=("$target")
  $all || selection=(-LE long)
  if [[ -n "$labels" ]]; then
    selection+=(-L "$labels")
    mapfile -t targets < <(ctest --preset "$tree" "${selection[@]}" --show-only=json-v1 2>/dev/null |
      python3 tests/lint/test_programs.py)
    if [[ ${#targets[@]} -eq 0 ]]; then
      closing+=("$tree: no test depends on the change")
      return 0
    fi
  fi
  cmake --build --preset "$tree" --target "${targets[@]}" -- -j "$jobs" || {
    closing+=("$tree: could not be built")
    return 1
  }
  rm -f "build/$tree/unstable.txt"
  echo "== $tree: test ($((SECONDS - from)) s so far)"
  local result=0
  # One more than there are processors: many tests wait for most of their time.
  ctest --preset "$tree" -j $((jobs + 1)) --no-tests=error --output-junit "$junit" \
    "${selection[@]}" 2>&1 | tee "$log" || python3 tests/lint/rerun_failed.py "build/$tree" "$junit" || result=1
  python3 tests/lint/check_skips.py "$junit" tests/lint/allowed_skips.txt || result=1
  local name
  if [[ -f "build/$tree/unstable.txt" ]]; then
    while read -r name; do
      unstable+=("UNSTABLE: $tree, $name: it failed beside other tests and passed alone; build/$tree/unstable/$name.log")
    done <"build/$tree/unstable.txt"
  fi
  closing+=("$tree: $(grep -E '^[0-9]+% tests passed' "$log" || echo 'no test was run'), $((SECONDS - from)) s")
  return $result
}

if $install; then
  deploy/install_dependencies.sh --test
  make_venv build/venv numpy==2.4.6 safetensors==0.8.0 tensorboard==2.21.0 grpcio==1.85.1 \
    grpcio-tools==1.85.1 kubernetes-validate==1.37.0 pyyaml==6.0.3
  make_venv build/venv-keras keras==3.15.1 tensorflow-cpu==2.21.0 numpy==2.4.6 safetensors==0.8.0 pillow==13.0.0 \
    pyyaml==6.0.3 pandas==3.1.1 onnx==1.23.2 onnxruntime==1.32.0 nbclient==0.11.0 ipykernel==7.4.0 matplotlib==3.11.2
fi
cuda_options=()
if $all; then
  cuda_options=(-DCOHORT_CUDA_ARCHITECTURES="75;80;86;89;90;100;120")
  sanitizer_options=(-DCOHORT_ALL_TESTS=ON)
else
  sanitizer_options=(-DCOHORT_ALL_TESTS=OFF)
fi
if $all; then
  if $install; then
    make_venv build/venv-frameworks keras==3.15.1 torch==2.15.0 torchvision==0.29.2 jax==0.10.2 flax==0.12.8 \
      optax==0.2.8 numpy==2.4.6 safetensors==0.8.0 pyyaml==6.0.3 onnx==1.23.2 onnxruntime==1.32.0
    make_venv build/venv-tensorflow tensorflow-cpu==2.21.0 tf_keras==2.21.0
    make_venv build/venv-steps keras==3.15.1 tensorflow-cpu==2.21.0 torch==2.15.0
  fi
fi

# The label of the tests to run, as a regular expression; empty: all tests.
labels=
if [[ -n "$since" ]]; then
  folders=$(python3 tests/lint/rooms_since.py "$since")
  if [[ "$folders" != all ]]; then labels="^folder:($(paste -sd '|' <<<"$folders"))\$"; fi
  echo "== since $since: $(paste -sd ' ' <<<"$folders")"
fi

for tree in "${trees[@]}"; do
  case "$tree" in
    # The tree that deploy/quickstart.sh and the benchmarks take, too. It keeps that warnings are errors.
    release)
      run_tree release all ${COHORT_WERROR:+"-DCOHORT_WERROR=$COHORT_WERROR"} "${cuda_options[@]}" || failed=true
      ;;
    dev) run_tree dev all || failed=true ;;
    asan | tsan)
      # What is slow under a sanitizer gets more time, not less of a test.
      COHORT_TEST_TIME_SCALE=${COHORT_TEST_TIME_SCALE:-8} run_tree "$tree" cohort_tests \
        "${sanitizer_options[@]}" || failed=true
      ;;
    *)
      echo "$0: there is no tree $tree" >&2
      exit 64
      ;;
  esac
done
if $all && [[ -x tests/benchmarks/run.sh ]]; then
  echo "== benchmarks, beside TensorFlow"
  # Nothing is left to build, but after --tree.
  cmake --preset release >build/release-configure.log 2>&1 || failed=true
  cmake --build --preset release -- -j "$jobs" || failed=true
  tests/benchmarks/run.sh || failed=true
  echo "== accuracy, beside Keras"
  python3 tests/accuracy/compare_accuracy.py --python build/venv-keras/bin/python || failed=true
  python3 tests/accuracy/compare_clicks.py --python build/venv-keras/bin/python || failed=true
fi

echo "== $((SECONDS - started)) s"
printf '%s\n' "${closing[@]}"
for line in "${unstable[@]}"; do
  log=${line##* }
  echo "== $log"
  tail -n 40 "$log"
done
[[ ${#unstable[@]} -eq 0 ]] || printf '%s\n' "${unstable[@]}"
if $failed; then
  echo "tests/run.sh: failed"
  exit 1
fi
echo "tests/run.sh: passed"
