#!/usr/bin/env python3
"""Step time of one large dense layer, beside the time of one copy of its weights in the same run.

    tests/benchmarks/in_place/in_place.py --build build/release [--before ../before/build/release]
        [--tensorflow build/venv-tensorflow/bin/python]

The model is one dense layer of 16, 64 or 256 MB of weights with SGD and a batch of 8, and a head of one unit. Each
run starts 1 worker and 1 parameter server, or 3 and 2, as processes of this host; they exchange over unix sockets
and shared memory, or over TCP. With --before, the runs of the two builds alternate. With --tensorflow, runs of TensorFlow's
ParameterServerStrategy with the same model and tasks (tensorflow/tensorflow_ps.py) alternate with them.

Prints for each size: milliseconds per step of one worker, the best half second of all rounds (other work on the
machine only makes it slower) and the median of the rounds' means; copies per byte, that is how often the payload of pushes
and pulls is copied on its way (a byte that passes a socket counts twice: into the kernel and out of it); the
time of one memcpy of the weights, measured in the same run while its processes are stopped; and the ratio of the two
best times; processor time per step of all tasks. Builds that do not
export these counters show "-". TensorFlow's line has the mean of the best round, and the ratios of the medians of the
means. The last lines compare (step time per MB) / (memcpy time per MB) over the sizes.
"""
import argparse
import contextlib
import ctypes
import json
import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import typing
import urllib.request

BATCH = 8
RECORDS = 64
WINDOW_S = 0.5

JOB = """name: benchmark-in-place
model:
  sequential:
    - Input: {{shape: [{side}], feature: x}}
    - Dense: {{units: {side}}}
    - Dense: {{units: 1}}
compile: {{loss: mean_squared_error, optimizer: {{SGD: {{learning_rate: 1.0e-9}}}}}}
data:
  batch_size: {batch}
  visitation: independent
  train:
    npy: {{files: [{directory}/x.npy, {directory}/y.npy]}}
    label: y
fit: {{epochs: 1, steps_per_epoch: 1000000}}
strategy: {{pull_ahead: 0}}
"""


def write_npy(path, shape, value):
    """Writes a matrix of float32 in the format of numpy.save, all of whose elements are `value`."""
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % shape
    header += " " * (-(len(header) + 11) % 64) + "\n"
    row = (ctypes.c_float * shape[1])(*([value] * shape[1]))
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        f.write(bytes(row) * shape[0])


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


def memcpy_ms(size):
    """(least, median) of the times of copies between pages that exist."""
    source, target = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    ctypes.memmove(target, source, size)
    ctypes.memmove(source, target, size)
    times = []
    for _ in range(15):
        begin = time.perf_counter()
        ctypes.memmove(target, source, size)
        times.append(1000 * (time.perf_counter() - begin))
    return min(times), statistics.median(times)


def scrape(port):
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    values = {}
    for line in lines:
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            values[name] = float(value)
    return values


class Cluster:
    """The processes of one run."""

    def __init__(self, build, directory, side, servers, workers, transport):
        self.processes = []
        self.workers = workers
        write_npy(os.path.join(directory, "x.npy"), (RECORDS, side), 0.5)
        write_npy(os.path.join(directory, "y.npy"), (RECORDS, 1), 1.0)
        job = os.path.join(directory, "job.yaml")
        with open(job, "w", encoding="utf-8") as f:
            f.write(JOB.format(side=side, batch=BATCH, directory=directory))
        ports = free_ports(2 * (servers + workers))
        self.admin = ports[servers + workers:]  # workers, then servers
        addresses = ["127.0.0.1:%d" % port for port in ports]
        cluster = {"worker": addresses[:workers], "ps": addresses[workers:workers + servers]}
        for index in range(servers):
            flags = ["--admin_port", str(self.admin[workers + index])]
            if transport == "tcp":
                flags += ["--unix_socket_dir", "none"]
            self.start(build, directory, "ps", index, cluster, flags)
        for index in range(workers):
            self.start(build, directory, "worker", index, cluster, ["--admin_port", str(self.admin[index])])
        self.start(build, directory, "chief", 0, cluster,
                   [job, "--checkpoint_dir", os.path.join(directory, "checkpoints"), "--log_dir",
                    os.path.join(directory, "logs")])

    def start(self, build, directory, role, index, cluster, arguments):
        config = {"cluster": cluster, "task": {"type": role, "index": index}}
        with open(os.path.join(directory, "%s-%d.log" % (role, index)), "wb") as log:
            self.processes.append(subprocess.Popen(
                [os.path.join(build, "bin", "cohort-" + role), *arguments], stdout=log, stderr=log,
                env=dict(os.environ, TF_CONFIG=json.dumps(config), XDG_RUNTIME_DIR=directory)))

    def sample(self):
        """(time, counters summed over the workers, counters summed over the servers)."""
        sums = []
        for ports in (self.admin[:self.workers], self.admin[self.workers:]):
            total = {}
            for port in ports:
                for name, value in scrape(port).items():
                    total[name] = total.get(name, 0) + value
            sums.append(total)
        return time.monotonic(), sums[0], sums[1]

    def wait_for_steps(self, steps, limit_s):
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if any(p.poll() is not None for p in self.processes):
                return None
            with contextlib.suppress(OSError):
                got = self.sample()
                if got[1].get("cohort_worker_steps_total", 0) >= steps:
                    return got
            time.sleep(0.02)
        return None

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        for process in self.processes:
            process.wait()


