#!/usr/bin/env python3
"""What a failure costs: the table of docs/failures.md, measured.

    tests/benchmarks/failure_matrix.py --build build/release --kills 3 --write

For each cell it runs a small job on real processes of this machine, takes a checkpoint, strikes some hundred steps later,
starts again what has died, and ends the job when each variable is updated again. It prints

    lost, rollback   from the servers' apply logs: whether steps were applied again in another timeline, and how many
    final state      async: each update was applied once, and no step is missing (tests/cluster/apply_log.h);
                     sync: the weights and slots have the bits of `cohort train` after as many steps. A ring rounds in
                     another order, so its weights may differ by 1e-9
    pause            the longest time without an update of some variable, from the strike on; the median of all kills

A final state that is wrong ends the script with an error. --write puts the rows into docs/failures.md. --compare ends with
1 if the columns without times differ from those of the page. --cells TEXT runs only the cells whose name has TEXT.
"""
import argparse
import array
import collections
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(SOURCE, "tests", folder) for folder in ("python", "cluster")]
# pylint: disable=wrong-import-position
import real_cluster
from real_cluster import RealCluster, program, until
from safetensors_files import checkpoints, tensors

PAGE = os.path.join(SOURCE, "docs", "failures.md")
BEGIN, END = "<!-- failure_matrix begin -->\n", "<!-- failure_matrix end -->\n"
HEAD = ("dies", "strategy", "lost", "rollback", "final state", "pause, s", "steps again")
MEASURED = 2  # the last columns, which differ from run to run
UPDATES = 200  # that each variable must have after a strike

JOB = """name: matrix
seed: 7
model:
  dtype: %(dtype)s
  sequential:
    - Input: {name: features, shape: [3], dtype: int64}
    - Embedding: {input_dim: 8, output_dim: 20}
    - GlobalAveragePooling1D: {}
    - Dense: {units: 1, activation: sigmoid}
compile: {loss: binary_crossentropy, optimizer: {RMSprop: {learning_rate: 0.001}}}
data:
  visitation: exactly_once
  batch_size: 8
  train:
    generator: {name: recommender, records: 6400000, seed: 1}
    label: label
    transforms:
      - {column: features, lookup: string, vocabulary: [avenger, ironman, batman, hulk, spiderman, kingkong, wonder_woman]}
      - {column: label, equals: "yes", dtype: float32}
  validation:
    generator: {name: recommender, records: 320, seed: 2}
fit: {epochs: 1000000, validation_freq: 1000000%(max_steps)s}
strategy: {partitioner: {FixedShards: {num_shards: 2}}, %(strategy)s}
checkpoint: {directory: checkpoints, %(every)s}
report: {every_steps: 10}
"""


def job_text(strategy, dtype="float32", max_steps=0, every="every_epochs: 1000000"):
    return JOB % {"strategy": strategy, "dtype": dtype, "every": every,
                  "max_steps": ", max_steps: %d" % max_steps if max_steps else ""}


class Updates(threading.Thread):
    """Follows apply logs: when the tablets of the newest timeline were updated, and which steps each timeline has."""

    def __init__(self, paths):
        super().__init__(daemon=True)
        self.paths, self.ended, self.lock = paths, False, threading.Lock()
        self.since, self.last, self.longest = time.monotonic(), {}, 0.0
        self.timeline, self.counts = 0, collections.Counter()
        self.places = collections.defaultdict(set)

    def run(self):
        files, rests, ended = {}, collections.defaultdict(bytes), False
        while not ended:
            ended = self.ended  # after which it reads once more
            for path in self.paths:
                if path not in files and os.path.exists(path):
                    files[path] = open(path, "rb")  # pylint: disable=consider-using-with
            for path, file in files.items():
                *lines, rests[path] = (rests[path] + file.read()).split(b"\n")
                with self.lock:
                    now = time.monotonic()
                    for line in lines:
                        self.take(line.split(), now)
            time.sleep(0.001)
        for file in files.values():
            file.close()

    def take(self, words, now):
        if len(words) != 8 or words[7] != b"applied":
            return
        place, timeline, tablet = int(words[3]), int(words[4]), int(words[6])
        self.places[timeline].add(place)
        if timeline < self.timeline:
            return
        if timeline > self.timeline:  # perhaps with other tablets
            self.since = min(self.last.values(), default=self.since)
            self.timeline, self.last, self.counts = timeline, {}, collections.Counter()
        self.longest = max(self.longest, now - self.last.get(tablet, self.since))
        self.last[tablet] = now
        self.counts[tablet] += 1

    def finish(self):
        """Reads to the ends of the logs."""
        self.ended = True
        if self.is_alive():
            self.join()

    def strike(self):
        """Counts pauses from now on."""
        with self.lock:
            self.longest, self.since = 0.0, time.monotonic()
            self.last = dict.fromkeys(self.last, self.since)

    def pause(self):
        with self.lock:
            return max([self.longest, *(time.monotonic() - then for then in self.last.values())])

    def wait(self, text):
        """Waits until each tablet has had some updates more."""
        with self.lock:
            self.counts = collections.Counter(dict.fromkeys(self.counts, 0))

        def enough():
            with self.lock:
                return min(self.counts.values(), default=0) >= UPDATES
        until(text, enough, 150)

    def steps_again(self):
        timelines = [self.places[timeline] for timeline in sorted(self.places)]
        return sum(len(set().union(*timelines[:i]) & timelines[i]) for i in range(1, len(timelines)))


