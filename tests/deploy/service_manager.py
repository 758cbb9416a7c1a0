"""A service manager that plays systemd: it runs the units' commands, hears their notifications, and restarts them.

    host = Host(directory)
    host.start("cohort-ps@0.service")
    host.until_ready("cohort-ps@0.service")

It has systemd's rules for Type=notify, Restart=on-failure, RestartPreventExitStatus=, SuccessExitStatus=,
WatchdogSec=, TimeoutStartSec= and EXTEND_TIMEOUT_USEC=. It has no cgroups and no sandbox.
"""
import os
import select
import signal
import socket
import subprocess
import threading
import time

from real_cluster import BINARY, SCALE, dies_with_parent, until
from unit_files import Unit


class Service:
    """The runs of one unit."""

    def __init__(self, host, name, watchdog_s=None):
        self.unit = Unit(name, host)
        self.host = host
        self.watchdog_s = watchdog_s or self.unit.seconds("WatchdogSec")
        self.state = "activating"  # as systemctl shows it: activating, active, inactive, failed
        self.exits = []            # exit codes of all runs; -9 for SIGKILL
        self.messages = []         # (seconds since the start of the run, "READY=1")
        self.ready_count = 0
        self.process = None
        self.stopping = threading.Event()
        self.stop_signal = 0
        self.protocol_error = False
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket_path = host.path("run/notify-" + name)
        self.socket.bind(self.socket_path)
        self.log_path = host.path("log-" + name)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def status(self):
        """The latest STATUS=; "" if there is none."""
        return next((m[7:] for _, m in reversed(self.messages) if m.startswith("STATUS=")), "")

    def stop(self, number=signal.SIGTERM):
        """Sends a signal to the process; the unit is not restarted."""
        self.stop_signal = number
        self.stopping.set()

    def _run(self):
        while True:
            code = self._run_once()
            self.exits.append(code)
            clean = code in (0, -signal.SIGTERM) or code in self.unit.codes("SuccessExitStatus")
            if clean and not self.protocol_error:
                self.state = "inactive"
                return
            prevented = code in self.unit.codes("RestartPreventExitStatus")
            if self.unit.get("Restart") != "on-failure" or prevented or self.stopping.is_set():
                self.state = "failed"
                return
            self.state = "activating"
            if self.stopping.wait(self.unit.seconds("RestartSec")):
                return

    def _run_once(self):
        environment = self.unit.environment()
        command = self.unit.command(environment)
        self.protocol_error = False
        begin = time.monotonic()
        ready = False
        deadline = begin + self.unit.seconds("TimeoutStartSec") * SCALE
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                dies_with_parent(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.unit.expand(self.unit.get("WorkingDirectory")),
                env={"PATH": "/usr/bin:/bin", **environment, "NOTIFY_SOCKET": self.socket_path,
                     "WATCHDOG_USEC": str(int(self.watchdog_s * 1e6))})
        while True:
            ended = self.process.poll()
            if self.stopping.is_set() and self.stop_signal != 0:
                self.process.send_signal(self.stop_signal)
                self.stop_signal = 0
            while select.select([self.socket], [], [], 0 if ended is not None else 0.02)[0]:
                for line in self.socket.recv(65536).decode().split("\n"):
                    now = time.monotonic()
                    self.messages.append((now - begin, line))
                    if line == "READY=1":
                        ready = True
                        self.ready_count += 1
                        self.state = "active"
                        deadline = now + self.watchdog_s
                    elif line == "WATCHDOG=1":
                        deadline = now + self.watchdog_s
                    elif line == "STOPPING=1":
                        deadline = now + self.unit.seconds("TimeoutStopSec") * SCALE
                    elif line.startswith("EXTEND_TIMEOUT_USEC="):
                        deadline = max(deadline, now + int(line.split("=")[1]) / 1e6)
            if ended is not None:
                self.protocol_error = not ready and ended == 0  # Type=notify: it never said READY=1
                return ended
            if time.monotonic() > deadline:
                self.messages.append((time.monotonic() - begin, "killed: no message came in time"))
                self.process.kill()
                self.process.wait()
                return -signal.SIGABRT


class Host:
    """A host with /etc/cohort, /run, /var/lib and the programs of the build tree."""

    bin_dir = os.path.join(BINARY, "bin")

    def __init__(self, directory):
        self.directory = directory
        self.services = {}
        for name in ("etc", "run/cohort", "lib/cohort"):
            os.makedirs(self.path(name), mode=0o700)

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, name, **keywords):
        if name in self.services:
            self.services[name].socket.close()
            os.remove(self.services[name].socket_path)
        self.services[name] = Service(self, name, **keywords)
        return self.services[name]

    def until(self, what, condition, limit_s=60.0):
        return until(lambda: "%s; %s" % (what, self.describe()), condition, limit_s)

    def until_ready(self, name, times=1):
        service = self.services[name]
        self.until(name + " is not ready", lambda: service.ready_count >= times)

    def describe(self):
        return "\n".join("%s: %s, exits %s, %s\n%s" % (name, s.state, s.exits, s.messages[-4:], s.text()[-1500:])
                         for name, s in self.services.items())

    def close(self):
        """Kills what still runs."""
        for service in self.services.values():
            service.stop(signal.SIGKILL)
        for service in self.services.values():
            service.thread.join(timeout=60 * SCALE)
            service.socket.close()
