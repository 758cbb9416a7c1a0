#!/usr/bin/env python3
"""The manifests of deploy/kubernetes: an API server would accept them, they agree with the daemons, and a cluster that
runs exactly their commands survives killed and evicted pods under their restart rules."""
import copy
import json
import os
import re
import shutil
import sys

import jsonschema
import kubernetes_validate

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cluster"))
import manifests
import namespaces
import real_cluster
from pods import Kubelet, wait_ready
from real_cluster import DirectoryTestCase, data_dir, program, run, until
from restart_rules import DONE, FAIL, RESTART, rules_of
from safetensors_files import checkpoints

FINAL = {1, 2, *range(64, 80), 126, 127}  # exit codes that another try would not change
AGAIN = {134, 137, 139, 143, 169, 175}
ROLES = ("chief", "ps", "worker", "evaluator")


def read(*path):
    with open(os.path.join(real_cluster.SOURCE, *path), encoding="utf-8") as f:
        return f.read()


class Manifests(DirectoryTestCase):
    """What can be checked without running anything."""

    @classmethod
    def setUpClass(cls):
        cls.expansions = {variant: manifests.expand(variant) for variant in manifests.variants()}

    def test_an_api_server_accepts_every_resource(self):
        self.assertGreaterEqual(len(manifests.variants()), 7)
        for resources in self.expansions.values():
            for resource in resources:
                manifests.validate(resource)
            self.assertEqual(set(manifests.all_templates(resources)), set(ROLES))

    def test_the_schemas_refuse_what_an_api_server_refuses(self):
        refused = (jsonschema.ValidationError, kubernetes_validate.ValidationError)
        for variant, path in (("jobset/base", ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec")),
                              ("jobset/base", ("spec", "failurePolicy")), ("volcano", ("spec", "tasks", 0)),
                              ("tfjob", ("spec", "tfReplicaSpecs", "Chief")), ("jobs", ("spec", "template", "spec"))):
            for resource in self.expansions[variant]:
                if not manifests.templates(resource):
                    continue
                broken = copy.deepcopy(resource)
                place = broken
                for key in path:
                    place = place[key]
                place["misspelled"] = 1
                with self.subTest(variant, path=path), self.assertRaises(refused):
                    manifests.validate(broken)

    def test_nothing_allows_plaintext(self):
        for folder, _, names in os.walk(manifests.KUBERNETES):
            for name in names:
                self.assertNotIn("allow_insecure", read(folder, name), os.path.join(folder, name))

    def test_what_a_manifest_names_exists_in_it(self):
        for resources in self.expansions.values():
            kinds = {kind: manifests.only(resources, kind) for kind in ("ConfigMap", "PersistentVolumeClaim")}
            for role, (_, template) in manifests.all_templates(resources).items():
                spec = template["spec"]
                (container,) = spec["containers"]
                volumes = {volume["name"]: volume for volume in spec["volumes"]}
                self.assertEqual({m["name"] for m in container["volumeMounts"]}, set(volumes), role)
                for volume in volumes.values():
                    if "configMap" in volume:
                        self.assertIn(volume["configMap"]["name"], kinds["ConfigMap"])
                    if "persistentVolumeClaim" in volume:
                        self.assertIn(volume["persistentVolumeClaim"]["claimName"], kinds["PersistentVolumeClaim"])
                    if "secret" in volume:
                        self.assertEqual(volume["secret"]["secretName"], "cohort-tls-" + role)
                ports = {port["name"]: port["containerPort"] for port in container["ports"]}
                self.assertIn("--admin_port=%d" % ports["admin"], container["args"])
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    self.assertIn(container[probe]["httpGet"]["port"], ports)

    def test_every_program_knows_its_flags(self):
        help_of = {role: run([program("cohort-" + role), "--help"]).stdout for role in ROLES}
        for resources in self.expansions.values():
            for role, (_, template) in manifests.all_templates(resources).items():
                container = template["spec"]["containers"][0]
                self.assertEqual(container["command"], ["cohort-" + role])
                for flag in re.findall(r"--(\w+)", " ".join(container["args"])):
                    self.assertIn("--%s" % flag, help_of[role])

    def test_the_pods_of_a_role_are_the_same_under_every_job_system(self):
        def normal(template):
            spec = copy.deepcopy(template["spec"])
            for key in ("restartPolicy", "subdomain"):
                spec.pop(key, None)
            container = spec["containers"][0]
            container["name"] = "cohort"
            container["ports"] = [p for p in container["ports"] if p["name"] == "admin"]
            set_by_system = ("TASK_INDEX", "COHORT_CLUSTER", "TF_CONFIG")
            container["env"] = [v for v in container.get("env", []) if v["name"] not in set_by_system]
            return spec
        base = {role: normal(t) for role, (_, t) in manifests.all_templates(self.expansions["jobset/base"]).items()}
        for variant in ("jobs", "tfjob", "volcano"):
            for role, (_, template) in manifests.all_templates(self.expansions[variant]).items():
                with self.subTest(variant, role=role):
                    self.assertEqual(normal(template), base[role])

    def test_budgets_and_addresses_name_as_many_tasks_as_there_are_pods(self):
        for resources in self.expansions.values():
            counts = {role: count for role, (count, _) in manifests.all_templates(resources).items()}
            budgets = {b["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"]: b["spec"]["minAvailable"]
                       for b in manifests.only(resources, "PodDisruptionBudget").values()}
            self.assertEqual(budgets, {"chief": 1, "ps": counts["ps"], "worker": counts["worker"] - 1})
            cluster = manifests.only(resources, "ConfigMap").get("cohort-cluster")
            if cluster is not None:
                named = {role: len(tasks) for role, tasks in json.loads(cluster["data"]["cluster"]).items()}
                _, worker = manifests.all_templates(resources)["worker"]
                joins = any(a.startswith("--join=") for a in worker["spec"]["containers"][0]["args"])
                dialed = ("ps",) if joins else ("ps", "worker")
                self.assertEqual(named, {role: counts[role] for role in dialed})

    def test_the_grace_period_has_room_for_the_end_of_a_task(self):
        def drain_s(role):
            section = read("docs", "cluster.md").split("### cohort-%s\n" % role)[1].split("\n### ")[0]
            return int(re.search(r"`--drain_timeout_s` \| (\d+) ", section).group(1))
        # A chief ends 9 s after SIGTERM (EndLimits). An evaluator loses only the evaluation that it is doing.
        end_s = {"chief": 9, "ps": drain_s("ps"), "worker": drain_s("worker"), "evaluator": 0}
        for resources in self.expansions.values():
            for role, (_, template) in manifests.all_templates(resources).items():
                stop = template["spec"]["containers"][0].get("lifecycle", {}).get("preStop", {})
                before_s = int(next((word for word in stop.get("exec", {}).get("command", []) if word.isdigit()), 0))
                self.assertGreater(template["spec"]["terminationGracePeriodSeconds"], before_s + end_s[role], role)


class ExitCodes(DirectoryTestCase):
    """What each manifest does when a task ends with one of the codes of docs/failures.md."""

    def test_the_rules_of_every_manifest(self):
        documented = {int(code) for code in re.findall(r"^\| (\d+) \| `k\w+` \|", read("docs", "failures.md"), re.M)}
        self.assertIn(64, documented)
        for variant in manifests.variants():
            resources = manifests.expand(variant)
            for role in ROLES:
                with self.subTest(variant, role=role):
                    for code in documented | FINAL | AGAIN:
                        wanted = DONE if code == 0 else RESTART if code >= 128 else FAIL
                        self.assertEqual(rules_of(resources).after(role, code), wanted, code)
                    self.assertEqual(rules_of(resources).after(role, 143, evicted=True), RESTART)

    def test_the_end_of_the_job(self):
        for variant, enough in (("jobset/base", {"chief", "evaluator"}), ("tfjob", {"chief"}), ("volcano", {"chief"}),
                                ("jobs", {"chief", "evaluator"})):
            with self.subTest(variant):
                rules = rules_of(manifests.expand(variant))
                self.assertTrue(rules.succeeded(enough))
                for role in enough:
                    self.assertFalse(rules.succeeded(enough - {role}))

    def test_a_job_that_fails_too_often_ends(self):
        rules = rules_of(manifests.expand("jobset/base"))
        decided = [rules.after("worker", 137) for _ in range(201)]
        self.assertEqual(decided, [RESTART] * 200 + [FAIL])
        self.assertEqual(rules.after("ps", 137), RESTART)


class RunCase(DirectoryTestCase):
    """Runs the pods of a variant whose job has been changed."""

    def expanded(self, variant, job, *changes):
        """The resources with another job file, as an overlay of a user has it."""
        root = self.path("kubernetes")
        shutil.copytree(manifests.KUBERNETES, root)
        path = os.path.join(root, job)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return manifests.expand(variant, root)

    def start(self, resources):
        why = namespaces.why_not()
        if why:
            self.skipTest(why)
        claims = {"cohort-checkpoints": self.path("checkpoints"), "cohort-data": data_dir()}
        os.mkdir(claims["cohort-checkpoints"])
        os.chown(claims["cohort-checkpoints"], 0, 10001)
        os.chmod(claims["cohort-checkpoints"], 0o2775)
        os.chmod(self.directory, 0o755)
        self.rules = rules_of(resources)
        self.done = set()
        self.ends = []  # (role, index, code)
        kubelet = Kubelet(self.directory, resources, claims, self.certificates(resources), self.arguments)
        self.kubelet = self.enterContext(kubelet)
        # The chief does not wait for the tasks before it is ready, nor they for it, unless they join.
        for role in ("evaluator", "worker", "chief", "ps"):
            tasks = [pod for pod in kubelet.pods if pod.role == role]
            for pod in tasks:
                kubelet.start(pod)
            wait_ready(kubelet, [pod for pod in tasks if not any(a.startswith("--join=") for a in self.arguments(pod))])
        wait_ready(kubelet, kubelet.pods)
        return kubelet

    def arguments(self, pod):
        return pod.container["args"]

    def certificates(self, resources):
        """The directories of the secrets by name, as a kubelet mounts them: links through ..data."""
        counts = {role: count for role, (count, _) in manifests.all_templates(resources).items()}
        cluster = {role: ["%s-%d:2222" % (role, i) for i in range(counts[role])] for role in ("chief", "ps", "worker")}
        made = self.path("certificates")
        done = run([program("cohort"), "certs", "--by_role", self.write("cluster.yaml", json.dumps(
            {"name": "cohort", "cluster": cluster})), made])
        self.assertEqual(done.returncode, 0, done.stderr)
        secrets = {}
        for role in cluster:
            secret = self.path("cohort-tls-" + role)
            os.makedirs(os.path.join(secret, "..1"))
            os.symlink("..1", os.path.join(secret, "..data"))
            for name in ("tls.crt", "tls.key", "ca.crt"):
                shutil.copy(os.path.join(made, role, name), os.path.join(secret, "..1", name))
                os.chown(os.path.join(secret, "..1", name), 0, 10001)
                os.chmod(os.path.join(secret, "..1", name), 0o440)
                os.symlink(os.path.join("..data", name), os.path.join(secret, name))
            secrets["cohort-tls-" + role] = secret
        return secrets

    def newest(self):
        """The number of the newest checkpoint."""
        found = checkpoints(os.path.join(self.path("checkpoints"), "cohort", "checkpoints"))
        return max((int(path.rsplit("-", 1)[1]) for path in found), default=-1)

    def await_in_job(self, condition):
        """Waits for something that must happen before the chief ends."""
        until(self.logs, lambda: condition() or self.chief.process.poll() is not None)
        self.assertIsNone(self.chief.process.poll(), "the job ended too early: give it more epochs\n" + self.logs())

    def await_checkpoints(self, more):
        wanted = self.newest() + more
        self.await_in_job(lambda: self.newest() >= wanted)

    @property
    def chief(self):
        return self.kubelet.pod("chief", 0)

    def logs(self):
        return "\n".join("== %s\n%s" % (pod.name, self.kubelet.text(pod)[-1500:]) for pod in self.kubelet.pods if pod.log)

    def after(self, pod, code, evicted=False):
        """Does what the job system does when a pod has ended."""
        self.ends.append((pod.role, pod.index, code))
        decided = self.rules.after(pod.role, code, evicted)
        self.assertNotEqual(decided, FAIL, "%s ended with %d\n%s" % (pod.name, code, self.logs()))
        if decided == RESTART:
            self.kubelet.start(pod)
            wait_ready(self.kubelet, [pod])

    def kill(self, role, index):
        pod = self.kubelet.pod(role, index)
        adoptions = self.kubelet.text(pod).count(" adopted ")
        code = self.kubelet.kill(pod)
        self.assertEqual(code, 137)
        # However fast the machine is, the job lasts until the pod is back.
        self.control("pause")
        self.after(pod, code)
        # The chief finds the new pod under the name of the old one.
        self.await_in_job(lambda: self.kubelet.text(pod).count(" adopted ") > adoptions)
        self.control("resume")

    def control(self, command):
        """`cohort ctl` in the pod of the chief."""
        done = self.kubelet.execute(self.chief, ["cohort", "ctl", "/checkpoints/cohort/checkpoints", command])
        self.assertEqual(done.returncode, 0, done.stderr + self.logs())

    def evict(self, role, index):
        """Returns what preStop has printed."""
        pod = self.kubelet.pod(role, index)
        before, code = self.kubelet.terminate(pod)
        self.assertEqual(before.returncode, 0, before.stderr)
        self.assertEqual(code, 143, self.kubelet.text(pod)[-2000:])
        self.after(pod, code, evicted=True)
        return before.stdout

    def await_end(self, limit_s=120):
        """Until the job system calls the job complete; pods that end meanwhile are handled by the rules."""
        running = list(self.kubelet.pods)

        def complete():
            for pod in list(running):
                if pod.process.poll() is None:
                    continue
                code = self.kubelet.ended(pod)
                self.after(pod, code)
                if code == 0:
                    running.remove(pod)
            ended = {pod.role for pod in self.kubelet.pods} - {pod.role for pod in running}
            return self.rules.succeeded(ended)
        until(self.logs, complete, limit_s)
        self.assertIn("finished", self.kubelet.text(self.chief))


class JobSet(RunCase):
    """MNIST under the overlay cpu: a worker and a server are killed, the chief is evicted."""

    NEEDS = "mnist"

    def test_the_job_survives_what_its_pods_do_not(self):
        kubelet = self.start(self.expanded("jobset/overlays/cpu", "jobset/overlays/cpu/job.yaml",
                                           ("epochs: 5", "epochs: 15")))
        self.await_checkpoints(1)
        self.kill("worker", 1)
        self.await_checkpoints(1)
        self.kill("ps", 0)
        self.await_checkpoints(1)
        self.assertIn("ckpt-", self.evict("chief", 0))
        for pod in kubelet.pods:
            self.assertTrue(kubelet.alive(pod), pod.name)
        self.await_end()
        self.assertEqual(self.ends[:3], [("worker", 1, 137), ("ps", 0, 137), ("chief", 0, 143)])
        self.assertIn(("chief", 0, 0), self.ends)
        accuracy = [float(v) for v in re.findall(r"accuracy (0\.\d+)", kubelet.text(self.chief))]
        self.assertGreater(max(accuracy), 0.9, kubelet.text(self.chief)[-2000:])


class OtherSystems(RunCase):
    """The recommender under the other job systems: a server and a worker are killed."""

    def survives(self, variant):
        self.start(self.expanded(variant, "common/job.yaml", ("epochs: 4", "epochs: 120")))
        self.await_checkpoints(1)
        self.kill("ps", 1)
        self.await_checkpoints(1)
        self.kill("worker", 0)
        self.await_end()

    def test_tfjob(self):
        self.survives("tfjob")

    def test_volcano(self):
        self.survives("volcano")

    def test_plain_jobs(self):
        self.survives("jobs")

    def test_plain_jobs_whose_workers_join(self):
        self.survives("jobs-elastic")


if __name__ == "__main__":
    if any(name in ("JobSet", "OtherSystems") for name in sys.argv[1:]) and namespaces.why_not():
        print("skipped: " + namespaces.why_not())
        sys.exit(77)
    real_cluster.main(globals())
