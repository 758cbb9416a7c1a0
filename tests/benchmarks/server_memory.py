#!/usr/bin/env python3
"""The memory of parameter servers: snapshots, slow readers, and gradients that come early.

    python3 tests/benchmarks/server_memory.py --build build/release [--only snapshots] [--seconds 60] [--available_mb 400]

Each job runs on real daemons and trains all the time. Prints a table of resident memory of server 0 (VmRSS; the most:
VmHWM since the line before), in MB:
  - snapshots: 1 GB of embeddings with Adam on two servers, with both ways of a sparse update: before a checkpoint, at
    it, and a minute later;
  - slow_pulls: 33 MB of weights on one server; 2, 6 and 10 workers whose pulls come over links of 2.5 MB/s;
  - early: the same weights in mode sync, 2 workers and 24 closures per step.

--available_mb N: servers see N MB of available memory in /proc/meminfo (root only), and keep what waits below their parts
of that. Without it they may use the memory of the machine.
"""
import argparse
import os
import socket
import sys
import tempfile
import threading
import time

from cuts_and_kills import Job, small

HERE = os.path.dirname(os.path.abspath(__file__))
MB = 1 << 20


def table(update):
    """1 GB of embeddings; each step has gradients for 7 rows."""
    return small().replace("input_dim: 8, output_dim: 20", "input_dim: 4000000, output_dim: 64").replace(
        "RMSprop: {learning_rate: 0.1}", "Adam: {learning_rate: 0.01, sparse_update: %s}" % update)


def dense(strategy):
    """33 MB of weights, all of which each step changes."""
    text = small().replace("input_dim: 8, output_dim: 20", "input_dim: 8, output_dim: 2048").replace(
        "    - Dense: {units: 1,", "    - Dense: {units: 4096, activation: relu}\n    - Dense: {units: 1,").replace(
        "RMSprop: {learning_rate: 0.1}", "SGD: {learning_rate: 0.01}")
    return text[:text.index("strategy:")] + "strategy: {%s}\n" % strategy


class Memory:
    def __init__(self, job, ps=0):
        self.pid = job.cluster.processes["ps", ps].pid

    def read(self):
        """Returns the resident memory and the most of it since the last call, in MB."""
        with open("/proc/%d/status" % self.pid, encoding="utf-8") as f:
            fields = dict(line.split(":", 1) for line in f)
        with open("/proc/%d/clear_refs" % self.pid, "w", encoding="utf-8") as f:
            f.write("5")
        return [int(fields[name].split()[0]) * 1024 / MB for name in ("VmRSS", "VmHWM")]


class SlowLinks(threading.Thread):
    """Listens for a server and passes what it sends at `rate` bytes per second and connection."""

    def __init__(self, port, to, rate):
        super().__init__(daemon=True)
        self.to, self.rate = to, rate
        self.listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self.start()

    def run(self):
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.to))
            except OSError:  # the server has ended
                client.close()
                continue
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            threading.Thread(target=self.copy, args=(client, server, 0), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client, self.rate), daemon=True).start()

    @staticmethod
    def copy(source, sink, rate):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
                if rate:
                    time.sleep(len(data) / rate)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class SlowJob(Job):
    """A job of one server, whose workers and chief reach it over slow links."""

    def __init__(self, directory, text, workers, rate):
        from real_cluster import free_ports
        super().__init__(directory, text, workers)
        self.cluster.cluster["ps"] = self.cluster.cluster["ps"][:1]
        self.rate = rate
        self.links = free_ports(1)[0]

    def __enter__(self):
        direct = self.cluster.cluster["ps"][0]
        self.cluster.start("ps", 0, ["--apply_log", self.cluster.apply_log(0), "--unix_socket_dir", "none"])
        self.slow = SlowLinks(self.links, int(direct.rsplit(":", 1)[1]), self.rate)
        self.cluster.cluster["ps"] = ["127.0.0.1:%d" % self.links]
        for index in range(len(self.cluster.cluster["worker"])):
            self.cluster.start("worker", index)
        self.updates = []
        self.cluster.start("chief", 0, [self.job, "--checkpoint_dir", self.checkpoints, "--log_dir",
                                        os.path.join(self.directory, "logs")])
        return self


def pretend_memory(directory, megabytes):
    """Servers that start from now on see so much memory that is available."""
    import real_cluster
    path = os.path.join(directory, "meminfo")
    with open("/proc/meminfo", encoding="utf-8") as real, open(path, "w", encoding="utf-8") as f:
        for text in real:
            f.write("MemAvailable: %d kB\n" % (megabytes << 10) if text.startswith("MemAvailable:") else text)
    direct = real_cluster.dies_with_parent

    def start(arguments):
        if not arguments[0].endswith("cohort-ps"):
            return direct(arguments)
        return direct(["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/meminfo && exec "$@"', path, *arguments])

    real_cluster.dies_with_parent = start


def line(what, values):
    print("%-44s %8.0f %8.0f" % (what, *values), flush=True)


def snapshots(_):
    from real_cluster import Directory
    for update in ("keras", "lazy"):
        with Directory() as directory, Job(directory, table(update), 1, warm_up=5) as job:
            memory = Memory(job)
            memory.read()
            job.updates[0].wait(5)
            before = memory.read()
            line("snapshots, %s: before a checkpoint" % update, before)
            count = len(job.updates[0].times)
            seconds, _ = job.checkpoint()
            steps = len(job.updates[0].times) - count
            at = memory.read()
            line("snapshots, %s: at it (%.1f s, %d steps)" % (update, seconds, steps), at)
            time.sleep(60)
            later = memory.read()
            line("snapshots, %s: a minute later" % update, later)
            print("  at most %.2f times, then %.2f times" % (at[1] / before[0], later[0] / before[0]), flush=True)


def slow_pulls(seconds):
    from real_cluster import Directory
    for workers in (2, 6, 10):
        with Directory() as directory, SlowJob(directory, dense("pull_ahead: 0"), workers, 2_500_000) as job:
            memory = Memory(job)
            time.sleep(seconds / 2)
            memory.read()
            time.sleep(seconds)
            line("slow_pulls, %d workers: %d s of training" % (workers, seconds), memory.read())


def early(seconds):
    from real_cluster import Directory
    text = dense("mode: sync, closures_per_step: 24, partitioner: {FixedShards: {num_shards: 2}}")
    with Directory() as directory, Job(directory, text, workers=2) as job:
        memory = Memory(job)
        memory.read()
        time.sleep(seconds)
        line("early, 24 closures per step: %d s" % seconds, memory.read())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", choices=("snapshots", "slow_pulls", "early"))
    parser.add_argument("--seconds", type=int, default=60, help="how long slow_pulls and early look")
    parser.add_argument("--available_mb", type=int, help="memory of the servers")
    args = parser.parse_args()
    os.environ["COHORT_BINARY_DIR"] = os.path.abspath(args.build)
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "python"))
    print("%-44s %8s %8s" % ("server 0", "MB", "most"), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        if args.available_mb:
            pretend_memory(directory, args.available_mb)
        for scenario in (snapshots, slow_pulls, early):
            if args.only in (None, scenario.__name__):
                scenario(args.seconds)


if __name__ == "__main__":
    main()