def copies_per_byte(before, after):
    def grown(side, name):
        if name not in after[side]:
            raise KeyError(name)
        return after[side][name] - before[side].get(name, 0)
    try:
        sent, received = grown(1, "cohort_worker_ps_bytes_sent"), grown(1, "cohort_worker_ps_bytes_received")
        placed, answered = grown(1, "cohort_worker_ps_bytes_placed"), grown(2, "cohort_ps_sent_bytes_total")
        in_place, answers_placed = grown(1, "cohort_worker_ps_bytes_in_place"), grown(2, "cohort_ps_placed_bytes")
        copies = grown(1, "cohort_worker_ps_bytes_copied") + placed + answers_placed
    except KeyError:
        return None
    over_sockets = max(0, sent - placed - in_place) + max(0, answered - answers_placed)
    return (copies + 2 * over_sockets) / (sent + received)


def cpu_seconds(pids):
    """Processor seconds so far of processes that are alive."""
    ticks = 0
    for pid in pids:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Run(typing.NamedTuple):
    best: float  # milliseconds per step in the best window
    mean: float  # over the whole time
    copies: typing.Optional[float]
    best_copy: float  # milliseconds of a memcpy
    copy: float
    cpu: float  # milliseconds of processor time per step, of all tasks


def step_ms(begin, end, workers):
    steps = end[1]["cohort_worker_steps_total"] - begin[1]["cohort_worker_steps_total"]
    return 1000 * (end[0] - begin[0]) * workers / max(steps, 1)


def run(build, megabytes, servers, workers, transport, seconds):
    """The Run of one cluster."""
    side = math.isqrt((megabytes << 20) // 4)
    warm_up = 90 * workers if megabytes < 256 else 70 * workers
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster(build, directory, side, servers, workers, transport)
        try:
            begin = cluster.wait_for_steps(warm_up, 180)
            if begin is None:
                for name in sorted(os.listdir(directory)):
                    if name.endswith(".log"):
                        with open(os.path.join(directory, name), encoding="utf-8") as f:
                            sys.stderr.write("== %s\n%s\n" % (name, f.read()[-2000:]))
                sys.exit("the cluster of %s did not train" % build)
            samples = [begin]
            pids = [process.pid for process in cluster.processes]
            cpu = cpu_seconds(pids)
            while samples[-1][0] - begin[0] < seconds:
                time.sleep(WINDOW_S)
                samples.append(cluster.sample())
            cpu = cpu_seconds(pids) - cpu
            # Nothing else of this run works while the memory is measured.
            for process in cluster.processes:
                process.send_signal(signal.SIGSTOP)
            copy = memcpy_ms(megabytes << 20)
        finally:
            cluster.stop()
    windows = [step_ms(a, b, workers) for a, b in zip(samples, samples[1:])]
    mean = step_ms(samples[0], samples[-1], workers)
    steps = 1000 * (samples[-1][0] - samples[0][0]) * workers / mean
    return Run(min(windows), mean, copies_per_byte(samples[0], samples[-1]), *copy, 1000 * cpu / steps)


def run_tensorflow(python, megabytes, servers, workers):
    """(milliseconds per step of a worker, milliseconds of processor time per step) of TensorFlow's strategy."""
    peer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tensorflow", "tensorflow_ps.py")
    steps = max(10, 3000 // megabytes)
    done = subprocess.run(
        [python, peer, "--example", "large_layer", "--megabytes", str(megabytes), "--steps", str(steps),
         "--warmup", str(steps // 3), "--workers", str(workers), "--ps", str(servers)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300, check=True)
    got = json.loads(done.stdout.decode().splitlines()[-1])
    return 1000 * workers / got["steps_per_second"], got["cpu_ms_per_step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--before", help="another build, whose runs alternate with those of --build")
    parser.add_argument("--tensorflow", help="a Python with tensorflow and tf_keras")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--clusters", nargs="+", default=["1+1", "3+2"], help="workers+servers")
    parser.add_argument("--transports", nargs="+", default=["unix", "tcp"], choices=["unix", "tcp"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="measured time of a run")
    args = parser.parse_args()
    builds = {"after": args.build}
    if args.before:
        builds = {"before": args.before, "after": args.build}
    for transport in args.transports:
        for shape in args.clusters:
            workers, servers = (int(n) for n in shape.split("+"))
            ratios = {name: {} for name in builds}
            for megabytes in args.megabytes:
                runs = {name: [] for name in builds}
                peers = []
                for _ in range(args.rounds):
                    if args.tensorflow:
                        peers.append(run_tensorflow(args.tensorflow, megabytes, servers, workers))
                    for name, build in builds.items():
                        runs[name].append(run(build, megabytes, servers, workers, transport, args.seconds))
                for name, got in runs.items():
                    best, copy = min(r.best for r in got), min(r.best_copy for r in got)
                    ratios[name][megabytes] = best / copy
                    copies = "-" if got[-1].copies is None else "%.2f" % got[-1].copies
                    mean, cpu = statistics.median(r.mean for r in got), statistics.median(r.cpu for r in got)
                    print("%s %s %3d MB %-6s %7.1f ms per step (median of means %.1f), %s copies per byte, memcpy "
                          "%.1f ms (median %.1f), step / memcpy %.1f, processor %.1f ms" % (
                              transport, shape, megabytes, name, best, mean, copies, copy,
                              statistics.median(r.copy for r in got), best / copy, cpu), flush=True)
                    if peers:
                        peer, peer_cpu = (statistics.median(values) for values in zip(*peers))
                        print("%s %s %3d MB TensorFlow %.1f ms per step (median of means %.1f), processor %.1f ms: %s "
                              "has %.1f x its steps per second" % (
                                  transport, shape, megabytes, min(peers)[0], peer, peer_cpu, name, peer / mean),
                              flush=True)
            for name, by_size in ratios.items():
                if len(by_size) > 1:
                    print("%s %s %s: step / memcpy differs by %.2f over the sizes" % (
                        transport, shape, name, max(by_size.values()) / min(by_size.values())), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