class Cluster(RealCluster):
    """A job of this script, which any number of chiefs may serve."""

    def __init__(self, directory, strategy, ps, dtype="float32"):
        super().__init__(directory, ps=ps, workers=3, environment={"COHORT_DATA_DIR": directory})
        self.strategy, self.dtype, self.replicas = strategy, dtype, ps == 0
        if self.replicas:
            del self.cluster["ps"]
        self.job, self.checkpoints = self.path("job.yaml"), self.path("checkpoints")
        with open(self.job, "w", encoding="utf-8") as f:
            f.write(job_text(strategy, dtype))
        owner = "worker" if self.replicas else "ps"
        self.updates = Updates([self.apply_log(index) for index in range(len(self.cluster[owner]))])

    def __exit__(self, *arguments):
        self.updates.finish()
        super().__exit__(*arguments)

    def path(self, name):
        return os.path.join(self.directory, name)

    def tf_config(self, role, index):
        return super().tf_config(role, 0 if role == "chief" else index)

    def begin(self, role, index=0, flags=()):
        """Starts a task of this job."""
        if role == "chief":
            strategy = ["--strategy", "multi_worker_mirrored"] if self.replicas else []
            self.start(role, index, [self.job, *strategy, "--checkpoint_dir", self.checkpoints, "--log_dir",
                                     self.path("logs"), *flags])
        elif role == "evaluator":
            self.start(role, index, ["--checkpoint_dir", self.checkpoints, "--log_dir", self.path("evaluations")])
        elif role == "worker" and self.replicas:
            self.start(role, index, ["--apply_log", self.apply_log(index)], "cohort-replica")
        else:
            self.start(role, index, ["--apply_log", self.apply_log(index)] if role == "ps" else [])

    def control(self, command):
        done = real_cluster.run([program("cohort"), "ctl", self.checkpoints, command, "--json"], limit_s=120)
        if done.returncode != 0:
            raise AssertionError("%s: %s%s" % (command, done.stdout, done.stderr))
        return json.loads(done.stdout)

    def begin_all(self):
        for role in ("ps", "worker"):
            for index in range(len(self.cluster.get(role, []))):
                self.begin(role, index)
        self.begin("chief")
        self.updates.start()
        until(lambda: self.text("chief"), lambda: self.updates.counts)
        self.updates.wait(lambda: self.text("chief"))

    def kill(self, *tasks, again=True):
        """Kills these tasks at once, starts them again, and waits until each is back."""
        said = {task: self.times_back(*task) for task in tasks}
        for task in tasks:
            self.processes[task].kill()
        for task in tasks:
            self.processes[task].wait()
            if again:
                self.begin(*task)
        if again:
            until(lambda: self.text("chief"), lambda: all(self.times_back(*task) > said[task] for task in tasks))

    def times_back(self, role, index):
        return len(re.findall(" job_resumed" if role == "chief" else " adopted ", self.text(role, index)))

    def stand_still(self, role, index, seconds):
        self.processes[role, index].send_signal(signal.SIGSTOP)
        time.sleep(seconds)  # the failure, not a wait for something
        self.processes[role, index].send_signal(signal.SIGCONT)

    def fail_over(self):
        """Kills the chief while another one stands by."""
        self.processes["chief", 0].kill()
        until(lambda: self.text("chief", 1), lambda: self.times_back("chief", 1) > 0)

    def evaluated(self):
        """The steps of the checkpoints that the evaluator has evaluated."""
        try:
            with open(self.path("evaluations/metrics.jsonl"), encoding="utf-8") as f:
                return [json.loads(line)["step"] for line in f if line.endswith("\n") and '"checkpoint"' in line]
        except FileNotFoundError:
            return []

    def await_evaluation(self):
        step = int(manifest_of(checkpoints(self.checkpoints)[-1]).get("step", 0))
        until(lambda: self.text("evaluator"), lambda: step in self.evaluated())

    def lose_evaluator(self):
        """Kills the evaluator, and starts it again when there is another checkpoint."""
        self.processes["evaluator", 0].kill()
        self.processes["evaluator", 0].wait()
        self.control("checkpoint")
        self.begin("evaluator")
        self.await_evaluation()

    def stop(self):
        """Ends the job behind its last update. Returns its last checkpoint."""
        self.control("pause")
        until("closures still run", lambda: self.control("status")["in_flight"] == 0)
        self.control("stop")
        return checkpoints(self.checkpoints)[-1]


