#!/usr/bin/env python3
"""Trains one epoch, shuffled, on files of four times the memory that the processes have.

A mount that hides the control groups says what memory that is. What counts is RssAnon, memory that belongs to a process
alone: the system takes back the pages of files, which VmHWM counts too, when it needs them. If the test may not
mount, it exits with 77, which ctest reports as skipped.
"""
import collections
import os
import random
import struct
import subprocess
import sys
import time

import real_cluster
from real_cluster import SCALE, SOURCE, DirectoryTestCase, dies_with_parent, program

sys.path.insert(0, os.path.join(SOURCE, "tests", "data"))
from make_image_files import field, tf_record  # noqa: E402

MB = 1 << 20
OWN_MOUNTS = ["unshare", "--map-root-user", "--mount"]
HIDE = 'mount --bind "$0" /sys/fs/cgroup && exec "$@"'
FEATURES = 4
ROWS = 4096  # in the block that a file repeats
JOB = """
name: large
seed: 1
model:
  functional:
%s
    - Concatenate: {name: x, inputs: [f0, f1, f2, f3]}
    - Dense: {name: hidden, units: 8, activation: relu, inputs: x}
    - Dense: {name: answer, units: 1, activation: sigmoid, inputs: hidden}
compile: {loss: binary_crossentropy, optimizer: {Adam: {learning_rate: 0.01}}, metrics: [accuracy]}
data:
  batch_size: 1024
  train:
    %%s
    label: y
fit: {epochs: 1}
""" % "\n".join("    - Input: {name: f%d, shape: [1]}" % f for f in range(FEATURES))
CSV = "csv: {path: %s}"
RECORDS = "tfrecord: {files: [%%s], features: {%s, y: {}}}" % ", ".join("f%d: {}" % f for f in range(FEATURES))


def rows():
    draw = random.Random(1)
    for _ in range(ROWS):
        row = [draw.gauss(0, 1) for _ in range(FEATURES)]
        yield [*row, float(row[0] + row[1] > 0)]


def tf_example(row):
    names = ["f%d" % f for f in range(FEATURES)] + ["y"]
    values = [field(2, field(1, struct.pack("<f", value))) for value in row]
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, value)) for name, value in zip(names, values)))


def processes_below(pid):
    """A process and all its descendants."""
    found = [pid]
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, thread), encoding="utf-8") as f:
                for child in f.read().split():
                    found += processes_below(int(child))
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        pass
    return found


def memory_of(pid):
    """The name of a process, and its RssAnon and VmHWM in bytes; None if it has ended."""
    try:
        with open("/proc/%d/status" % pid, encoding="utf-8") as f:
            fields = dict(line.rstrip("\n").split(":", 1) for line in f)
        return fields["Name"].strip(), *(int(fields[name].split()[0]) << 10 for name in ("RssAnon", "VmHWM"))
    except (FileNotFoundError, ProcessLookupError, KeyError):
        return None


class LargeData(DirectoryTestCase):
    def file(self, name, header, block, least):
        """A file that repeats a block until it has `least` bytes; returns its path and its records."""
        count = -(-least // len(block))
        with open(self.path(name), "wb") as f:
            f.write(header)
            for _ in range(count):
                f.write(block)
        return self.path(name), count * ROWS

    def csv(self, least):
        header = ",".join(["f%d" % f for f in range(FEATURES)] + ["y"]) + "\n"
        block = "".join(",".join("%.6f" % value for value in row) + "\n" for row in rows())
        path, records = self.file("large.csv", header.encode(), block.encode(), least)
        return CSV % path, records

    def tfrecord(self, least):
        path, records = self.file("large.tfrecord", b"", b"".join(tf_record(tf_example(row)) for row in rows()), least)
        return RECORDS % path, records

    def train(self, limit, arguments, source, records, names):
        """Runs a job in processes that see `limit` bytes of memory, and notes the most that each of them takes."""
        job, groups = self.write("job.yaml", JOB % source), self.path("cgroup")
        os.mkdir(groups)
        with open(os.path.join(groups, "memory.max"), "w", encoding="utf-8") as f:
            f.write("%d\n" % limit)
        began = time.monotonic()
        with open(self.path("out"), "w+", encoding="utf-8") as out:
            launcher = subprocess.Popen(
                dies_with_parent([*OWN_MOUNTS, "sh", "-c", HIDE, groups, program("cohort"), *arguments, "--run_dir",
                                  self.path("run"), job]), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            most, name = collections.defaultdict(lambda: (0, 0)), {}
            while launcher.poll() is None:
                self.assertLess(time.monotonic() - began, 200 * SCALE)
                for pid in processes_below(launcher.pid):
                    memory = memory_of(pid)
                    if memory is not None:
                        name[pid] = memory[0]
                        most[pid] = tuple(map(max, most[pid], memory[1:]))
                time.sleep(0.01)  # the time between two samples
            out.seek(0)
            printed = out.read()
        self.assertEqual(launcher.returncode, 0, printed)
        self.assertIn("%d examples" % records, printed)
        print("\n%s, limit %d MB, %.0f s" % (" ".join(arguments), limit / MB, time.monotonic() - began))
        for pid, (anonymous, with_files) in most.items():
            print("  %-16s RssAnon %4d MB, VmHWM %4d MB" % (name[pid], anonymous / MB, with_files / MB))
            self.assertLess(anonymous, limit, name[pid])
        self.assertLessEqual(names, set(name.values()))

    def test_a_cluster_and_csv(self):
        limit = 64 * MB
        self.train(limit, ["local", "--ps", "1", "--workers", "2"], *self.csv(4 * limit),
                   {"cohort-chief", "cohort-ps", "cohort-worker"})

    def test_a_cluster_and_tfrecord(self):
        limit = 64 * MB
        self.train(limit, ["local", "--ps", "1", "--workers", "2"], *self.tfrecord(4 * limit),
                   {"cohort-chief", "cohort-ps", "cohort-worker"})


if __name__ == "__main__":
    probe = subprocess.run([*OWN_MOUNTS, "sh", "-c", HIDE, SOURCE, "true"], check=False, capture_output=True)
    if probe.returncode != 0:
        print("skipped: this user may not mount")
        sys.exit(77)
    real_cluster.main(globals())
