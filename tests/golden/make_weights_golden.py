#!/usr/bin/env python3
"""Writes files of weights with Keras and tf_keras, and the models that have them: the cases of weights_golden_test.

    build/venv-keras/bin/python tests/golden/make_weights_golden.py            (Keras 3.15, with h5py)
    build/venv-tensorflow/bin/python tests/golden/make_weights_golden.py       (tf_keras)
    KERAS_BACKEND=numpy python tests/golden/make_weights_golden.py             (Keras 3.3.3 and 3.6.0, each in its own
                                                                                environment with numpy and packaging)

Each run replaces the cases of its version. Each case has a model as `model.to_json()` writes it, the name of the file with its weights, and the variables by their
names in Cohort. Variable i has the values of golden_data.weight_seed(SEED, i).

With h5py alone it also writes the files of ODD_FILES (argument `odd` writes only these).
"""
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import h5py  # noqa: E402
import numpy as np  # noqa: E402
try:
    import tf_keras as keras  # beside it is a Keras 3, too
except ImportError:
    import keras
import golden_data  # noqa: E402

layers = keras.layers
IS_KERAS_3 = keras.__version__.startswith("3")
SEED = 7
CASES = os.path.join(HERE, "weights", "cases.json")


def nested():
    """Models in a model, a layer that is called twice, names that say nothing about the class."""
    bottom = keras.Sequential([keras.Input((4,)), layers.Dense(5, name="d_in"), layers.BatchNormalization(name="norm")],
                              name="bottom")
    start = keras.Input((4,), name="numbers")
    twice = layers.Dense(5, name="zed")
    middle = twice(twice(bottom(start)))
    ends = [layers.Dense(2, name="first")(middle), layers.Dense(3, use_bias=False, name="alpha")(middle)]
    return keras.Model(start, ends, name="whole")


def images():
    """Layers with more than a kernel and a bias, with default names."""
    return keras.Sequential([
        keras.Input((8, 8, 3)), layers.Normalization(), layers.SeparableConv2D(4, 3), layers.BatchNormalization(), layers.Conv2D(2, 1),
        layers.Conv2D(2, 1), layers.DepthwiseConv2D(3), layers.Conv2DTranspose(3, 2), layers.Dropout(0.1),
        layers.BatchNormalization(scale=False), layers.Flatten(), layers.Dense(2)])


def order():
    """More than ten layers of a class, in an order that is neither that of their names nor that in which they were made."""
    dense = [layers.Dense(3, use_bias=i % 4 == 0, name=name) for i, name in enumerate("m b z a y c x d w e v f".split())]
    bottom_start = keras.Input((3,))
    bottom = keras.Model(bottom_start, layers.Dense(3, name="a")(layers.Dense(3, name="b")(bottom_start)), name="bottom")
    top = keras.Sequential([keras.Input((3,)), layers.Dropout(0.1), layers.Dense(3, name="z"), layers.Dense(3, name="a")], name="top")
    start = keras.Input((3,), name="numbers")
    end = bottom(dense[5](start))
    for layer in dense[:5] + dense[6:]:
        end = layers.BatchNormalization(name=layer.name + "_norm")(layer(end)) if layer.name in "zaf" else layer(end)
    return keras.Model(start, top(layers.LayerNormalization(center=False, scale=False)(end)), name="whole")


def deep():
    """Names with slashes, also in a model within a model."""
    inner_start = keras.Input((3,))
    inner = keras.Model(inner_start, layers.Dense(3, name="c2/dense")(layers.Dense(3, name="c1/dense")(inner_start)), name="inner")
    outer_start = keras.Input((3,))
    outer = keras.Model(outer_start, inner(layers.Dense(3, name="c0/dense")(outer_start)), name="outer/model")
    start = keras.Input((3,), name="numbers")
    end = layers.BatchNormalization(name="conv1/bn")(layers.Dense(3, name="conv1/conv")(start))
    return keras.Model(start, layers.Dense(3, name="conv2/conv")(outer(end)), name="whole")


def variables(model, path=""):
    """(name in Cohort, variable), as make_keras_json_golden.py has them."""
    found = []
    for layer in model.layers:
        if hasattr(layer, "layers"):
            found += variables(layer, path + layer.name + "/")
        else:
            found += [(path + layer.name + "/" + v.name.split("/")[-1].split(":")[0], v) for v in layer.weights]
    return [(name, v) for name, v in found if "float" in str(v.dtype)]


def case_of(model, file, save):
    named = variables(model)
    for i, (_, v) in enumerate(named):
        v.assign(golden_data.tensor(golden_data.weight_seed(SEED, i), tuple(v.shape)))
    save(os.path.join(HERE, "weights", file))
    return {"file": file, "keras": keras.__version__, "keras_json": json.loads(model.to_json()), "seed": SEED,
            "variables": [{"name": name, "dims": list(v.shape)} for name, v in named]}


def old_layer(file, weights, attribute="weight_names"):
    file.attrs["layer_names"] = [b"dense"]
    group = file.create_group("dense")
    group.attrs[attribute] = [w.encode() for w in weights]
    return group


def link(file):
    old_layer(file, ["kernel:0"])["kernel:0"] = h5py.ExternalLink("split.h5", "/dense/kernel:0")


def link_of_group(file):
    old_layer(file, ["out/kernel:0"])["out"] = h5py.ExternalLink("split.h5", "/dense")


def external(file):
    old_layer(file, ["kernel:0"]).create_dataset("kernel:0", (2,), "f4", external=[("split.h5", 0, 8)])


def virtual(file):
    layout = h5py.VirtualLayout((2,), "f4")
    layout[:] = h5py.VirtualSource("split.h5", "/dense/kernel:0", (2,))
    old_layer(file, ["kernel:0"]).create_virtual_dataset("kernel:0", layout)


def split(file):
    """Keras splits attributes of more than 64 kB so."""
    group = old_layer(file, ["kernel:0"], "weight_names0")
    group.attrs["weight_names1"] = [b"bias:0"]
    group["kernel:0"] = np.array([1, 2], "f4")
    group["bias:0"] = np.array([3], "f4")


# All but `split` read another file.
ODD_FILES = [link, link_of_group, external, virtual, split]


def write_odd_files():
    for make in ODD_FILES:
        with h5py.File(os.path.join(HERE, "weights", make.__name__ + ".h5"), "w", libver=("earliest", "v110")) as file:
            make(file)


def main():
    os.makedirs(os.path.join(HERE, "weights"), exist_ok=True)
    write_odd_files()
    if sys.argv[1:] == ["odd"]:
        return
    version = keras.__version__
    short = "tf_keras" if not IS_KERAS_3 else "keras_" + "_".join(version.split(".")[:2])
    if IS_KERAS_3 and int(version.split(".")[1]) >= 15:
        made = [(nested(), "nested.weights.h5", "save_weights"), (images(), "images.weights.h5", "save_weights"),
                (nested(), "whole_model.h5", "save")]
    else:
        made = [(order(), f"order_{short}.weights.h5", "save_weights")]
    if not IS_KERAS_3:
        made += [(nested(), "tf_keras.h5", "save_weights"), (deep(), f"deep_{short}.h5", "save_weights")]
    cases = [case_of(model, file, getattr(model, save)) for model, file, save in made]
    with open(CASES, encoding="utf-8") as f:
        cases += [c for c in json.load(f)["cases"] if c["keras"] != version]
    cases.sort(key=lambda c: c["file"])
    with open(CASES, "w", encoding="utf-8") as f:
        f.write('{"cases": [\n')
        f.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in cases))
        f.write("\n]}\n")


if __name__ == "__main__":
    main()