def manifest_of(checkpoint):
    with open(os.path.join(checkpoint, "manifest.json"), encoding="utf-8") as f:
        return json.load(f)


def steps_of(checkpoint):
    """The steps that a checkpoint has: those that were given out, without those that are still to do."""
    manifest = manifest_of(checkpoint)
    pending = {int(closure["place"]) for closure in manifest["chief"].get("pending", [])}
    return set(range(int(manifest.get("step", 0)))) - pending


def train(directory, job, *flags):
    """Runs `cohort train` to its end. Returns its last checkpoint."""
    done = real_cluster.run([program("cohort"), "train", "--run_dir", directory, *flags, job], limit_s=200)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return checkpoints(os.path.join(directory, "checkpoints"))[-1]


def calm(directory, strategy, dtype, steps):
    """The checkpoint of a job that nothing disturbs, after as many steps."""
    job = os.path.join(directory, "calm.yaml")
    with open(job, "w", encoding="utf-8") as f:
        f.write(job_text(strategy, dtype, steps))
    return train(os.path.join(directory, "calm"), job)


def check_bits(expected, found, most):
    """Raises unless two checkpoints are equal, or, with `most`, their float64 differ by less. Returns what holds."""
    expected, found = tensors(expected), tensors(found)
    if sorted(expected) != sorted(found):
        raise AssertionError("other tensors: %s, %s" % (sorted(expected), sorted(found)))
    for name, (dtype, data) in expected.items():
        if most and dtype == "F64":
            pairs = zip(array.array("d", data), array.array("d", found[name][1]))
            if max((abs(x - y) for x, y in pairs), default=0.0) >= most:
                raise AssertionError("%s differs by %g or more" % (name, most))
        elif data != found[name][1]:
            raise AssertionError("%s has other bits" % name)
    return "within %g" % most if most else "the same bits"


def check_updates(cluster, steps):
    """Raises unless the apply logs of an ended job pass, and show all of its steps."""
    missing = steps.difference(*cluster.updates.places.values())
    if missing:
        raise AssertionError("%d of %d steps were never applied, such as %d" % (len(missing), len(steps), min(missing)))
    if "elastic" in cluster.strategy:
        return ""  # the checker wants the same tablets before and after a rollback
    checker = os.path.join(real_cluster.BINARY, "tests", "check_apply_logs")
    done = real_cluster.run([checker, *cluster.updates.paths], limit_s=120)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return "each update once"


