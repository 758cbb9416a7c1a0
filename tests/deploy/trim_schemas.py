#!/usr/bin/env python3
"""Makes schemas/ from the custom resource definitions of the job systems that deploy/kubernetes targets.

    trim_schemas.py DIRECTORY    reads jobset.x-k8s.io_jobsets.yaml, kubeflow.org_tfjobs.yaml and
                                 batch.volcano.sh_jobs.yaml

The definitions (1.6 MB, Apache-2.0) come from
    https://github.com/kubernetes-sigs/jobset         config/components/crd/bases            (v0.13)
    https://github.com/kubeflow/training-operator     manifests/base/crds                    (branch release-1.9)
    https://github.com/volcano-sh/volcano             config/crd/volcano/bases               (v1.16-alpha)
What remains are JSON schemas of the shape: names, types, enumerations and patterns; unknown names are refused. Pod
templates are left out, because kubernetes_test.py validates them by the schemas of Kubernetes itself.
"""
import json
import os
import sys

import yaml

DEFINITIONS = {"JobSet": "jobset.x-k8s.io_jobsets.yaml", "TFJob": "kubeflow.org_tfjobs.yaml",
               "VolcanoJob": "batch.volcano.sh_jobs.yaml"}
KEPT = ("type", "enum", "pattern", "required", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
LEFT_OUT = ("volumeClaimPolicies", "volumeClaim")  # no manifest has them


def is_pod_template(schema):
    return "containers" in schema.get("properties", {}).get("spec", {}).get("properties", {})


def trimmed(schema):
    """The JSON schema of an OpenAPI schema: only what constrains the shape, and closed objects."""
    if is_pod_template(schema):
        return {"type": "object"}
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    made = {key: schema[key] for key in KEPT if key in schema}
    if "properties" in schema:
        made["properties"] = {name: trimmed(of) for name, of in sorted(schema["properties"].items())
                              if name not in LEFT_OUT}
        made["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields", False))
    elif isinstance(schema.get("additionalProperties"), dict):
        made["additionalProperties"] = trimmed(schema["additionalProperties"])
    if "items" in schema:
        made["items"] = trimmed(schema["items"])
    return made


def main():
    target = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schemas")
    os.makedirs(target, exist_ok=True)
    for name, file in DEFINITIONS.items():
        with open(os.path.join(sys.argv[1], file), encoding="utf-8") as f:
            definition = yaml.safe_load(f)
        version = definition["spec"]["versions"][0]
        schema = trimmed(version["schema"]["openAPIV3Schema"])
        schema["properties"].pop("status", None)
        schema["properties"]["apiVersion"]["enum"] = ["%s/%s" % (definition["spec"]["group"], version["name"])]
        schema["properties"]["kind"]["enum"] = [definition["spec"]["names"]["kind"]]
        schema["properties"]["metadata"] = {"type": "object"}
        with open(os.path.join(target, name + ".json"), "w", encoding="utf-8") as f:
            json.dump(schema, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
