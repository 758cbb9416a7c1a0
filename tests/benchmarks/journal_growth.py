#!/usr/bin/env python3
"""The chief's journal over a long job: how large it gets, and how long a chief takes to restart.

    python3 tests/benchmarks/journal_growth.py --build build/release

One job on real daemons (1 parameter server, 2 workers), one step of one example per closure. The chief is killed with
SIGKILL and started again after --first closures and after --closures; a restart is timed from the start of the process
to the next closure that it counts. The size of the journal's directory is sampled all the time. Prints both, and fails
if the directory was larger than 20 MB or the later restarts (median) took more than 1.5 times as long as the first
ones.
"""
import argparse
import os
import re
import statistics
import sys
import threading
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_BYTES = 20_000_000
MOST_RATIO = 1.5

JOB = """name: journal-growth
model:
  sequential:
    - Input: {shape: [3], dtype: int64, feature: features}
    - Embedding: {input_dim: 8, output_dim: 4}
    - GlobalAveragePooling1D
    - Dense: {units: 1, activation: sigmoid}
compile: {loss: binary_crossentropy, optimizer: {SGD: {learning_rate: 0.01}}, metrics: [accuracy]}
data:
  batch_size: 1
  visitation: exactly_once
  train:
    generator: {name: recommender, records: 20000, seed: 1}
    label: label
    transforms:
      - column: features
        lookup: string
        vocabulary: [avenger, ironman, batman, hulk, spiderman, kingkong, wonder_woman]
      - {column: label, equals: "yes"}
fit: {epochs: 1000000}
checkpoint: {directory: checkpoints, every_steps: %d}
"""


class Growth(threading.Thread):
    """Samples the size of a directory until the end."""

    def __init__(self, directory):
        super().__init__(daemon=True)
        self.directory, self.largest, self.samples = directory, 0, 0

    def size(self):
        total = 0
        for name in os.listdir(self.directory):
            try:
                total += os.stat(os.path.join(self.directory, name)).st_size
            except FileNotFoundError:
                pass  # replaced or deleted in between
        return total

    def run(self):
        while True:
            if os.path.isdir(self.directory):
                self.largest = max(self.largest, self.size())
                self.samples += 1
            time.sleep(0.01)


class Chief:
    """The chief of a cluster, with what its metrics say."""

    def __init__(self, cluster, job, flags, admin_port):
        self.cluster, self.job, self.flags, self.admin_port = cluster, job, flags, admin_port

    def start(self):
        self.cluster.start("chief", 0, [self.job, *self.flags, "--admin_port=%d" % self.admin_port])

    def kill(self):
        self.cluster.processes["chief", 0].kill()
        self.cluster.processes["chief", 0].wait()

    def metric(self, name):
        """Its value; 0 while the chief does not answer."""
        if not self.cluster.running("chief"):
            raise AssertionError("the chief has ended:\n" + self.cluster.text("chief")[-3000:])
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.admin_port, timeout=30) as page:
                found = re.search(r"^%s (\S+)$" % name, page.read().decode(), re.M)
                return float(found.group(1)) if found else 0.0
        except (urllib.error.URLError, ConnectionError):
            return 0.0

    def train_until(self, steps):
        while self.metric("cohort_chief_steps") < steps:
            time.sleep(0.02)

    def restart(self):
        """Seconds from the start of a new process to its first closure."""
        self.kill()
        begin = time.monotonic()
        self.start()
        while self.metric("cohort_chief_closures_total") < 1:
            time.sleep(0.002)
        return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="build tree with the daemons")
    parser.add_argument("--closures", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=1_000)
    parser.add_argument("--restarts", type=int, default=5, help="timed, at each of the two places")
    parser.add_argument("--checkpoint_steps", type=int, default=100_000)
    options = parser.parse_args()
    os.environ["COHORT_BINARY_DIR"] = os.path.abspath(options.build)
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "python"))
    from real_cluster import Directory, RealCluster, free_ports

    with Directory() as directory, RealCluster(directory, ps=1, workers=2) as cluster:
        job = os.path.join(directory, "job.yaml")
        with open(job, "w", encoding="utf-8") as f:
            f.write(JOB % options.checkpoint_steps)
        cluster.start("ps")
        for index in range(2):
            cluster.start("worker", index)
        checkpoints = os.path.join(directory, "checkpoints")
        growth = Growth(os.path.join(checkpoints, "journal"))
        growth.start()
        chief = Chief(cluster, job, ["--checkpoint_dir", checkpoints, "--log_dir", os.path.join(directory, "logs")],
                      free_ports(1)[0])
        chief.start()
        seconds = {}
        for closures in (options.first, options.closures):
            begin = time.monotonic()
            chief.train_until(closures)
            print("%d closures after %.1f s; journal: %d bytes, at most %d in %d samples" % (
                closures, time.monotonic() - begin, growth.size(), growth.largest, growth.samples), flush=True)
            seconds[closures] = [chief.restart() for _ in range(options.restarts)]
            print("  from a restart to the next closure: median %.3f s of %s" % (
                statistics.median(seconds[closures]), ", ".join("%.3f" % s for s in seconds[closures])), flush=True)
        ratio = statistics.median(seconds[options.closures]) / statistics.median(seconds[options.first])
        print("journal: at most %.2f MB (goal: 20); restart after %d closures: %.2f x of that after %d (goal: 1.5)" % (
            growth.largest / 1e6, options.closures, ratio, options.first))
        chief.kill()
        return 0 if growth.largest <= MOST_BYTES and ratio <= MOST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