class Cell:
    """A row of the table: what fails, under which strategy."""

    def __init__(self, dies, strategy, settings, strike, ps=2, first=(), most=0.0):
        self.dies, self.strategy, self.settings, self.strike = dies, strategy, settings, strike
        self.ps, self.first, self.most = ps, first, most

    def name(self):
        return "%s, %s" % (self.dies, self.strategy)

    def measure(self, directory):
        """(the columns without numbers, the seconds of the pause, steps that were applied again)"""
        dtype = "float64" if self.most else "float32"
        with Cluster(directory, self.settings, self.ps, dtype) as cluster:
            cluster.begin_all()
            for role, index, *flags in self.first:
                cluster.begin(role, index, flags)
            cluster.control("checkpoint")
            for role, *_ in self.first:
                if role == "evaluator":
                    cluster.await_evaluation()
                else:
                    until(lambda: cluster.text("chief", 1), lambda: "standing_by" in cluster.text("chief", 1))
            cluster.updates.wait(lambda: cluster.text("chief"))  # the work since the checkpoint
            cluster.updates.strike()
            self.strike(cluster)
            cluster.updates.wait(lambda: cluster.text("chief"))
            pause = cluster.updates.pause()
            checkpoint = cluster.stop()
            steps = steps_of(checkpoint)
            cluster.updates.finish()
            state = check_updates(cluster, steps)
            if "mode: async" not in self.settings:
                settings = re.sub(r"replicas: 2, |communication: \w+, |elastic: true, ", "", self.settings)
                state = check_bits(calm(directory, settings, dtype, len(steps)), checkpoint, self.most)
            again = cluster.updates.steps_again()
            if len(set(cluster.evaluated())) != len(cluster.evaluated()):
                raise AssertionError("a checkpoint was evaluated twice: %s" % cluster.evaluated())
            rollback = len(cluster.updates.places) > 1
        return (lost_text(again), "yes" if rollback else "no", state), pause, again


def lost_text(again):
    return "work since the checkpoint" if again else "nothing"


class ProcessCell(Cell):
    """A job that is one process: `cohort train`."""

    def __init__(self, strategy, flags):
        super().__init__("the process", "`%s`" % strategy, "mode: sync, closures_per_step: 4", None)
        self.flags = ["--strategy", strategy, *flags]

    def measure(self, directory):
        job, run_dir, out = (os.path.join(directory, name) for name in ("job.yaml", "run", "out"))
        saved = os.path.join(run_dir, "checkpoints")

        def start(max_steps):
            with open(job, "w", encoding="utf-8") as f:
                f.write(job_text(self.settings, max_steps=max_steps, every="every_seconds: 2"))
            with open(out, "a", encoding="utf-8") as f:
                return subprocess.Popen(real_cluster.dies_with_parent(
                    [program("cohort"), "train", "--run_dir", run_dir, *self.flags, job]), stdout=f, stderr=f)

        def steps():
            try:
                with open(os.path.join(run_dir, "logs", "metrics.jsonl"), encoding="utf-8") as f:
                    return [json.loads(line)["step"] for line in f if line.endswith("\n") and '"step"' in line]
            except FileNotFoundError:
                return []

        def saved_steps():
            return max((len(steps_of(c)) for c in checkpoints(saved) if finished(c)), default=0)

        def printed():
            with open(out, encoding="utf-8", errors="replace") as f:
                return f.read()
        process = start(0)
        try:
            until(printed, saved_steps)
            wanted = saved_steps() + 2 * UPDATES  # the work since the checkpoint
            until(printed, lambda: steps()[-1:] >= [wanted])
        finally:
            process.kill()
            process.wait()
        begin, before = time.monotonic(), steps()
        process = start(before[-1] + 4000)
        try:
            until(printed, lambda: len(steps()) > len(before))
            pause = time.monotonic() - begin
            if process.wait(timeout=200 * real_cluster.SCALE) != 0:
                raise AssertionError(printed())
        finally:
            process.kill()
            process.wait()
        again = before[-1] - int(re.findall(r"continuing .*at step (\d+)", printed())[-1])
        newest = checkpoints(saved)[-1]
        state = check_bits(calm(directory, self.settings, "float32", len(steps_of(newest))), newest, 0.0)
        return (lost_text(again), "yes" if again else "no", state), pause, again


def finished(checkpoint):
    return os.path.exists(os.path.join(checkpoint, "manifest.json"))


