"""Hosts with addresses of their own: network namespaces that a bridge connects.

    with Hosts(["chief-0", "ps-0"]) as hosts:
        server = hosts.popen("ps-0", ["python3", "-m", "http.server", "80"])
        hosts.run("chief-0", ["curl", "http://ps-0/"], check=True)

Every host resolves the names of all hosts (its own /etc/hosts) and reaches only them. The bridge lives in a
namespace of its own, so several tests may use the same addresses at the same time. Needs root and `ip` (Debian's
iproute2); why_not() says what is missing.
"""
import contextlib
import ipaddress
import os
import shutil
import subprocess
import uuid

ETC = "/etc/netns"  # `ip netns exec` mounts the files of ETC/NAMESPACE over those of /etc


def why_not():
    """Why namespaces cannot be made here, or None."""
    if shutil.which("ip") is None:
        return "no `ip` program (Debian: iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with Hosts(["probe"]):
            return None
    except subprocess.CalledProcessError as error:
        return f"cannot make network namespaces: {error.stderr.strip() or error}"
    except OSError as error:
        return f"cannot make network namespaces: {error}"


class Hosts:
    """Namespaces by name. `aliases` gives hosts further names: {"ps-0": ["job-ps-0.job"]}."""

    def __init__(self, names, aliases=None, subnet="10.77.0.0/24"):
        self.names = list(names)
        network = ipaddress.ip_network(subnet)
        self._prefix_length = network.prefixlen
        self.address = {name: str(network[i + 1]) for i, name in enumerate(self.names)}
        self._aliases = aliases or {}
        self._id = uuid.uuid4().hex[:8]
        self._net = f"cohort-{self._id}-net"
        self._cleanup = contextlib.ExitStack()

    def __enter__(self):
        try:
            self._add(self._net)
            self._ip(self._net, "link", "add", "bridge", "type", "bridge")
            self._ip(self._net, "link", "set", "bridge", "up")
            for i, name in enumerate(self.names):
                self._add_host(i, name)
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def __exit__(self, *_):
        self._cleanup.close()

    def namespace(self, name):
        """The name that `ip netns` knows the host by."""
        return f"cohort-{self._id}-{self.names.index(name)}"

    def command(self, name, argv):
        """The command line that runs `argv` on a host."""
        return ["ip", "netns", "exec", self.namespace(name), *argv]

    def popen(self, name, argv, **options):
        """Starts `argv` on a host. A signal to the process reaches `argv` itself: `ip` is replaced by it."""
        return subprocess.Popen(self.command(name, argv), **options)

    def run(self, name, argv, **options):
        return subprocess.run(self.command(name, argv), **options)

    def cut(self, name):
        """Unplugs the host: its packets are lost, and no connection is reset."""
        self._ip(self._net, "link", "set", f"port{self.names.index(name)}", "down")

    def join(self, name):
        """Undoes cut()."""
        self._ip(self._net, "link", "set", f"port{self.names.index(name)}", "up")

    def _add_host(self, i, name):
        namespace = self.namespace(name)
        self._add(namespace)
        port = f"port{i}"
        self._ip(self._net, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        self._ip(self._net, "link", "set", port, "master", "bridge", "up")
        self._ip(namespace, "address", "add", f"{self.address[name]}/{self._prefix_length}", "dev", "eth0")
        for device in ("lo", "eth0"):
            self._ip(namespace, "link", "set", device, "up")
        lines = ["127.0.0.1 localhost"]
        for host in self.names:
            lines.append(" ".join([self.address[host], host, *self._aliases.get(host, [])]))
        directory = os.path.join(ETC, namespace)
        os.makedirs(directory)
        self._cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
        with open(os.path.join(directory, "hosts"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def _add(self, namespace):
        self._check(["ip", "netns", "add", namespace])
        self._cleanup.callback(subprocess.run, ["ip", "netns", "delete", namespace], check=False)

    def _ip(self, namespace, *arguments):
        self._check(["ip", "-netns", namespace, *arguments])

    @staticmethod
    def _check(command):
        subprocess.run(command, check=True, capture_output=True, text=True)
