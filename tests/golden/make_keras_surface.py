#!/usr/bin/env python3
"""Writes keras_surface.json: the public classes of Keras with their arguments, and the names of tf.distribute.

    make_keras_surface.py [--out FILE]

It needs Keras 3 and TensorFlow. tests/lint/from_tensorflow_test.py compares docs/from_tensorflow.md with the file.
"""
import argparse
import inspect
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf

GROUPS = {
    "Layers": keras.layers,
    "Losses": keras.losses,
    "Metrics": keras.metrics,
    "Optimizers": keras.optimizers,
    "Schedules": keras.optimizers.schedules,
    "Callbacks": keras.callbacks,
    "Constraints": keras.constraints,
    "Regularizers": keras.regularizers,
    "Initializers": keras.initializers,
}
NO_ARGUMENTS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def arguments(cls):
    """The arguments of a class, also those that it passes to its base classes."""
    names = []
    for base in cls.__mro__:
        if "__init__" not in vars(base) or not base.__module__.startswith("keras"):
            continue
        parameters = list(inspect.signature(base.__init__).parameters.values())[1:]
        if base is not cls:  # a required one is given by the class
            parameters = [p for p in parameters if p.default is not p.empty or p.kind in NO_ARGUMENTS]
        names += [p.name for p in parameters if p.kind not in NO_ARGUMENTS and p.name not in names]
        if not any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters):
            break
    return sorted(names)


def classes(module):
    names = {}
    for name in dir(module):
        value = getattr(module, name)
        if inspect.isclass(value) and not name.startswith("_"):
            names.setdefault(value, []).append(name)
    return {cls.__name__ if cls.__name__ in exported else exported[0]: arguments(cls)
            for cls, exported in names.items()}


def public(value):
    return [name for name in dir(value) if not name.startswith("_")]


def function_arguments(function):
    return [name for name in inspect.signature(function).parameters if name not in ("self", "kwargs")]


def lines(surface):
    """One line for each class, so that a difference between two versions can be read."""
    for key, value in sorted(surface.items()):
        if key != "classes":
            yield "%s: %s" % (json.dumps(key), json.dumps(value))
            continue
        groups = []
        for group, found in value.items():
            rows = ["  %s: %s" % (json.dumps(name), json.dumps(found[name])) for name in sorted(found)]
            groups.append(" %s: {\n%s\n }" % (json.dumps(group), ",\n".join(rows)))
        yield '"classes": {\n%s\n}' % ",\n".join(groups)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "keras_surface.json"))
    args = parser.parse_args()
    distribute = tf.distribute
    surface = {
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
        "classes": {group: classes(module) for group, module in GROUPS.items()},
        "functions": {
            "Model.compile": function_arguments(keras.Model.compile),
            "Model.fit": function_arguments(keras.Model.fit),
            "Model.evaluate": function_arguments(keras.Model.evaluate),
            "Model.predict": function_arguments(keras.Model.predict),
        },
        # What compile takes as a string. The base classes do nothing.
        "strings": {
            "Losses": sorted(set(keras.src.losses.ALL_OBJECTS_DICT) - {"Loss", "LossFunctionWrapper"}),
            "Metrics": sorted(set(keras.src.metrics.ALL_OBJECTS_DICT)
                              - {"Metric", "metric", "MeanMetricWrapper", "mean_metric_wrapper"}),
        },
        "tf.distribute": sorted(
            [name for name in public(distribute) if name not in ("experimental", "cluster_resolver", "coordinator")]
            + ["Strategy." + name for name in public(distribute.Strategy)]
            + ["ReplicaContext." + name for name in public(distribute.ReplicaContext)]
            + ["InputContext." + name for name in public(distribute.InputContext)]
            + ["experimental." + name for name in public(distribute.experimental)
               if name not in ("coordinator", "partitioners")]
            + ["experimental.partitioners." + name for name in public(distribute.experimental.partitioners)]
            + ["coordinator." + name for name in public(distribute.coordinator)]
            + ["coordinator.ClusterCoordinator." + name for name in public(distribute.coordinator.ClusterCoordinator)]
            + ["coordinator.RemoteValue." + name for name in public(distribute.coordinator.RemoteValue)]
            + ["cluster_resolver." + name for name in public(distribute.cluster_resolver)]),
    }
    with open(args.out, "w", encoding="utf-8") as file:
        file.write("{\n%s\n}\n" % ",\n".join(lines(surface)))


if __name__ == "__main__":
    main()
