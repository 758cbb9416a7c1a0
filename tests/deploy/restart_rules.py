"""What a job system does when a pod ends: the rules of a manifest, applied as its controller applies them.

    rules = rules_of(resources)
    rules.after("worker", 137)                    # RESTART: the pod is created again
    rules.after("ps", 143, evicted=True)          # RESTART
    rules.after("chief", 64)                      # FAIL: the job has failed
    rules.succeeded({"chief", "evaluator"})       # whether the job is complete when these roles have ended with 0

Sources: the API of Kubernetes' Job (podFailurePolicy), of JobSet v0.13 (successPolicy, failurePolicy), of
kubeflow/training-operator v1.9 (IsRetryableExitCode: 128 and above), and applyPolicies of Volcano's job controller.
"""
import manifests

DONE, RESTART, FAIL = "done", "restart", "fail"


class JobRules:
    """batch/v1 Job. A pod that is evicted has the condition DisruptionTarget."""

    def __init__(self, role, spec):
        self._role, self._spec = role, spec
        self._failures = 0

    def after(self, role, code, evicted=False):
        assert role == self._role
        if code == 0:
            return DONE
        assert self._spec["template"]["spec"]["restartPolicy"] == "Never"  # podFailurePolicy needs it
        for rule in self._spec["podFailurePolicy"]["rules"]:
            if self._matches(rule, code, evicted):
                return {"Ignore": RESTART, "FailJob": FAIL}[rule["action"]]
        self._failures += 1
        return RESTART if self._failures <= self._spec["backoffLimit"] else FAIL

    @staticmethod
    def _matches(rule, code, evicted):
        if "onPodConditions" in rule:
            assert rule["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
            return evicted
        wanted = rule["onExitCodes"]
        return (code in wanted["values"]) == (wanted["operator"] == "In")


class PlainJobs:
    """Jobs that know nothing of each other. The user waits for two of them, then deletes all (README.md)."""

    def __init__(self, jobs):
        self._jobs = jobs

    def after(self, role, code, evicted=False):
        return self._jobs[role].after(role, code, evicted)

    def succeeded(self, done):
        return {"chief", "evaluator"} <= done


class JobSetRules(PlainJobs):
    """A job that FailJob has ended has the reason PodFailurePolicy."""

    def __init__(self, spec):
        super().__init__({j["name"]: JobRules(j["name"], j["template"]["spec"]) for j in spec["replicatedJobs"]})
        self._success, self._rules = spec["successPolicy"], spec["failurePolicy"]["rules"]

    def after(self, role, code, evicted=False):
        decided = super().after(role, code, evicted)
        if decided == FAIL:
            assert [(r["action"], r["onJobFailureReasons"]) for r in self._rules] == [
                ("FailJobSet", ["PodFailurePolicy"])]
        return decided

    def succeeded(self, done):
        assert self._success["operator"] == "All"
        return set(self._success["targetReplicatedJobs"]) <= done


class TFJobRules:
    """Restart policy ExitCode of every replica."""

    def __init__(self, spec):
        self._policies = {manifests.ROLES[name]: s["restartPolicy"] for name, s in spec["tfReplicaSpecs"].items()}

    def after(self, role, code, evicted=False):
        del evicted  # the pod has failed with its exit code
        assert self._policies[role] == "ExitCode"
        return DONE if code == 0 else RESTART if code >= 128 else FAIL

    def succeeded(self, done):
        return "chief" in done


class VolcanoRules:
    """Policies of the task, then those of the job; the first one that names the event or the code counts."""

    ACTIONS = {"RestartPod": RESTART, "AbortJob": FAIL, "CompleteJob": DONE}

    def __init__(self, spec):
        self._tasks, self._policies = {t["name"]: t.get("policies", []) for t in spec["tasks"]}, spec["policies"]

    def after(self, role, code, evicted=False):
        if code == 0:
            return DONE
        event = "PodEvicted" if evicted else "PodFailed"
        for policy in self._tasks[role] + self._policies:
            if policy.get("event") in (event, "*") or policy.get("exitCode") == code:
                return self.ACTIONS[policy["action"]]
        raise AssertionError("no policy for exit code %d" % code)

    def succeeded(self, done):
        return any({"event": "TaskCompleted", "action": "CompleteJob"} in policies and role in done
                   for role, policies in self._tasks.items())


def rules_of(resources):
    """The rules of the resources that make pods."""
    jobs = {}
    for resource in resources:
        kind = manifests.kind_of(resource)
        if kind in ("JobSet", "TFJob", "VolcanoJob"):
            return {"JobSet": JobSetRules, "TFJob": TFJobRules, "VolcanoJob": VolcanoRules}[kind](resource["spec"])
        if kind == "Job":
            role = resource["metadata"]["labels"]["app.kubernetes.io/component"]
            jobs[role] = JobRules(role, resource["spec"])
    return PlainJobs(jobs)
