#!/usr/bin/env python3
"""Writes models in the JSON of Keras with what they learn: the cases of keras_json_test.

    build/venv-keras/bin/python tests/golden/make_keras_json_golden.py --count 250 --out FILE
    build/venv-tensorflow/bin/python tests/golden/make_keras_json_golden.py --count 250 --out FILE

The first interpreter has Keras 3, the second one tf_keras. Each case has a model as `model.to_json()` writes it,
and four training steps in float64 from weights and batches of golden_data.py: the logs, and the weights at the
end. The JSON of tf_keras does not have the arguments of compile(), so they are a section of the case.
keras_json_models.json has the first cases of both (--count 6; --append joins them).
"""
import argparse
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import tf_keras as keras  # beside it is a Keras 3, too
except ImportError:
    import keras
import numpy as np  # noqa: E402

import golden_data  # noqa: E402
import random_keras_models  # noqa: E402

STEPS = 4
IS_KERAS_3 = keras.__version__.startswith("3")


def batch_size(step):
    return 5 if step % 4 == 3 else 8


def name_in(layer, variable):
    """The name of a variable after that of its layer, which may have layers in it: "query/kernel"."""
    path = getattr(variable, "path", "") if IS_KERAS_3 else variable.name.split(":")[0]
    if (layer.name + "/") in path:
        name = path.split(layer.name + "/", 1)[1]
        is_conv = not IS_KERAS_3 and type(layer).__name__.startswith("ConvLSTM")  # no cell in the names of Keras 2
        return "conv_lstm_cell/" + name if is_conv else name
    return variable.name.split("/")[-1].split(":")[0]


def variables(model, path=""):
    """(name in Cohort, variable) of a model: names of nested models come before those of their layers."""
    found = []
    for layer in model.layers:
        if hasattr(layer, "layers"):
            found += variables(layer, path + layer.name + "/")
        else:
            found += [(path + layer.name + "/" + name_in(layer, v), v) for v in layer.weights]
    return found


def column(description, seed, step, size):
    kind, dims = description["kind"], description["dims"]
    s = golden_data.input_seed(seed, step, description["position"])
    if kind == "ids":
        return golden_data.integers(s, (size, *dims), description["bound"])
    if kind == "bits":
        return golden_data.integers(s, (size, *dims), 2).astype(np.float64)
    if kind == "one_hot":
        return np.eye(dims[-1])[golden_data.integers(s, (size,), dims[-1])]
    return golden_data.tensor(s, (size, *dims))


def input_name(tensor):
    return tensor._keras_history[0].name  # pylint: disable=protected-access


def case_of(seed):
    keras.backend.clear_session()
    drawer = random_keras_models.Drawer(keras, seed)
    model, ends = drawer.draw()
    arguments = drawer.compile_arguments(ends, getattr(model, "output_names", []))
    name, config = drawer.optimizer()
    columns = [{"column": input_name(i["tensor"]), "kind": "ids" if i["bound"] else "real", "dims": i["dims"],
                "bound": i["bound"], "position": n} for n, i in enumerate(drawer.inputs)]
    labels = [dict(label, position=9 - n) for n, label in enumerate(drawer.labels)]
    case = trained_case("keras_%s_%d" % (keras.__version__, seed), seed, model, columns, labels, arguments,
                        getattr(keras.optimizers, name)(**config), STEPS)
    if not IS_KERAS_3:
        case["compile"] = {**{k: v for k, v in arguments.items() if v},
                           "optimizer": {"class_name": name, "config": config}}
    return case


def trained_case(name, seed, model, columns, labels, arguments, optimizer, steps):
    """Trains a model, and returns its case: the JSON, the logs, and the weights at the end."""
    if IS_KERAS_3:
        import keras_models  # it needs Keras 3
        optimizer = keras_models.sum_equal_rows(optimizer)
    model.compile(optimizer=optimizer, run_eagerly=True, **arguments)
    case = {"name": name, "seed": seed, "keras_json": json.loads(model.to_json()), "inputs": columns,
            "labels": labels}
    named = variables(model)
    for i, (_, v) in enumerate(named):
        scale = 0.5 if len(v.shape) > 1 else 0.1
        v.assign(golden_data.tensor(golden_data.weight_seed(seed, i), tuple(v.shape), -scale, scale))
    logs = []
    for step in range(steps):
        size = batch_size(step)
        x = [column(c, seed, step, size) for c in columns]
        y = [column(c, seed, step, size) for c in labels]
        model.reset_metrics()
        logs.append(model.train_on_batch(x if len(x) > 1 else x[0], y if len(y) > 1 else y[0], return_dict=True))
    case["logs"] = [{k: float(v) for k, v in log.items()} for log in logs]
    case["variables"] = [{"name": name, "values": [float("%.12g" % x) for x in np.asarray(v).reshape(-1)]}
                         for name, v in named]
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--out", required=True)
    parser.add_argument("--append", action="store_true")
    args = parser.parse_args()
    (keras.config if IS_KERAS_3 else keras.backend).set_floatx("float64")
    cases = []
    if args.append:
        with open(args.out, encoding="utf-8") as f:
            cases = json.load(f)["cases"]
    cases += [case_of(seed) for seed in range(args.first, args.first + args.count)]
    with open(args.out, "w", encoding="utf-8") as f:
        f.write('{"cases": [\n')
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
        f.write("\n]}\n")


if __name__ == "__main__":
    main()
