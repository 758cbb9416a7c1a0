"""Runs the pods of an expansion as processes of this machine, as a kubelet would.

Each pod has a network namespace with an address of its own and the names that its Service would give, a root of its own
(a tmpfs with this machine's /usr, the build's programs in the PATH, and the volumes of the manifest at their places,
read-only as the manifest says), a PID namespace in which the program is process 1, and the user and groups of its
security context. What is not there: limits of CPU and memory, capabilities beyond "none", seccomp, an API server.
"""
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys

import manifests
from namespaces import Hosts
from real_cluster import BINARY, SCALE, alive, dies_with_parent, run, until

KUBELET = "kubelet"
# Prints the status of each URL on its stdin, 0 if there is no answer.
PROBER = """
import sys, urllib.error, urllib.request
for line in sys.stdin:
    try:
        code = urllib.request.urlopen(line.strip(), timeout=2).status
    except urllib.error.HTTPError as error:
        code = error.code
    except OSError:
        code = 0
    print(code, flush=True)
"""
# Makes the root $1 and becomes the program in it. The lines of stdin are the mounts of volumes.
ROOT = """
set -euo pipefail
root=$1 hosts=$2 etc=$3 host=$4
mount -t tmpfs -o mode=755 tmpfs "$root"
mkdir -p "$root"/{usr,dev,proc,sys,tmp,opt/cohort}
for link in bin sbin lib lib64; do
  [[ ! -e /$link ]] || if [[ -L /$link ]]; then cp -a "/$link" "$root/"; else mkdir "$root/$link"; mount --bind "/$link" "$root/$link"; fi
done
mount --rbind /usr "$root/usr"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
cp -a "$etc" "$root/etc"
mount --bind "$hosts" "$root/etc/hosts"
mkdir "$root/opt/cohort/bin"
mount --bind "$5" "$root/opt/cohort/bin"
while read -r mode source target; do
  mkdir -p "$root$target"
  mount --bind "$source" "$root$target"
  [[ $mode == rw ]] || mount -o remount,bind,ro "$root$target"
done <<<"$6"
python=$7 launcher=$8
shift 8
exec "$python" -c "$launcher" "$root" /bin/sh -c '
  hostname "$1" && mount -t proc proc /proc && mount -o remount,ro / && shift && exec "$@"' sh "$host" "$@"
"""
# Runs a program as process 1 of a PID namespace in the root argv[1], and ends with its exit code, or 128 + signal.
# (unshare(1) of util-linux 2.38 ends with 1 after a signal.)
LAUNCHER = """
import ctypes, os, signal, sys
CLONE_NEWUTS, CLONE_NEWPID, PR_SET_PDEATHSIG = 0x04000000, 0x20000000, 1
libc = ctypes.CDLL(None)
assert libc.unshare(CLONE_NEWUTS | CLONE_NEWPID) == 0
child = os.fork()
if child == 0:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chroot(sys.argv[1])
    os.chdir("/")
    os.execv(sys.argv[2], sys.argv[2:])
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(code if code >= 0 else 128 - code)
"""


