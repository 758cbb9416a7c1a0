"""What deploy/kubernetes expands to, and whether an API server would accept it.

kustomize is Debian 12's (debian_kubectl.sh). Kubernetes' own kinds are validated by the package kubernetes-validate,
the resources of the job systems by schemas/, their pod templates as pods.
"""
import functools
import json
import os
import subprocess

import jsonschema
import kubernetes_validate
import yaml

from real_cluster import SOURCE

KUBERNETES = os.path.join(SOURCE, "deploy", "kubernetes")
HERE = os.path.join(SOURCE, "tests", "deploy")
CUSTOM = {("jobset.x-k8s.io/v1alpha2", "JobSet"): "JobSet", ("kubeflow.org/v1", "TFJob"): "TFJob",
          ("batch.volcano.sh/v1alpha1", "Job"): "VolcanoJob"}
ROLES = {"Chief": "chief", "Master": "chief", "PS": "ps", "Worker": "worker", "Evaluator": "evaluator"}
# The oldest version with all features (podFailurePolicy is stable since 1.31) and a current one.
VERSIONS = ("1.31", "1.35")


def variants():
    """The folders that a user expands, relative to deploy/kubernetes."""
    found = []
    for folder, _, names in os.walk(KUBERNETES):
        if "kustomization.yaml" in names:
            found.append(os.path.relpath(folder, KUBERNETES))
    return sorted(set(found) - {"common"})


@functools.lru_cache(maxsize=None)
def expand(variant, root=KUBERNETES):
    """The resources of a variant, as `kubectl kustomize` prints them. Callers do not change them."""
    kubectl = subprocess.run([os.path.join(HERE, "debian_kubectl.sh")], check=True, capture_output=True, text=True)
    done = subprocess.run([kubectl.stdout.strip(), "kustomize", os.path.join(root, variant)], check=False,
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError("%s: %s" % (variant, done.stderr))
    return [resource for resource in yaml.safe_load_all(done.stdout) if resource]


def kind_of(resource):
    """The kind; Volcano's Job is VolcanoJob."""
    return CUSTOM.get((resource["apiVersion"], resource["kind"]), resource["kind"])


def only(resources, kind):
    """The resources of a kind by name."""
    return {r["metadata"]["name"]: r for r in resources if r["kind"] == kind}


def templates(resource):
    """{role: (number of pods, pod template)} of a resource that makes pods."""
    kind, spec = kind_of(resource), resource.get("spec")
    if kind == "JobSet":
        return {j["name"]: (j["template"]["spec"]["completions"], j["template"]["spec"]["template"])
                for j in spec["replicatedJobs"]}
    if kind == "TFJob":
        return {ROLES[name]: (s["replicas"], s["template"]) for name, s in spec["tfReplicaSpecs"].items()}
    if kind == "VolcanoJob":
        return {t["name"]: (t["replicas"], t["template"]) for t in spec["tasks"]}
    if kind == "Job":
        role = resource["metadata"]["labels"]["app.kubernetes.io/component"]
        return {role: (spec["completions"], spec["template"])}
    return {}


def all_templates(resources):
    """{role: (number of pods, pod template)} of a whole expansion."""
    return {role: made for resource in resources for role, made in templates(resource).items()}


def validate(resource):
    """Raises an error that names the field if an API server would refuse the resource."""
    custom = CUSTOM.get((resource["apiVersion"], resource["kind"]))
    if custom is None:
        for version in VERSIONS:
            kubernetes_validate.validate(resource, version, strict=True)
        return
    with open(os.path.join(HERE, "schemas", custom + ".json"), encoding="utf-8") as f:
        jsonschema.validate(resource, json.load(f))
    for role, (_, template) in templates(resource).items():
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": role, **template["metadata"]},
               "spec": template["spec"]}
        # TFJob sets the restart policy of its pods.
        validate(pod)
    if custom == "JobSet":
        for job in resource["spec"]["replicatedJobs"]:
            validate({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]},
                      "spec": job["template"]["spec"]})
