#!/usr/bin/env python3
"""What a checkpoint and a dead parameter server cost a job that trains.

    python3 tests/benchmarks/cuts_and_kills.py --build build/release

Each job runs on real daemons: 2 parameter servers, async. Prints
  - from SIGKILL of a server to the next update that it applies, started again at once (3 workers);
  - GB/s of a checkpoint, from the request to its commit, over those of plain writes with fsync: the same bytes, in as
    many files at once, on the same disk, in turn with the checkpoints (1 worker, which trains meanwhile);
  - the longest step during a checkpoint beside the median step before it. A step is the time between two updates of
    server 0, whose apply log is read every 0.1 ms (1 worker).
"""
import argparse
import json
import os
import random
import statistics
import sys
import threading
import time

from compare_tensorflow import HERE, JOBS

CHUNK = os.urandom(1 << 20)


def small():
    return JOBS["recommender"].format(steps=1_000_000)


def wide():
    """5 MB of weights and twice as much of slots; each step changes all of them."""
    return JOBS["mnist_mlp"].format(steps=1_000_000).replace("units: 128", "units: 1600")


def large():
    """410 MB of weights; each step changes 7 rows of them."""
    return small().replace("input_dim: 8, output_dim: 20", "input_dim: 1600000, output_dim: 64").replace(
        "RMSprop: {learning_rate: 0.1}", "SGD: {learning_rate: 0.1}")


