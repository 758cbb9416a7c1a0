#!/usr/bin/env python3
"""Writes sync.json: the weights of a small model after 100 steps of the real Keras on one device.

    build/venv-keras/bin/python tests/golden/make_sync_golden.py     (`tests/run.sh --all` makes that venv)

tests/cluster/sync_golden_test.cc trains the same model with a cluster: each step of Keras is a batch of
BATCH records, which the cluster divides among the closures of a synchronous step. Records are in their
order, 10 steps an epoch; the last one is short. Records come from golden_data.py, and the first weights
are those of Cohort's RandomUniform for the seed of the job, so that the file has results only. float64.

The cases of FIT are trained by `fit`, with averages of the weights: they also have the loss of the validation
after each epoch, over the same records.

The gradient of the embedding is dense: Keras on TensorFlow squares repeated rows of a sparse one one by
one (keras_models.sum_equal_rows), in norms too.
"""
import json
import os
import sys

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import golden_data  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDS, BATCH, EPOCHS = 118, 12, 10
SEED = 7
LIMIT = 0.5  # bounds the first weights

CASES = {
    "sgd": ("SGD", dict(learning_rate=0.05)),
    "adam": ("Adam", dict(learning_rate=0.01)),
    "rmsprop": ("RMSprop", dict(learning_rate=0.01)),
    "adagrad": ("Adagrad", dict(learning_rate=0.1)),
    "sgd_clipvalue": ("SGD", dict(learning_rate=0.05, clipvalue=0.125)),
    "sgd_clipnorm": ("SGD", dict(learning_rate=0.05, clipnorm=0.25)),
    "sgd_global_clipnorm": ("SGD", dict(learning_rate=0.05, global_clipnorm=0.5)),
    "adam_global_clipnorm": ("Adam", dict(learning_rate=0.01, global_clipnorm=0.5)),
}


AVERAGED = ("SGD", dict(learning_rate=0.05, momentum=0.9, use_ema=True, ema_momentum=0.9))
STOPPING = {"EarlyStopping": dict(mode="max", patience=2, restore_best_weights=True)}  # after the third epoch
# name: the optimizer, and callbacks as a job has them
FIT = {
    "ends_with_averages": (*AVERAGED, []),
    "swaps_averages": (*AVERAGED, [{"SwapEMAWeights": {}}]),
    "restores_values": (*AVERAGED, [{"SwapEMAWeights": {}}, STOPPING]),
    "restores_averages": (*AVERAGED, [{"SwapEMAWeights": dict(swap_on_epoch=True)}, STOPPING]),
}


def records():
    ids = golden_data.integers(1, (RECORDS, 3), 6)
    x = golden_data.integers(2, (RECORDS, 4), 256) / 64.0 - 2.0  # exact in every format
    y = golden_data.integers(3, (RECORDS, 1), 256) / 64.0 - 2.0
    return ids, x, y


def philox(low, high, key):
    """common/tensor/philox.h: four words of 32 bits."""
    mask = 0xFFFFFFFF
    counter = [low & mask, low >> 32, high & mask, high >> 32]
    k = [key & mask, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ k[0], b & mask, (a >> 32) ^ counter[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return counter


def first_value(variable, shape):
    """common/placement/initializers.cc: RandomUniform in [-LIMIT, LIMIT)."""
    name_hash = 0xCBF29CE484222325
    for byte in variable.encode():
        name_hash = (name_hash ^ byte) * 0x100000001B3 % 2**64
    mixed = philox(SEED, name_hash, 0)
    key = mixed[0] | mixed[1] << 32
    values = []
    for i in range(int(np.prod(shape))):
        words = philox(i // 2, 0, key)[2 * (i % 2):]
        uniform = float((words[0] | words[1] << 32) >> 11) * 2.0**-53
        values.append(-LIMIT + (LIMIT - -LIMIT) * uniform)
    return np.array(values).reshape(shape)


def build():
    ids = keras.Input((3,), dtype="int64", name="ids")
    x = keras.Input((4,), name="x")
    embedded = keras.layers.Embedding(6, 3, name="embedding")(ids)
    pooled = keras.layers.GlobalAveragePooling1D()(embedded)
    hidden = keras.layers.Dense(5, activation="tanh", name="dense")(
        keras.layers.Concatenate()([pooled, x]))
    model = keras.Model([ids, x], keras.layers.Dense(1, name="answer")(hidden))
    for variable in model.trainable_variables:
        variable.assign(first_value(variable.path, variable.shape))
    return model


def train(class_name, arguments):
    keras.backend.clear_session()
    keras.config.set_floatx("float64")
    model = build()
    optimizer = getattr(keras.optimizers, class_name)(**arguments)
    optimizer.build(model.trainable_variables)
    ids, x, y = records()
    mse = keras.losses.MeanSquaredError()
    losses = []
    for _ in range(EPOCHS):
        for begin in range(0, RECORDS, BATCH):
            batch = slice(begin, begin + BATCH)
            with tf.GradientTape() as tape:
                loss = mse(y[batch], model([ids[batch], x[batch]]))
            weights = [v.value for v in model.trainable_variables]
            grads = [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]
            optimizer.apply(grads, model.trainable_variables)
            losses.append(float(loss))
    assert losses[-1] < losses[0]
    return values_of(model)


def values_of(model):
    return {v.path: [float(w) for w in v.numpy().reshape(-1)] for v in model.trainable_variables}


def fit(class_name, arguments, callbacks):
    keras.backend.clear_session()
    keras.config.set_floatx("float64")
    model = build()
    model.compile(optimizer=getattr(keras.optimizers, class_name)(**arguments), loss="mse")
    ids, x, y = records()
    made = [getattr(keras.callbacks, name)(**config) for c in callbacks for name, config in c.items()]
    history = model.fit([ids, x], y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0,
                        validation_data=([ids, x], y), callbacks=made)
    return values_of(model), history.history["val_loss"]


def main():
    cases = []
    plain = {}
    for name, (class_name, arguments) in CASES.items():
        variables = train(class_name, arguments)
        if class_name.lower() == name:
            plain[class_name] = variables
        else:  # clipping has an effect
            kernel = "dense/kernel"
            assert np.abs(np.subtract(variables[kernel], plain[class_name][kernel])).max() > 1e-3, name
        cases.append({"name": name, "class_name": class_name, "config": arguments,
                      "variables": variables})
    losses = {}
    for name, (class_name, arguments, callbacks) in FIT.items():
        variables, losses[name] = fit(class_name, arguments, callbacks)
        cases.append({"name": name, "class_name": class_name, "config": arguments, "callbacks": callbacks,
                      "val_loss": losses[name], "variables": variables})
    assert len(losses["restores_values"]) == 3
    differ = np.abs(np.subtract(losses["ends_with_averages"], losses["swaps_averages"]))
    assert differ.min() > 1e-6, differ
    golden = {
        "made_by": "tests/golden/make_sync_golden.py",
        "versions": {"keras": keras.__version__, "tensorflow": tf.__version__,
                     "numpy": np.__version__, "python": sys.version.split()[0]},
        "records": RECORDS, "batch": BATCH, "epochs": EPOCHS, "seed": SEED, "cases": cases,
    }
    path = os.path.join(HERE, "sync.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(golden, f, separators=(",", ":"))
        f.write("\n")
    print(f"{path}: {len(cases)} cases, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
