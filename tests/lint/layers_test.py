#!/usr/bin/env python3
"""Proves the layer rules of ARCHITECTURE.md (Folders) from the #include lines.

Without an argument: checks this source tree. With --self-test: plants one violation of every rule in a
small tree and fails if it is not found.
"""
import collections
import fnmatch
import os
import sys
import tempfile

import source_tree

# A room includes only rooms of lower layers.
LAYERS = [
    ["proto"],
    ["common/testing"],
    ["common/base"],
    ["common/os"],
    ["common/tls"],
    ["common/cluster", "common/tensor", "common/report", "common/schema", "common/row_figures"],
    ["common/metrics", "common/device"],
    ["common/rpc/stream", "common/graph", "common/checkpoint", "common/data"],
    ["common/rpc/push_pull", "common/rpc/admin", "common/run_report"],
    ["common/rpc/task", "common/collective", "common/kernels", "common/optimizers", "common/placement"],
    ["common/exchange", "common/tablet", "common/model", "common/weights"],
    ["common/exec", "common/plugin"],
    ["chief/core"],
    ["chief/api"],
    ["chief/job"],
    ["ps_server", "worker", "chief", "evaluator"],
    ["deploy/predict", "deploy/profile", "deploy/replica", "deploy/tf_config"],
    ["deploy/in_process"],
    ["deploy/strategy"],
    ["deploy/launcher", "include"],
    ["deploy/examples"],
    ["tests"],
]
LAYER = {room: i for i, rooms in enumerate(LAYERS) for room in rooms}
DAEMONS = ["ps_server", "worker", "chief", "evaluator"]
# The files that may include gRPC's headers.
GRPC_FILES = ["common/rpc/*", "tests/*"]
CUDA_ROOMS = {"common/device", "common/kernels", "common/exec"}
# A header that includes generated protobuf code slows the compilation of every file that includes it.
MOST_INCLUDERS_OF_A_PROTO_HEADER = 16


def resolve(path, include, known):
    """The file of the tree that an #include means, or None if it is foreign."""
    if include in known or include.split("/")[0] in ("proto", "common"):
        return include
    if include.startswith("cohort/"):
        return "include/" + include
    beside = os.path.normpath(os.path.join(os.path.dirname(path), include))
    return beside if beside in known else None


def room_errors(path, target):
    here, there = source_tree.room(path), source_tree.room(target)
    if here == there:
        return []
    for room in (here, there):
        if room not in LAYER:
            return ["%s: the room %s is not in the layers of tests/lint/layers_test.py" % (path, room)]
    daemons = {here.split("/")[0], there.split("/")[0]}
    if len(daemons) == 2 and daemons <= set(DAEMONS):
        return ["%s: a daemon includes another daemon: %s" % (path, target)]
    if LAYER[there] < LAYER[here]:
        return []
    return ["%s: %s includes %s, which is not below it: %s" % (path, here, there, target)]


def foreign_errors(path, include):
    errors = []
    if include.startswith(("grpc/", "grpcpp/")) or include.endswith(".grpc.pb.h"):
        if not any(fnmatch.fnmatch(path, pattern) for pattern in GRPC_FILES):
            errors.append("%s: gRPC is not known here: %s" % (path, include))
    if "cuda" in include.lower() and source_tree.room(path) not in CUDA_ROOMS:
        errors.append("%s: CUDA is not known here: %s" % (path, include))
    return errors


def cycle(edges):
    """A cycle among rooms as a list, or None."""
    done, path = set(), []

    def visit(room):
        if room in path:
            return path[path.index(room):] + [room]
        if room in done:
            return None
        path.append(room)
        for other in sorted(edges[room]):
            found = visit(other)
            if found:
                return found
        path.pop()
        done.add(room)
        return None

    for room in sorted(list(edges)):
        found = visit(room)
        if found:
            return found
    return None


def stale_errors(root):
    """What the lists above name, but the tree does not have."""
    paths = source_tree.files(root, (".h", ".cc", ".proto"))
    rooms = {source_tree.room(p) for p in paths}
    listed = [*LAYER, *DAEMONS, *sorted(CUDA_ROOMS)]
    stale = [room for room in listed if room not in rooms]
    stale += [pattern for pattern in GRPC_FILES if not fnmatch.filter(paths, pattern)]
    return ["tests/lint/layers_test.py: no file is in %s" % name for name in stale]


def check(root):
    """All violations in the tree, one line each."""
    includes = source_tree.includes(root)
    errors, edges, includers = [], collections.defaultdict(set), collections.Counter()
    for path, names in includes.items():
        for include in names:
            target = resolve(path, include, includes)
            if target is None:
                errors += foreign_errors(path, include)
                continue
            includers[target] += 1
            errors += room_errors(path, target)
            if source_tree.room(path) != source_tree.room(target):
                edges[source_tree.room(path)].add(source_tree.room(target))
            if target.endswith(".grpc.pb.h"):
                errors += foreign_errors(path, target)
    for path, names in includes.items():
        if path.endswith(".h") and any(n.endswith(".pb.h") for n in names):
            if includers[path] > MOST_INCLUDERS_OF_A_PROTO_HEADER:
                errors.append("%s: includes protobuf headers and is included by %d files; "
                              "forward-declare the messages" % (path, includers[path]))
    found = cycle(edges)
    if found:
        errors.append("folders include each other: " + " -> ".join(found))
    return errors


def self_test():
    plants = {
        "not below": {"common/base/a.h": '#include "common/rpc/stream/b.h"', "common/rpc/stream/b.h": ""},
        "another daemon": {"worker/a.cc": '#include "chief/core/b.h"', "chief/core/b.h": ""},
        "each other": {"common/graph/a.h": '#include "common/model/b.h"',
                       "common/model/b.h": '#include "common/graph/a.h"'},
        "gRPC": {"worker/step_loop.cc": "#include <grpcpp/grpcpp.h>"},
        "gRPC is": {"common/model/x.cc": '#include "proto/worker.grpc.pb.h"'},
        "CUDA": {"worker/step_loop.cc": "#include <cuda_runtime.h>"},
        "forward-declare": {"common/base/a.h": '#include "proto/job.pb.h"',
                            **{"worker/%d.cc" % i: '#include "common/base/a.h"' for i in range(MOST_INCLUDERS_OF_A_PROTO_HEADER + 1)}},
        "not in the layers": {"common/misc/a.cc": '#include "common/base/b.h"', "common/base/b.h": ""},
    }
    for expected, tree in plants.items():
        with tempfile.TemporaryDirectory() as root:
            for path, text in tree.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w") as f:
                    f.write(text + "\n")
            errors = check(root)
            if not any(expected in e for e in errors):
                return ["planted \"%s\", found %s" % (expected, errors)]
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(root + "/worker")
        open(root + "/worker/a.cc", "w").close()
        stale = stale_errors(root)
    if any("worker" in e for e in stale) or not all(
            any(e.endswith(name) for e in stale) for name in ("chief/core", "common/kernels", "common/rpc/*")):
        return ["a tree with the room worker alone: found %s" % stale]
    return []


def main():
    root = source_tree.ROOT
    errors = self_test() if "--self-test" in sys.argv else check(root) + stale_errors(root)
    for error in errors:
        print(error)
    print("layers: %d violations" % len(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
