#!/usr/bin/env python3
"""The longest time without an update of a tablet, while tablets move and while nothing happens.

    tests/benchmarks/move_tablets.py --build build/release --rounds 5

A recommender with 3 workers and 2 servers on this machine (`cohort local`). The script starts a third server, adds it to
the running job (`cohort ctl add-ps`), and then rebalances and drains it again and again. It follows the servers' apply
logs. Each tablet is updated by each step, so the longest gap is about the longest step.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from lost_server import SOURCE, ApplyLog, job_text, until  # pylint: disable=wrong-import-position

ADDED = 2


class Gaps:
    """The longest time without an update of each tablet, by what the job does meanwhile."""

    def __init__(self, logs):
        self.logs = logs
        self.last = {}
        self.longest = {}

    def watch(self, what, condition, limit_s=60):
        """Follows the logs until `condition` returns true; it is asked now and then."""
        asked, end = 0.0, time.monotonic() + limit_s
        while True:
            now = time.monotonic()
            for tablet in set().union(*[log.tablets() for log in self.logs]):
                gap = now - self.last.get(tablet, now)
                self.longest[what] = max(self.longest.get(what, 0.0), gap)
                self.last[tablet] = now
            if now - asked > 0.2:
                if condition():
                    return
                asked = time.monotonic()
            if now > end:
                sys.exit("after %d s: %s" % (limit_s, what))
            time.sleep(0.0005)


def control(build, checkpoints, *command):
    done = subprocess.run([os.path.join(build, "bin", "cohort"), "ctl", checkpoints, *command], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        sys.exit("cohort ctl %s: %s" % (" ".join(command), done.stderr))
    return done.stdout


def status(build, checkpoints):
    return json.loads(control(build, checkpoints, "status", "--json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build", "release"))
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        def path(name):
            return os.path.join(directory, name)
        with open(path("job.yaml"), "w", encoding="utf-8") as f:
            f.write(job_text(1, 5000))
        flags = [word for ps in range(ADDED) for flag in ("--apply_log=%s" % path("apply-%d" % ps), "--threads=2")
                 for word in ("--task_flag", "ps:%d=%s" % (ps, flag))]
        with open(path("out"), "w", encoding="utf-8") as out:
            launcher = subprocess.Popen(
                [os.path.join(args.build, "bin", "cohort"), "local", "--ps", str(ADDED), "--workers", "3", *flags,
                 "--run_dir", path("run"), "--checkpoint_dir", path("ckpt"), "--log_dir", path("logs"), path("job.yaml")],
                stdout=out, stderr=out)
        address = "127.0.0.1:19731"
        config = {"cluster": {"ps": [address]}, "task": {"type": "ps", "index": 0}}
        server = None
        try:
            gaps = Gaps([ApplyLog(path("apply-%d" % ps)) for ps in range(ADDED + 1)])
            until(lambda: os.path.exists(path("apply-0")), "the job has not begun")
            gaps.watch("the start", lambda: all(os.path.getsize(path("apply-%d" % ps)) > 10000 for ps in range(ADDED)))
            server = subprocess.Popen(
                [os.path.join(args.build, "bin", "cohort-ps"), "--secret_file", path("run/secret"), "--threads=2",
                 "--apply_log=%s" % path("apply-%d" % ADDED)], env={**os.environ, "TF_CONFIG": json.dumps(config)},
                stderr=subprocess.DEVNULL)
            end = time.monotonic() + 5
            gaps.watch("nothing", lambda: time.monotonic() > end)

            def settled():
                now = status(args.build, path("ckpt"))
                return now.get("tablets_moving", 0) == 0 and all(s["connected"] for s in now["servers"])
            control(args.build, path("ckpt"), "add-ps", address)
            gaps.watch("add-ps", settled)
            for _ in range(args.rounds):
                control(args.build, path("ckpt"), "rebalance")
                gaps.watch("rebalance", settled)
                control(args.build, path("ckpt"), "drain-ps", str(ADDED))
                gaps.watch("drain-ps", settled)
                control(args.build, path("ckpt"), "return-ps", str(ADDED))
            last = status(args.build, path("ckpt"))
        finally:
            launcher.terminate()
            launcher.wait()
            if server is not None:
                server.kill()
                server.wait()
        for what in ("nothing", "add-ps", "rebalance", "drain-ps"):
            print("%-9s  longest time without an update of a tablet: %.3f s" % (what, gaps.longest[what]))
        print("timeline %d at step %d" % (last["timeline"], last["step"]))
        if last["timeline"] != 1:
            sys.exit("the job was rolled back")


if __name__ == "__main__":
    main()
