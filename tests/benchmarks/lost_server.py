#!/usr/bin/env python3
"""Seconds from the kill of a parameter server to the next update of its variables, with and without copies.

    tests/benchmarks/lost_server.py --build build/release --kills 10

A recommender with 3 workers and 2 servers on this machine (`cohort local --restart`). The script kills a server with
SIGKILL again and again and follows the servers' apply logs. With `replicas: 2` the other server takes over. Without,
the launcher starts the server again, and the job goes back to its newest checkpoint; `--checkpoint_steps` apart.
"""
import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVERS = 2


def job_text(replicas, checkpoint_steps):
    with open(os.path.join(SOURCE, "deploy", "examples", "recommender.yaml"), encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"epochs: \d+", "epochs: 100000", text).replace("strategy:\n", "strategy:\n  replicas: %d\n" % replicas)
    text = re.sub(r"  validation:\n.*\n", "", text)
    return re.sub(r"checkpoint:\n(  .*\n)*", "checkpoint: {directory: checkpoints, every_steps: %d}\n" % checkpoint_steps,
                  text)


class ApplyLog:
    """The updates that one server has applied, as it writes them."""

    def __init__(self, path):
        self.path = path
        self.read = 0

    def tablets(self):
        """Those of the updates since the last call, which it has not replayed as a copy."""
        try:
            with open(self.path, "rb") as f:
                f.seek(self.read)
                text = f.read()
        except FileNotFoundError:
            return set()
        end = text.rfind(b"\n") + 1
        self.read += end
        words = [line.split() for line in text[:end].split(b"\n") if line and not line.startswith(b"#")]
        return {line[6] for line in words if line[7] == b"applied"}


def servers_of(launcher):
    out = subprocess.run(["pgrep", "-P", str(launcher.pid), "-x", "cohort-ps"], capture_output=True, text=True,
                         check=False).stdout.split()
    commands = {}
    for pid in out:
        with open("/proc/%s/environ" % pid, encoding="utf-8", errors="replace") as f:
            match = re.search(r'"type": *"ps", *"index": *(\d+)|"index": *(\d+), *"type": *"ps"', f.read())
        if match:
            commands[int(match.group(1) or match.group(2))] = int(pid)
    return commands


def until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            sys.exit("after %d s: %s" % (seconds, what))
        time.sleep(0.001)


def measure(build, replicas, kills, checkpoint_steps):
    """The seconds of each kill."""
    with tempfile.TemporaryDirectory() as directory:
        job = os.path.join(directory, "job.yaml")
        with open(job, "w", encoding="utf-8") as f:
            f.write(job_text(replicas, checkpoint_steps))
        flags = [word for ps in range(SERVERS)
                 for word in ("--task_flag", "ps:%d=--apply_log=%s" % (ps, os.path.join(directory, "apply-%d" % ps)))]
        with open(os.path.join(directory, "out"), "w", encoding="utf-8") as out:
            launcher = subprocess.Popen(
                [os.path.join(build, "bin", "cohort"), "local", "--restart", "--ps", str(SERVERS), "--workers", "3", *flags,
                 "--run_dir", os.path.join(directory, "run"), "--checkpoint_dir", os.path.join(directory, "ckpt"),
                 "--log_dir", os.path.join(directory, "logs"), job], stdout=out, stderr=out)
        seconds = []
        try:
            for kill in range(kills):
                logs = [ApplyLog(os.path.join(directory, "apply-%d" % ps)) for ps in range(SERVERS)]
                for log in logs:
                    log.tablets()
                # One that answers for tablets, while each tablet has its copy again.
                until(lambda: len(servers_of(launcher)) == SERVERS, "the servers are not there")
                until(lambda: any([log.tablets() for log in logs]), "no server applies updates")
                time.sleep(1)
                has = [log.tablets() for log in logs]
                victim = random.choice([ps for ps in range(SERVERS) if has[ps]])
                pid = servers_of(launcher)[victim]
                os.kill(pid, signal.SIGKILL)
                begin = time.monotonic()
                logs[victim].tablets()
                lost = has[victim]
                until(lambda: any(log.tablets() & lost for log in logs), "no update follows kill %d" % kill)
                seconds.append(time.monotonic() - begin)
        finally:
            launcher.send_signal(signal.SIGTERM)
            launcher.wait()
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build", "release"))
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--checkpoint_steps", type=int, default=5000)
    args = parser.parse_args()
    for replicas in (2, 1):
        seconds = sorted(measure(args.build, replicas, args.kills, args.checkpoint_steps))
        print("replicas %d: %.3f s from the kill to the next update (%.3f to %.3f, %d kills)" % (
            replicas, statistics.median(seconds), seconds[0], seconds[-1], len(seconds)), flush=True)


if __name__ == "__main__":
    main()