class Updates(threading.Thread):
    """Follows the apply log of a server: when it was read that an update was applied."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.times, self.lives, self.last, self.rest = path, [], 0, None, b""
        self.ended = False

    def run(self):
        while not os.path.exists(self.path):
            time.sleep(0.01)
        with open(self.path, "rb") as log:
            while not self.ended:
                data = log.read()
                if not data:
                    time.sleep(0.0001)
                    continue
                now = time.monotonic()
                *lines, self.rest = (self.rest + data).split(b"\n")
                for line in lines:
                    self.take(line, now)

    def take(self, line, now):
        if line.startswith(b"# cohort apply log"):
            self.lives += 1
            self.last = None
        words = line.split()
        # A server has a line for each of its tablets.
        if words[-1] == b"applied" and words[:3] != self.last:
            self.last = words[:3]
            self.times.append(now)

    def wait(self, more, limit_s=120):
        """Returns the time of the update that follows `more` others."""
        count = len(self.times) + more
        deadline = time.monotonic() + limit_s
        while len(self.times) <= count:
            if time.monotonic() > deadline:
                raise AssertionError("%s: no update for %d s" % (self.path, limit_s))
            time.sleep(0.0005)
        return self.times[count]


class Job:
    """A running job with its control socket."""

    def __init__(self, directory, text, workers, warm_up=200):
        from real_cluster import RealCluster
        self.warm_up = warm_up  # updates
        self.directory, self.checkpoints = directory, os.path.join(directory, "checkpoints")
        self.cluster = RealCluster(directory, ps=2, workers=workers)
        self.job = os.path.join(directory, "job.yaml")
        with open(self.job, "w", encoding="utf-8") as f:
            f.write(text)

    def __enter__(self):
        self.cluster.start_servers_and_workers()
        self.updates = [Updates(self.cluster.apply_log(ps)) for ps in range(2)]
        self.cluster.start("chief", 0, [self.job, "--checkpoint_dir", self.checkpoints, "--log_dir",
                                        os.path.join(self.directory, "logs")])
        for updates in self.updates:
            updates.start()
        self.updates[0].wait(self.warm_up)
        return self

    def __exit__(self, *_):
        for updates in self.updates:
            updates.ended = True
            updates.join()
        self.cluster.__exit__()

    def checkpoint(self):
        """Takes a checkpoint. Returns the seconds and its directory."""
        begin = time.monotonic()
        from real_cluster import program, run
        asked = run([program("cohort"), "ctl", self.checkpoints, "checkpoint", "--json"], limit_s=600)
        if asked.returncode != 0:
            raise AssertionError(asked.stdout + asked.stderr)
        answer = json.loads(asked.stdout)
        return time.monotonic() - begin, answer["checkpoint"]


def plain_writes(directory, sizes):
    """Seconds that as many threads take to write and fsync files of these sizes."""
    def write(name, size):
        with open(os.path.join(directory, name), "wb", buffering=0) as f:
            for begin in range(0, size, len(CHUNK)):
                f.write(CHUNK[:size - begin])
            os.fsync(f.fileno())

    threads = [threading.Thread(target=write, args=("plain-%d" % i, size)) for i, size in enumerate(sizes)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begin
    for i in range(len(sizes)):
        os.unlink(os.path.join(directory, "plain-%d" % i))
    return seconds


def spread(values, form="%.3f"):
    return ("median " + form + " (" + form + " to " + form + ")") % (
        statistics.median(values), min(values), max(values))


def kills(name, text, rounds):
    from real_cluster import Directory
    seconds = []
    with Directory() as directory, Job(directory, text, workers=3) as job:
        for number in range(rounds):
            ps = number % 2
            job.checkpoint()
            job.updates[ps].wait(200)
            time.sleep(random.uniform(0, 0.2))
            lives = job.updates[ps].lives
            process = job.cluster.processes["ps", ps]
            begin = time.monotonic()
            process.kill()
            process.wait()
            job.cluster.start("ps", ps, ["--apply_log", job.cluster.apply_log(ps)])
            while job.updates[ps].lives == lives:
                time.sleep(0.0005)
            seconds.append(job.updates[ps].wait(0) - begin)
    print("%s: from SIGKILL of a ps to its next applied update: %s s, %d kills" % (
        name, spread(seconds), rounds), flush=True)


def longest_step(times, begin, end):
    """The longest step that touches [begin, end], and the median one of the second before."""
    steps = list(zip(times, times[1:]))
    during = [b - a for a, b in steps if b > begin and a < end]
    before = [b - a for a, b in steps if b <= begin and a >= begin - 1]
    return max(during), statistics.median(before)


def cuts(name, text, rounds):
    from real_cluster import Directory
    ratios, rates, plain, longest, medians = [], [], [], [], []
    with Directory() as directory, Job(directory, text, workers=1) as job:
        job.checkpoint()  # the first one grows memory
        sizes = []
        for number in range(rounds):
            # Each goes first in turn.
            first = plain_writes(directory, sizes) if number % 2 else None
            time.sleep(1.5)
            begin = time.monotonic()
            seconds, made = job.checkpoint()
            end = time.monotonic()
            job.updates[0].wait(1)
            most, median = longest_step(list(job.updates[0].times), begin, end)
            longest.append(most * 1e3)
            medians.append(median * 1e3)
            files = [os.path.join(made, f) for f in os.listdir(made)]
            sizes = [os.path.getsize(f) for f in files if f.endswith(".safetensors")]
            alone = first or plain_writes(directory, sizes)
            rates.append(sum(sizes) / seconds / 1e9)
            plain.append(sum(sizes) / alone / 1e9)
            ratios.append(alone / seconds)
    print("%s: a checkpoint of %.1f MB at %s GB/s, plain writes at %s; ratio %s, %d rounds" % (
        name, sum(sizes) / 1e6, spread(rates, "%.2f"), spread(plain, "%.2f"), spread(ratios, "%.2f"), rounds))
    print("%s: the longest step during a checkpoint: %s ms; the median step: %s ms" % (
        name, spread(longest, "%.1f"), spread(medians, "%.2f")), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="build tree with the daemons")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7, help="checkpoints of each job")
    options = parser.parse_args()
    os.environ["COHORT_BINARY_DIR"] = os.path.abspath(options.build)
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "python"))
    from real_cluster import data_dir
    os.environ["COHORT_DATA_DIR"] = data_dir() or sys.exit("COHORT_DATA_DIR has no data")
    kills("recommender", small(), options.kills)
    kills("wide MNIST", wide(), options.kills)
    cuts("wide MNIST", wide(), options.rounds)
    cuts("large embedding", large(), options.rounds)


if __name__ == "__main__":
    main()
