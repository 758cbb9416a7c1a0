#!/usr/bin/env bash
# From a clone to a trained model: installs missing packages, builds all programs, and trains the recommender
# with 2 parameter servers, 3 workers, a chief and an evaluator, each as a process.
#
#   deploy/quickstart.sh
#   deploy/quickstart.sh --no-install        installs nothing
#   deploy/quickstart.sh --preset dev        uses build/dev instead of build/release
#   deploy/quickstart.sh --run_dir DIR       the directory of checkpoints, logs and metrics
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

job=deploy/examples/recommender.yaml
preset=release
install=true
run=build/quickstart/$(date +%Y%m%d-%H%M%S)-$$
while [[ $# -gt 0 ]]; do
  case "$1" in
    --no-install) install=false ;;
    --preset) preset=${2:?--preset needs release or dev} && shift ;;
    --run_dir) run=${2:?--run_dir needs a directory} && shift ;;
    *)
      sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
      exit 64
      ;;
  esac
  shift
done
bin=build/$preset/bin

say() { printf '\n== %s\n' "$*"; }

if $install; then deploy/install_dependencies.sh; fi
if [[ ! -f build/$preset/build.ninja ]]; then
  say "configuring build/$preset"
  mkdir -p build
  # Kernels for GPUs take a quarter of the time of a build.
  gpu=OFF
  if compgen -G "/dev/nvidia[0-9]*" >/dev/null; then gpu=AUTO; fi
  cmake --preset "$preset" -DCOHORT_CUDA=$gpu >build/configure.log 2>&1 || {
    cat build/configure.log
    exit 1
  }
fi
say "building (the first time takes some minutes; a second run builds nothing)"
cmake --build --preset "$preset" --target cohort_suite

say "training $job: 2 parameter servers, 3 workers, a chief and an evaluator, seven processes"
mkdir -p "$run"
$bin/cohort local --ps 2 --workers 3 --evaluator --run_dir "$run" "$job"

say "what the evaluator found in the checkpoints that it saw"
grep '"kind":"checkpoint"' "$run/logs/metrics.jsonl" |
  sed -E 's/.*"step":([0-9]+),(.*),"seconds".*/  step \1: \2/; s/"//g; s/:([0-9.e+-]+)/ \1/g; s/,/, /g' || {
  echo "the evaluator evaluated nothing; its log: $run/tasks/evaluator-0.log" >&2
  exit 1
}

say "where things are"
cat <<EOF
checkpoints       $run/checkpoints
                  safetensors and a manifest; what is in them: $bin/cohort inspect $run/checkpoints
logs of the tasks $run/tasks
metrics           $run/logs/metrics.jsonl
TensorBoard       $run/logs   (tensorboard --logdir $run/logs)
EOF

say "what to try next"
cat <<EOF
# the model and its shard plan, without running it
$bin/cohort check --ps 2 $job
# the same job; the launcher restarts what dies: kill -9 a worker, a parameter server or the chief
$bin/cohort local --ps 2 --workers 3 --restart --run_dir $run-restart $job
# evaluates the newest checkpoint on the validation data
$bin/cohort evaluate $run/checkpoints
# evaluates the checkpoint with the best validation (keep_best in the job file)
$bin/cohort evaluate $run/checkpoints/best
# every key of a job file with its unit, default and meaning
less deploy/examples/every_key.yaml
# one process per task on your machines: docs/cluster.md
$bin/cohort --help
EOF
