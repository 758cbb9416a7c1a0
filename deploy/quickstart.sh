#!/usr/bin/env bash
# From a clone to a trained model: installs what is missing, builds a release, then trains the recommender
# on 2 parameter servers and 3 workers, with a chief and an evaluator, each a process of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

job=deploy/examples/recommender.yaml
bin=build/release/bin
run=build/quickstart/$(date +%Y%m%d-%H%M%S)-$$

say() { printf '\n== %s\n' "$*"; }

deploy/install_dependencies.sh
if [[ ! -f build/release/build.ninja ]]; then
  say "configuring build/release"
  mkdir -p build
  cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
fi
say "building (the first time takes some minutes; a second run builds nothing)"
cmake --build --preset release --target cohort cohort-ps cohort-worker cohort-chief cohort-evaluator

say "training $job: 2 ps, 3 workers, a chief, an evaluator"
mkdir -p "$run"
$bin/cohort local --ps 2 --workers 3 --evaluator --run_dir "$run" "$job"

# The newest figures of the evaluator in metrics.jsonl, as "epoch 4, step 800, loss 0.1, accuracy 1".
evaluated=$({ grep '"kind":"checkpoint"' "$run/logs/metrics.jsonl" || true; } | tail -n 1 |
  sed -E 's/[{}"]//g; s/(time|set|kind):[^,]*,//g; s/:/ /g; s/,/, /g')
echo "evaluator   ${evaluated:-evaluated nothing}"

cat <<EOF

== where things are
checkpoints:        $run/checkpoints   (safetensors; look: $bin/cohort inspect $run/checkpoints)
logs of the tasks:  $run/tasks
metrics:            $run/logs/metrics.jsonl
TensorBoard files:  $run/logs   (tensorboard --logdir $run/logs)

== what to try next
$bin/cohort check --ps 2 $job          the model and its shard plan, without running it
$bin/cohort local --ps 2 --workers 3 --restart $job
                                       then kill -9 a worker while it trains
$bin/cohort evaluate $run/checkpoints
$bin/cohort --help
EOF
