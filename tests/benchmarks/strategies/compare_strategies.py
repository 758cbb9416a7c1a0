#!/usr/bin/env python3
"""Training steps of multi_worker_mirrored beside TensorFlow's MultiWorkerMirroredStrategy and PyTorch's DDP, interleaved.

    tests/benchmarks/strategies/compare_strategies.py --build build/release

All train the MNIST CNN (32 filters of 3 x 3, 128, 10 units) with SGD on processes of this machine, 64 images each and one
thread each. A step takes one batch of each process, shuffled and scaled from the images in memory. The time of a run begins
after a warm-up and contains nothing but steps. TensorFlow's optimizer reduces with RING, DDP with Gloo; both use TCP.
Cohort is run with each of --transports: unix (sockets of the host and shared memory, its choice for such addresses) and tcp.

Prints steps per second as medians, and for each peer the median of the rounds' ratios (steps/s of Cohort over those of
the peer). Aims with 2 workers: 3 times TensorFlow's and 1.2 times PyTorch's.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "collective"),
             os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")]
from compare_gloo import Ranks  # noqa: E402
from compare_tensorflow import epoch_rates  # noqa: E402
from real_cluster import free_ports  # noqa: E402

JOB = """name: benchmark-mirrored
model:
  sequential:
    - Input: {{shape: [28, 28], feature: image}}
    - Reshape: {{target_shape: [28, 28, 1]}}
    - Conv2D: {{filters: 32, kernel_size: 3, activation: relu}}
    - MaxPooling2D
    - Flatten
    - Dense: {{units: 128, activation: relu}}
    - Dense: {{units: 10}}
compile: {{loss: sparse_categorical_crossentropy, from_logits: true, optimizer: {{SGD: {{learning_rate: 0.01}}}}}}
data:
  batch_size: {batch}
  visitation: independent
  train:
    idx: {{images: mnist/t10k-images-idx3-ubyte.gz, labels: mnist/t10k-labels-idx1-ubyte.gz}}
    take: 9000
    shuffle: true
    drop_remainder: true
    label: label
    transforms:
      - {{column: image, scale: 0.00392156862745098}}
fit: {{epochs: 2, steps_per_epoch: {closures}}}
strategy: {{closures_per_step: {workers}, communication: {communication}}}
"""


def cohort(args, transport):
    """Steps per second of the second of two epochs."""
    with tempfile.TemporaryDirectory() as directory:
        job = os.path.join(directory, "job.yaml")
        logs = os.path.join(directory, "logs")
        with open(job, "w", encoding="utf-8") as f:
            f.write(JOB.format(batch=args.batch, closures=args.steps * args.workers, workers=args.workers,
                               communication=args.communication))
        done = subprocess.run(
            [os.path.join(args.build, "bin", "cohort"), "local", "--strategy", "multi_worker_mirrored", "--workers",
             str(args.workers), "--transport", transport, "--task_flag", "worker=--threads=1", "--checkpoint_dir",
             os.path.join(directory, "checkpoints"), "--log_dir", logs, "--run_dir", os.path.join(directory, "run"), job],
            capture_output=True, text=True, check=False, env=dict(os.environ, COHORT_DATA_DIR=args.data))
        if done.returncode != 0:
            sys.exit("cohort local ended with %d:\n%s\n%s" % (done.returncode, done.stdout, done.stderr))
        return epoch_rates(logs)[1] / args.workers  # it counts closures


def tensorflow(args):
    ports = ",".join(map(str, free_ports(args.workers)))
    ranks = Ranks([[args.tensorflow_python, os.path.join(HERE, "tensorflow_peer.py"), str(rank), ports, "--batch",
                    str(args.batch), "--data", args.data] for rank in range(args.workers)])
    ranks.read()
    return ranks


def torch(args):
    port = str(free_ports(1)[0])
    ranks = Ranks([[args.torch_python, os.path.join(HERE, "torch_peer.py"), str(rank), str(args.workers), port, "--batch",
                    str(args.batch), "--data", args.data] for rank in range(args.workers)])
    ranks.read()
    return ranks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--tensorflow_python", default="build/venv-tensorflow/bin/python", help="with tf_keras")
    parser.add_argument("--torch_python", default="build/venv-steps/bin/python")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="images of one worker")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--communication", default="auto", help="how Cohort's replicas exchange gradients")
    parser.add_argument("--transports", nargs="+", default=["unix", "tcp"], choices=["unix", "tcp"])
    parser.add_argument("--data", default=os.environ.get("COHORT_DATA_DIR", ""))
    args = parser.parse_args()
    if not args.data:
        sys.exit("give --data or set COHORT_DATA_DIR: the folder that has mnist/")
    peers = {"TensorFlow": tensorflow(args), "PyTorch": torch(args)}
    rates = {name: [] for name in [*args.transports, *peers]}
    for _ in range(args.rounds):
        for transport in args.transports:
            rates[transport].append(cohort(args, transport))
        for name, ranks in peers.items():
            seconds = max(map(float, ranks.ask(["steps %d" % args.steps] * args.workers)))
            rates[name].append(1 / seconds)
        print(", ".join("%s %.1f" % (name, got[-1]) for name, got in rates.items()) + " steps/s", flush=True)
    for ranks in peers.values():
        ranks.stop()
    for transport in args.transports:
        ratios = {name: [a / b for a, b in zip(rates[transport], rates[name])] for name in peers}
        print("MNIST CNN, %d workers, %s over %s: %.1f steps/s; " % (
            args.workers, args.communication, transport, statistics.median(rates[transport])) + "; ".join(
                "%s %.1f, ratio %.2f (%.2f to %.2f)" % (name, statistics.median(rates[name]), statistics.median(of),
                                                        min(of), max(of)) for name, of in ratios.items()), flush=True)


if __name__ == "__main__":
    main()
