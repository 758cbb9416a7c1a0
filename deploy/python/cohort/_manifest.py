"""Manifests of Kubernetes for a job."""

from __future__ import annotations

import json
import os
from typing import Any

import yaml

_HERE = os.path.dirname(os.path.abspath(__file__))


def _base(*path: str) -> list[dict[str, Any]]:
    """The objects of a file of deploy/kubernetes, which the package has too."""
    for folder in (os.path.join(_HERE, "kubernetes"), os.path.join(_HERE, "..", "..", "kubernetes")):
        file = os.path.join(folder, *path)
        if os.path.exists(file):
            with open(file, encoding="utf-8") as stream:
                return [entry for entry in yaml.safe_load_all(stream) if entry]
    raise FileNotFoundError(f"the package lacks kubernetes/{'/'.join(path)}: install it again")


def jobset(job: str, image: str, claim: str, workers: int, ps: int) -> str:
    """A JobSet and what it needs: the objects of deploy/kubernetes/jobset for a job file on a claim that the pods mount at /data."""
    cluster = {role: [f"cohort-{role}-0-{i}.cohort:2222" for i in range(count)] for role, count in (("ps", ps), ("worker", workers)) if count}
    objects = [entry for file in ("checkpoints.yaml", "disruptions.yaml", "network.yaml") for entry in _base("common", file)]
    for entry in objects:  # no server may go, and one worker at a time
        for role, least in (("ps", ps), ("worker", workers - 1)):
            if entry["kind"] == "PodDisruptionBudget" and entry["metadata"]["name"] == f"cohort-{role}":
                entry["spec"]["minAvailable"] = max(least, 0)
    objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cohort-cluster"}, "data": {"cluster": json.dumps(cluster)}})
    (jobs,) = _base("jobset", "base", "jobset.yaml")
    for replicated in jobs["spec"]["replicatedJobs"]:
        role = replicated["name"]
        spec = replicated["template"]["spec"]
        if role in cluster:
            spec["completions"] = spec["parallelism"] = len(cluster[role])
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        container["image"] = image
        if role == "chief":
            container["args"][0] = job
            container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] != "job"]
        for volume in list(pod["volumes"]):
            if volume["name"] == "data":
                volume.pop("emptyDir", None)
                volume["persistentVolumeClaim"] = {"claimName": claim, "readOnly": True}
            elif volume["name"] == "job":
                pod["volumes"].remove(volume)
    objects.append(jobs)
    return yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True)
