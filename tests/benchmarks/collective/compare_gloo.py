#!/usr/bin/env python3
"""Steps of multi_worker_mirrored with one large variable, beside a Gloo all-reduce of the same bytes, interleaved.

    compare_gloo.py --build build/release --python build/venv-steps/bin/python [--ranks 2,4] [--rounds 5]

A step of the job computes the gradient of a dense layer from one record, sums it among the replicas, updates the weights
and brings the new values to every replica. An all-reduce of torch.distributed only sums, and leaves the result everywhere.
The ranks are processes of this machine with one thread each. Gloo uses TCP; Cohort uses TCP, and in another run the
unix sockets and the shared memory of the host. Prints medians, and the median of the rounds' ratios: time of Cohort's step
over the time of Gloo's all-reduce.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "in_place"),
             os.path.join(os.path.dirname(os.path.dirname(HERE)), "python")]
from compare_tensorflow import epoch_rates  # noqa: E402
from in_place import write_npy  # noqa: E402
from real_cluster import dies_with_parent, free_ports  # noqa: E402

RECORDS = 64
JOB = """name: benchmark-ring
model:
  sequential:
    - Input: {{shape: [{side}], feature: x}}
    - Dense: {{units: {side}, use_bias: false}}
compile: {{loss: mean_squared_error, optimizer: {{SGD: {{learning_rate: 1.0e-9}}}}}}
data:
  batch_size: 1
  visitation: independent
  train:
    npy: {{files: [{directory}/x.npy, {directory}/y.npy]}}
    label: y
fit: {{epochs: 2, steps_per_epoch: {closures}}}
strategy: {{closures_per_step: {ranks}, communication: {communication}}}
"""


class Ranks:
    """Processes that answer lines."""

    def __init__(self, commands):
        self.processes = [subprocess.Popen(dies_with_parent(c), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                          for c in commands]

    def ask(self, lines):
        """Sends each process its line; returns their answers."""
        for process, line in zip(self.processes, lines):
            process.stdin.write(line + "\n")
            process.stdin.flush()
        return self.read()

    def read(self):
        answers = [process.stdout.readline().strip() for process in self.processes]
        if not all(answers) or "error" in answers:
            sys.exit("a rank has failed: %s" % answers)
        return answers

    def stop(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(timeout=60)


def gloo(python, ranks):
    port = free_ports(1)[0]
    group = Ranks([[python, os.path.join(HERE, "gloo_peer.py"), str(i), str(ranks), str(port)] for i in range(ranks)])
    group.read()
    return group


def cohort(args, ranks, side, transport):
    """Seconds of one step, in the second of two epochs."""
    with tempfile.TemporaryDirectory() as directory:
        for file in ("x.npy", "y.npy"):
            write_npy(os.path.join(directory, file), (RECORDS, side), 0.5)
        job = os.path.join(directory, "job.yaml")
        logs = os.path.join(directory, "logs")
        with open(job, "w", encoding="utf-8") as f:
            f.write(JOB.format(side=side, ranks=ranks, directory=directory, closures=args.steps * ranks,
                               communication=args.communication))
        done = subprocess.run(
            [os.path.join(args.build, "bin", "cohort"), "local", "--strategy", "multi_worker_mirrored", "--workers",
             str(ranks), "--transport", transport, "--task_flag", "worker=--threads=1", "--checkpoint_dir",
             os.path.join(directory, "checkpoints"), "--log_dir", logs, "--run_dir", os.path.join(directory, "run"), job],
            capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit("cohort local ended with %d:\n%s\n%s" % (done.returncode, done.stdout, done.stderr))
        return ranks / epoch_rates(logs)[1]  # it counts closures


def compare(args, ranks):
    peer = gloo(args.python, ranks)
    print("| %d ranks, %s | Gloo, all-reduce | step, TCP | step, shared memory | TCP | shared memory |" %
          (ranks, args.communication))
    print("|---|---|---|---|---|---|")
    for side in args.sides:
        size = 4 * side * side
        times = {"tcp": [], "unix": [], "gloo": []}
        for _ in range(args.rounds):
            for transport in ("tcp", "unix"):
                times[transport].append(cohort(args, ranks, side, transport))
            times["gloo"].append(max(map(float, peer.ask(["run %d %d" % (size, args.steps)] * ranks))))
        cells = ["%.1f ms" % (1000 * statistics.median(times[way])) for way in ("gloo", "tcp", "unix")]
        cells += ["%.2f" % statistics.median(a / b for a, b in zip(times[way], times["gloo"])) for way in ("tcp", "unix")]
        print("| %d MB | %s |" % (size >> 20, " | ".join(cells)), flush=True)
    print(flush=True)
    peer.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--python", default="build/venv-steps/bin/python", help="an interpreter with torch")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--sides", default="512,1024,2048,4096", help="rows and columns of the layer")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--communication", default="ring")
    args = parser.parse_args()
    args.sides = [int(side) for side in args.sides.split(",")]
    for ranks in map(int, args.ranks.split(",")):
        compare(args, ranks)


if __name__ == "__main__":
    main()