class Pod:
    """A task of the expansion, over all its processes."""

    def __init__(self, role, index, name, host, template):
        self.role, self.index, self.name, self.host = role, index, name, host  # host: its DNS name
        self.template, self.spec = template, template["spec"]
        (self.container,) = self.spec["containers"]
        self.environment = {}  # that the job system adds
        self.process = None
        self.log = None

    @property
    def group(self):
        return self.spec["securityContext"]["fsGroup"]

    def init(self):
        """The id of the program, which is process 1 of the pod; None if it has ended."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], check=False, capture_output=True, text=True)
        pids = [int(pid) for pid in found.stdout.split() if alive(int(pid))]
        return pids[0] if pids else None

    def port(self, name):
        return next(p["containerPort"] for p in self.container["ports"] if p["name"] == name)


def pods_of(resources, namespace="default"):
    """The pods with the names, addresses and TF_CONFIG that their job system gives them."""
    pods = []
    for resource in resources:
        kind = manifests.kind_of(resource)
        job = resource["metadata"]["name"]
        for role, (count, template) in manifests.templates(resource).items():
            for index in range(count):
                if kind == "JobSet":
                    name = "%s-%s-0-%d" % (job, role, index)
                    host = "%s.%s" % (name, job)
                elif kind == "TFJob":
                    name = "%s-%s-%d" % (job, role, index)
                    host = "%s.%s.svc" % (name, namespace)
                elif kind == "VolcanoJob":
                    name = "%s-%s-%d" % (job, role, index)
                    host = "%s.%s" % (name, job)
                else:
                    name = "%s-%d" % (job, index)
                    host = "%s.%s" % (name, template["spec"]["subdomain"])
                pods.append(Pod(role, index, name, host, template))
    kinds = {manifests.kind_of(resource) for resource in resources}
    for pod in pods:
        if kinds & {"TFJob", "VolcanoJob"}:
            cluster = {role: ["%s:2222" % p.host for p in pods if p.role == role] for role in
                       dict.fromkeys(p.role for p in pods)}
            config = {"cluster": cluster, "task": {"type": pod.role, "index": pod.index}}
            if "TFJob" in kinds:
                config["environment"] = "cloud"
            pod.environment["TF_CONFIG"] = json.dumps(config)
    return pods


def environment_of(pod, resources):
    """The variables of the container, with references resolved and $(NAME) expanded."""
    found = {}
    for variable in pod.container.get("env", []):
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            assert source["fieldRef"]["fieldPath"] == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
            value = str(pod.index)
        elif "configMapKeyRef" in source:
            reference = source["configMapKeyRef"]
            value = manifests.only(resources, "ConfigMap")[reference["name"]]["data"][reference["key"]]
        else:
            value = variable["value"]
            for name, known in found.items():
                value = value.replace("$(%s)" % name, known)
        found[variable["name"]] = value
    return {**found, **pod.environment}


class Kubelet:
    """The machine that all pods of an expansion run on.

    `claims` and `secrets` name the directories of volumes. `change(pod)` returns the arguments of a pod.
    """

    def __init__(self, directory, resources, claims, secrets, change=lambda pod: pod.container["args"]):
        self.directory, self.resources, self.claims, self.secrets = directory, resources, claims, secrets
        self.change = change
        self.pods = pods_of(resources)
        self._hosts = Hosts([pod.name for pod in self.pods] + [KUBELET])
        self._addresses = {pod.name: self._hosts.address[pod.name] for pod in self.pods}
        self._next_address = 100
        self._prober = None

    def __enter__(self):
        self._make_etc()
        self._hosts.__enter__()
        self._prober = self._hosts.popen(KUBELET, dies_with_parent([sys.executable, "-c", PROBER]), text=True, bufsize=1,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, *ended):
        for pod in self.pods:
            if pod.process is None:
                continue
            if pod.process.poll() is None:
                # The program first: it would outlive the process that has made its namespaces.
                init = pod.init()
                with contextlib.suppress(ProcessLookupError):
                    if init is not None:
                        os.kill(init, signal.SIGKILL)
                pod.process.kill()
            pod.process.wait()
        self._prober.kill()
        self._prober.communicate()
        self._hosts.__exit__(*ended)

    def pod(self, role, index):
        return next(p for p in self.pods if (p.role, p.index) == (role, index))

    def text(self, pod):
        with open(pod.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    # ------------------------------------------------------------------ what a kubelet does

    def start(self, pod):
        """Starts the program of a pod. A pod that is created again has another address behind the same name."""
        if pod.process is not None:
            self._move(pod)
        root = self._made("roots", pod.name)
        pod.log = os.path.join(self.directory, pod.name + ".log")
        command = self._hosts.command(pod.name, [
            "bash", "-c", ROOT, "bash", root, os.path.join(self.directory, "hosts"), os.path.join(self.directory, "etc"),
            pod.name, os.path.join(BINARY, "bin"), "\n".join(self._mounts(pod)), sys.executable, LAUNCHER,
            *self._program(pod)])
        with open(pod.log, "ab") as log:
            pod.process = subprocess.Popen(dies_with_parent(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ready(self, pod):
        """Whether the startup probe and the readiness probe succeed now."""
        return all(self._probe(pod, probe) == 200 for probe in ("startupProbe", "readinessProbe"))

    def alive(self, pod):
        return self._probe(pod, "livenessProbe") == 200

    def kill(self, pod):
        """The end of a program that its node kills."""
        os.kill(pod.init(), signal.SIGKILL)
        return self.ended(pod)

    def terminate(self, pod):
        """The end of a pod that is deleted: preStop, SIGTERM, and at the end of the grace period SIGKILL."""
        stop = pod.container.get("lifecycle", {}).get("preStop")
        before = None
        if stop is not None:
            before = self.execute(pod, stop["exec"]["command"])
        os.kill(pod.init(), signal.SIGTERM)
        return before, self.ended(pod, pod.spec["terminationGracePeriodSeconds"])

    def ended(self, pod, limit_s=60):
        """The exit code, as a container has it: 128 + signal."""
        return pod.process.wait(limit_s * SCALE)

    def execute(self, pod, command):
        """Runs a command in the container."""
        inside = ["nsenter", "--target", str(pod.init()), "--mount", "--net", "--pid", "--uts", "--root", "--wd",
                  *self._as_user(pod, command)]
        return run(inside)

    # ------------------------------------------------------------------ parts

    def _probe(self, pod, name):
        get = pod.container[name]["httpGet"]
        port = pod.port(get["port"])
        self._prober.stdin.write("http://%s:%d%s\n" % (self._addresses[pod.name], port, get["path"]))
        return int(self._prober.stdout.readline())

    def _program(self, pod):
        return self._as_user(pod, pod.container["command"] + self.change(pod))

    def _as_user(self, pod, command):
        security = pod.spec["securityContext"]
        assert pod.container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        variables = {"PATH": "/opt/cohort/bin:/usr/bin:/bin", "HOSTNAME": pod.name, **environment_of(pod, self.resources)}
        return ["setpriv", "--reuid", str(security["runAsUser"]), "--regid", str(security["runAsGroup"]), "--groups",
                str(pod.group), "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "env", "-i",
                *("%s=%s" % item for item in variables.items()), *command]

    def _mounts(self, pod):
        """Lines `rw|ro SOURCE TARGET`."""
        sources = {volume["name"]: self._source(pod, volume) for volume in pod.spec["volumes"]}
        return ["%s %s %s" % ("ro" if m.get("readOnly") or sources[m["name"]][1] else "rw",
                              shlex.quote(sources[m["name"]][0]), m["mountPath"])
                for m in pod.container["volumeMounts"] if sources[m["name"]] is not None]

    def _source(self, pod, volume):
        """(directory, read-only) of a volume; None: the test leaves it out."""
        if "secret" in volume:
            directory = self.secrets.get(volume["secret"]["secretName"])
            return directory and (directory, True)
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]
            return self.claims[claim["claimName"]], claim.get("readOnly", False)
        directory = self._made("volumes", pod.name, volume["name"])
        if "configMap" not in volume:
            os.chown(directory, 0, pod.group)
            os.chmod(directory, 0o2770)
            return directory, False
        for name, text in manifests.only(self.resources, "ConfigMap")[volume["configMap"]["name"]]["data"].items():
            with open(os.path.join(directory, name), "w", encoding="utf-8") as f:
                f.write(text)
        return directory, True

    def _made(self, *parts):
        path = os.path.join(self.directory, *parts)
        os.makedirs(path, exist_ok=True)
        return path

    def _make_etc(self):
        etc = self._made("etc")
        files = {"passwd": "root:x:0:0::/:/bin/sh\ncohort:x:10001:10001::/:/bin/sh\n", "nsswitch.conf": "hosts: files\n",
                 "group": "root:x:0:\ncohort:x:10001:\n", "hosts": "", "resolv.conf": ""}
        for name, text in files.items():
            with open(os.path.join(etc, name), "w", encoding="utf-8") as f:
                f.write(text)
        for cached in ("ld.so.cache", "ld.so.conf", "alternatives"):
            run(["cp", "-a", "/etc/" + cached, etc])
        self._write_names()

    def _write_names(self):
        """Every pod mounts this file, so it is changed in place."""
        lines = ["127.0.0.1 localhost"] + ["%s %s" % (self._addresses[p.name], p.host) for p in self.pods]
        text = ("\n".join(lines) + "\n").encode()
        descriptor = os.open(os.path.join(self.directory, "hosts"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
        finally:
            os.close(descriptor)

    def _move(self, pod):
        """Gives a pod that is created again another address."""
        namespace = self._hosts.namespace(pod.name)
        old, new = self._addresses[pod.name], "10.77.0.%d" % self._next_address
        self._next_address += 1
        for change in (["del", old + "/24"], ["add", new + "/24"]):
            subprocess.run(["ip", "-netns", namespace, "address", *change, "dev", "eth0"], check=True)
        self._addresses[pod.name] = new
        self._write_names()


def wait_ready(kubelet, pods, limit_s=60):
    """Waits until the probes of all pods succeed, or one ends."""
    def all_ready():
        for pod in pods:
            if pod.process.poll() is not None:
                raise AssertionError("%s ended with %d: %s" % (pod.name, pod.process.returncode, kubelet.text(pod)))
        return all(kubelet.ready(pod) for pod in pods)
    until(lambda: "\n".join(kubelet.text(pod)[-500:] for pod in pods), all_ready, limit_s)