def server_cells():
    def kills(*tasks):
        return lambda cluster: cluster.kill(*tasks)

    def stands(role, seconds):
        return lambda cluster: cluster.stand_still(role, 0, seconds)
    strikes = (
        ("worker", kills(("worker", 0)), ()),
        ("server", kills(("ps", 0)), ()),
        ("two servers, all homes of a tablet", kills(("ps", 0), ("ps", 1)), ()),
        ("chief", kills(("chief", 0)), ()),
        ("chief, with a standby", lambda cluster: cluster.fail_over(), (("chief", 1, "--standby"),)),
        ("evaluator", lambda cluster: cluster.lose_evaluator(), (("evaluator", 0),)),
        ("worker stands still for 5 s", stands("worker", 5), ()),
        ("worker stands still for 35 s", stands("worker", 35), ()),
        ("server stands still for 5 s", stands("ps", 5), ()),
        ("server stands still for 35 s", stands("ps", 35), ()),
    )
    for dies, strike, first in strikes:
        for mode, settings in (("async", "mode: async"), ("sync", "mode: sync, closures_per_step: 3")):
            for copies in (1, 2):
                yield Cell(dies, "%s, `replicas: %d`" % (mode, copies),
                           ("replicas: 2, " if copies == 2 else "") + settings, strike, first=first)


def replica_cells():
    for ring in (False, True):
        settings = "communication: %s, mode: sync, closures_per_step: 4" % ("ring" if ring else "direct")
        strategy = "`multi_worker_mirrored`, %s" % ("ring" if ring else "direct")
        most = 1e-9 if ring else 0.0
        yield Cell("replica", strategy, settings, lambda cluster: cluster.kill(("worker", 1)), ps=0, most=most)
        yield Cell("replica", strategy + ", elastic", "elastic: true, " + settings,
                   lambda cluster: cluster.kill(("worker", 1), again=False), ps=0, most=most)
        yield Cell("chief", strategy, settings, lambda cluster: cluster.kill(("chief", 0)), ps=0, most=most)
        yield Cell("replica stands still for 5 s", strategy, settings,
                   lambda cluster: cluster.stand_still("worker", 1, 5), ps=0, most=most)


def cells():
    yield from server_cells()
    yield from replica_cells()
    yield ProcessCell("one_device", [])
    yield ProcessCell("mirrored", ["--devices", "cpu:0,cpu:1"])


def row_of(cell, kills):
    """The row of a cell, after this many runs."""
    columns, pauses, agains = set(), [], []
    for _ in range(kills):
        with tempfile.TemporaryDirectory(prefix="cohort-matrix.") as directory:
            found, pause, again = cell.measure(directory)
        columns.add(found)
        pauses.append(pause)
        agains.append(again)
    if len(columns) != 1:
        raise AssertionError("the runs differ: %s" % sorted(columns))
    return [cell.dies, cell.strategy, *columns.pop(), "%.2f" % statistics.median(pauses), str(int(statistics.median(agains)))]


def line_of(columns):
    return "| %s |\n" % " | ".join(columns)


def page_rows(page):
    """{(dies, strategy): the columns} of the table in docs/failures.md."""
    table = page.partition(BEGIN)[2].partition(END)[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table]
    return {(row[0], row[1]): row for row in rows}


def differences(rows, page):
    """What the page says otherwise."""
    documented = {key: row[:-MEASURED] for key, row in page_rows(page).items()}
    return ["docs/failures.md says %s, measured %s" % (documented.get((row[0], row[1])), row)
            for row in rows if documented.get((row[0], row[1])) != row[:-MEASURED]]


def write(rows, page):
    """Replaces these rows of the page, and removes those of no cell."""
    table = {**page_rows(page), **{(row[0], row[1]): row for row in rows}}
    keys = [(cell.dies, cell.strategy) for cell in cells()]
    lines = [line_of(HEAD), line_of(["---"] * len(HEAD)), *(line_of(table[key]) for key in keys if key in table)]
    before, _, rest = page.partition(BEGIN)
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(before + BEGIN + "".join(lines) + END + rest.partition(END)[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--cells", default="")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--compare", action="store_true")
    args = parser.parse_args()
    if args.build:
        real_cluster.BINARY = os.path.abspath(args.build)
    print(line_of(HEAD) + line_of(["---"] * len(HEAD)), end="", flush=True)
    rows, failed = [], []
    for cell in cells():
        if args.cells not in cell.name():
            continue
        try:
            rows.append(row_of(cell, args.kills))
            print(line_of(rows[-1]), end="", flush=True)
        except AssertionError as error:
            failed.append("%s: %s" % (cell.name(), str(error)[-3000:]))
            print("| %s | failed |" % cell.name(), flush=True)
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    if args.compare:
        failed += differences(rows, page)
    if failed:
        sys.exit("\n".join(failed))
    if args.write:
        write(rows, page)


if __name__ == "__main__":
    main()
