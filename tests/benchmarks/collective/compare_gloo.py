#!/usr/bin/env python3
"""All-reduce of float32 beside Gloo (torch.distributed), interleaved.

    compare_gloo.py --build build/release --python build/venv-steps/bin/python [--ranks 2,4] [--rounds 5]
    compare_gloo.py ... --tensorflow_python build/venv-tensorflow/bin/python

The ranks are processes of this machine. In each round every way runs once for each size: Cohort over TCP, Gloo over
TCP, Cohort over shared memory. The time of a run is that of its slowest rank. Prints medians, and the medians of the
rounds' ratios: bandwidth (time of Gloo / time of Cohort) from 1 MB, latency (time of Cohort / time of Gloo) below.
With --tensorflow_python the same is printed beside TensorFlow's MultiWorkerMirroredStrategy with RING, which also uses TCP.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from real_cluster import dies_with_parent, free_ports  # noqa: E402

KB, MB = 1 << 10, 1 << 20
SIZES = [4 * KB, 64 * KB, 256 * KB, MB, 4 * MB, 16 * MB, 64 * MB]
HERE = os.path.dirname(os.path.abspath(__file__))


class Ranks:
    """The processes of one way."""

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

    def run(self, size, count, communication):
        """Seconds of one all-reduce."""
        line = "run %d %d %s" % (size, count, communication)
        return max(map(float, self.ask([line] * len(self.processes))))

    def stop(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(timeout=60)


def cohort(build, ranks, directory, shared, chunk_kb=0, window_kb=0):
    paths = ["%s/%s%d.sock" % (directory, "shared" if shared else "tcp", i) for i in range(ranks)]
    program = os.path.join(build, "bin", "collective_bench")
    group = Ranks([[program, path] for path in paths])
    ports = [line.split()[1] for line in group.read()]
    everyone = " ".join("%s %s" % pair for pair in zip(ports, paths))
    group.ask(["group %d %d %d %d %s" % (i, shared, chunk_kb, window_kb, everyone) for i in range(ranks)])
    return group


def gloo(python, ranks):
    port = free_ports(1)[0]
    script = os.path.join(HERE, "gloo_peer.py")
    group = Ranks([[python, script, str(i), str(ranks), str(port)] for i in range(ranks)])
    group.read()
    return group


def tensorflow(python, ranks, flags):
    ports = ",".join(map(str, free_ports(ranks)))
    script = os.path.join(os.path.dirname(HERE), "strategies", "tensorflow_peer.py")
    group = Ranks([[python, script, str(i), ports, *flags] for i in range(ranks)])
    group.read()
    return group


def name(size):
    return "%d KB" % (size // KB) if size < MB else "%d MB" % (size // MB)


def count_for(size, seconds):
    """The number of all-reduces that take about `seconds` at 1 GB/s and 100 us each."""
    return max(2, int(seconds / (100e-6 + size / 1e9)))


def print_beside(peer, args, ranks, times):
    """The table of Cohort's two ways beside one peer."""
    print("| %d ranks, %s | %s | Cohort, TCP | Cohort, shared memory | TCP | shared memory |" %
          (ranks, args.communication, peer))
    print("|---|---|---|---|---|---|")
    for size in args.sizes:
        cells = []
        for way in ("TCP", "shared"):
            pairs = list(zip(times[way, size], times[peer, size]))
            if size < MB:
                cells.append("%.2f x latency" % statistics.median(a / b for a, b in pairs))
            else:
                cells.append("%.2f x bandwidth" % statistics.median(b / a for a, b in pairs))
        medians = [statistics.median(times[way, size]) for way in (peer, "TCP", "shared")]
        if size < MB:
            texts = ["%.0f us" % (1e6 * median) for median in medians]
        else:
            texts = ["%.2f GB/s" % (size / median / 1e9) for median in medians]
        print("| %s | %s |" % (name(size), " | ".join(texts + cells)))
    print(flush=True)


def compare(args, ranks):
    with tempfile.TemporaryDirectory() as directory:
        peers = {"Gloo": gloo(args.python, ranks)}
        if args.tensorflow_python:
            peers["TensorFlow"] = tensorflow(args.tensorflow_python, ranks, [])
        ways = {"TCP": cohort(args.build, ranks, directory, False), **peers,
                "shared": cohort(args.build, ranks, directory, True)}
        times = {(way, size): [] for way in ways for size in args.sizes}
        for _ in range(args.rounds):
            for size in args.sizes:
                for way, group in ways.items():
                    times[way, size].append(group.run(size, count_for(size, args.seconds), args.communication))
        for group in ways.values():
            group.stop()
    for peer in peers:
        print_beside(peer, args, ranks, times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch")
    parser.add_argument("--tensorflow_python", help="an interpreter with tensorflow and tf_keras")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="bytes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="about the length of one run")
    parser.add_argument("--communication", default="auto")
    args = parser.parse_args()
    args.sizes = [int(size) for size in args.sizes.split(",")]
    for ranks in map(int, args.ranks.split(",")):
        compare(args, ranks)


if __name__ == "__main__":
    main()
