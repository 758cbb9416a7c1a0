#!/usr/bin/env python3
"""Writes optimizers.json: what Keras 3 (TensorFlow backend) makes of known gradients.

Usage: make_optimizer_golden.py [OUTPUT]     (needs keras and tensorflow-cpu from PyPI)

Initial values and gradients are formulas that common/optimizers/optimizer_rules_golden_test.cc repeats,
so that the file holds results only:
  initial[i]     = ((6007 i + 17) mod 1999) / 1000 - 1
  gradient[t][i] = ((7919 i + 104729 t + 31) mod 2003) / 1000 - 1
in float64, rounded to the variable's dtype. Sparse cases have ROWS x COLUMNS variables; step t pushes the
rows {t mod 8, (t + 3) mod 8, (3 t + 5) mod 8}, ascending and without repetition, but none at step 7; i of
the gradient counts the elements of the pushed rows.

"schedules" holds the learning rates of steps 0 to SCHEDULE_STEPS - 1. Keras computes a schedule in the
dtype of its numbers, and makes float32 of Python's. The float64 cases give it float64 numbers.
"""

import json
import os
import sys

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

STEPS = 20
ELEMENTS = 13
ROWS, COLUMNS = 8, 3
SAVED_STEPS = (1, 2, STEPS)
SCHEDULE_STEPS = 40

CASES = {
    "sgd": ("SGD", dict(learning_rate=0.1)),
    "sgd_momentum": ("SGD", dict(learning_rate=0.05, momentum=0.9)),
    "sgd_nesterov": ("SGD", dict(learning_rate=0.05, momentum=0.9, nesterov=True)),
    "sgd_weight_decay": ("SGD", dict(learning_rate=0.1, weight_decay=0.02)),
    "adam": ("Adam", dict(learning_rate=0.01)),
    "adam_amsgrad": ("Adam", dict(learning_rate=0.01, beta_1=0.8, beta_2=0.9, amsgrad=True)),
    "adam_weight_decay": ("Adam", dict(learning_rate=0.01, epsilon=1e-3, weight_decay=0.1)),
    "rmsprop": ("RMSprop", dict(learning_rate=0.01)),
    "rmsprop_momentum": ("RMSprop", dict(learning_rate=0.01, rho=0.8, momentum=0.7)),
    "rmsprop_centered": ("RMSprop", dict(learning_rate=0.01, centered=True)),
    "rmsprop_centered_momentum": (
        "RMSprop", dict(learning_rate=0.01, momentum=0.5, centered=True, epsilon=1e-4)),
    "adagrad": ("Adagrad", dict(learning_rate=0.1)),
    "adagrad_weight_decay": (
        "Adagrad", dict(learning_rate=0.1, initial_accumulator_value=0.5, epsilon=1e-3, weight_decay=0.02)),
    "adamw": ("AdamW", dict(learning_rate=0.01)),
    "adamw_amsgrad": (
        "AdamW", dict(learning_rate=0.01, beta_1=0.8, beta_2=0.9, amsgrad=True, weight_decay=0.1)),
    "ftrl": ("Ftrl", dict(learning_rate=0.1)),
    "ftrl_regularized": (
        "Ftrl", dict(learning_rate=0.1, initial_accumulator_value=0.2, l1_regularization_strength=0.03,
                     l2_regularization_strength=0.02, l2_shrinkage_regularization_strength=0.01, beta=0.5)),
    "ftrl_power": ("Ftrl", dict(learning_rate=0.5, learning_rate_power=-0.7)),
    "ftrl_weight_decay": ("Ftrl", dict(learning_rate=0.1, weight_decay=0.02)),
    "sgd_schedule": ("SGD", dict(learning_rate=dict(
        class_name="ExponentialDecay",
        config=dict(initial_learning_rate=0.1, decay_steps=4, decay_rate=0.5)), momentum=0.9)),
    "adam_schedule": ("Adam", dict(learning_rate=dict(
        class_name="CosineDecay",
        config=dict(initial_learning_rate=0.0, decay_steps=10, warmup_target=0.02, warmup_steps=5)))),
    "ftrl_schedule": ("Ftrl", dict(learning_rate=dict(
        class_name="PiecewiseConstantDecay",
        config=dict(boundaries=[5, 10], values=[0.2, 0.1, 0.05])), beta=0.5)),
}

SCHEDULES = [
    ("ExponentialDecay", dict(initial_learning_rate=0.1, decay_steps=7, decay_rate=0.9)),
    ("ExponentialDecay", dict(initial_learning_rate=0.1, decay_steps=7, decay_rate=0.9, staircase=True)),
    ("InverseTimeDecay", dict(initial_learning_rate=0.1, decay_steps=7, decay_rate=0.5)),
    ("InverseTimeDecay", dict(initial_learning_rate=0.1, decay_steps=7, decay_rate=0.5, staircase=True)),
    ("PolynomialDecay", dict(initial_learning_rate=0.1, decay_steps=15)),
    ("PolynomialDecay", dict(initial_learning_rate=0.1, decay_steps=15, end_learning_rate=0.02, power=2.0)),
    ("PolynomialDecay", dict(initial_learning_rate=0.1, decay_steps=15, power=0.5, cycle=True)),
    ("PiecewiseConstantDecay", dict(boundaries=[3, 10], values=[1.0, 0.5, 0.1])),
    ("CosineDecay", dict(initial_learning_rate=0.1, decay_steps=30)),
    ("CosineDecay", dict(initial_learning_rate=0.1, decay_steps=30, alpha=0.1)),
    ("CosineDecay", dict(initial_learning_rate=0.01, decay_steps=20, warmup_target=0.1, warmup_steps=10)),
    ("CosineDecayRestarts", dict(initial_learning_rate=0.1, first_decay_steps=6)),
    ("CosineDecayRestarts", dict(initial_learning_rate=0.1, first_decay_steps=7, t_mul=1.5, m_mul=0.8, alpha=0.1)),
    ("CosineDecayRestarts", dict(initial_learning_rate=0.1, first_decay_steps=7, t_mul=1.0, m_mul=0.5)),
]


def schedule(rate):
    """The Keras object of a learning rate that is not a number."""
    if not isinstance(rate, dict):
        return rate
    def number(value):
        if isinstance(value, list):
            return [number(item) for item in value]
        return tf.constant(value, keras.config.floatx()) if isinstance(value, float) else value

    config = {name: number(value) for name, value in rate["config"].items()}
    return getattr(keras.optimizers.schedules, rate["class_name"])(**config)


def run_schedule(name, arguments):
    keras.config.set_floatx("float64")
    made = schedule({"class_name": name, "config": arguments})
    return {"class_name": name, "config": arguments,
            "rates": [float(made(step)) for step in range(SCHEDULE_STEPS)]}


def initial(count, dtype):
    i = np.arange(count, dtype=np.int64)
    return (((6007 * i + 17) % 1999) / 1000.0 - 1.0).astype(dtype)


def gradient(step, count, dtype):
    i = np.arange(count, dtype=np.int64)
    return (((7919 * i + 104729 * step + 31) % 2003) / 1000.0 - 1.0).astype(dtype)


def rows_of(step):
    if step == 7:
        return np.zeros([0], np.int64)
    return np.unique(np.array([step % 8, (step + 3) % 8, (3 * step + 5) % 8], np.int64))


def numbers(array):
    """JSON numbers that read back as the same bits."""
    return [float(x) for x in np.asarray(array, np.float64).ravel()]


def run_keras(name, arguments, dtype, sparse):
    keras.config.set_floatx(dtype)
    optimizer = getattr(keras.optimizers, name)(
        **dict(arguments, learning_rate=schedule(arguments["learning_rate"])))
    shape = (ROWS, COLUMNS) if sparse else (ELEMENTS,)
    variable = keras.Variable(initial(int(np.prod(shape)), dtype).reshape(shape), dtype=dtype, name="v")
    optimizer.build([variable])
    saved = {}
    for step in range(STEPS):
        if sparse:
            rows = rows_of(step)
            values = gradient(step, len(rows) * COLUMNS, dtype).reshape(-1, COLUMNS)
            grad = tf.IndexedSlices(tf.constant(values), tf.constant(rows),
                                    tf.constant(shape, tf.int64))
        else:
            grad = tf.constant(gradient(step, ELEMENTS, dtype))
        optimizer.apply([grad], [variable])
        if step + 1 in SAVED_STEPS:
            saved[str(step + 1)] = numbers(variable.numpy())
    slots = {}
    for slot in optimizer.variables:
        base = slot.path.split("/")[-1]
        if base not in ("iteration", "learning_rate"):
            slots[base.removeprefix("v_")] = numbers(slot.numpy())
    return {"variable": saved, "slots": slots}


def run_lazy(name, a, dtype):
    """NumPy: the same update, of the pushed rows alone."""
    t = np.dtype(dtype).type
    w = initial(ROWS * COLUMNS, dtype).reshape(ROWS, COLUMNS)
    slots = {}

    def cast(x):  # ops.cast of a Python number goes through float32
        return t(np.float32(x))

    def slot(key, first=0):
        return slots.setdefault(key, np.full_like(w, cast(first)))

    keras.config.set_floatx(dtype)
    rate = schedule(a["learning_rate"])
    decay = cast(a.get("weight_decay", 0.004 if name == "AdamW" else 0))
    momentum = cast(a.get("momentum", 0)) if name == "SGD" else t(a.get("momentum", 0))
    saved = {}
    for step in range(STEPS):
        lr = t(rate(step) if callable(rate) else rate)
        r = rows_of(step)
        g = gradient(step, len(r) * COLUMNS, dtype).reshape(-1, COLUMNS)
        w[r] -= w[r] * decay * lr
        if name == "SGD":
            if momentum == 0:
                w[r] -= g * lr
            else:
                m = slot("momentum")
                m[r] = m[r] * momentum - g * lr
                w[r] += m[r] * momentum - g * lr if a.get("nesterov") else m[r]
        elif name in ("Adam", "AdamW"):
            b1, b2 = a.get("beta_1", 0.9), a.get("beta_2", 0.999)
            m, v = slot("momentum"), slot("velocity")
            power_1, power_2 = cast(b1) ** t(step + 1), cast(b2) ** t(step + 1)
            alpha = lr * np.sqrt(t(1) - power_2) / (t(1) - power_1)
            m[r] += (g - m[r]) * t(1 - b1)
            v[r] += (g * g - v[r]) * t(1 - b2)
            used = v
            if a.get("amsgrad"):
                used = slot("velocity_hat")
                used[r] = np.maximum(used[r], v[r])
            w[r] -= m[r] * alpha / (np.sqrt(used[r]) + t(a.get("epsilon", 1e-7)))
        elif name == "Adagrad":
            n = slot("accumulator", a.get("initial_accumulator_value", 0.1))
            n[r] += g * g
            w[r] -= lr * g / np.sqrt(n[r] + t(a.get("epsilon", 1e-7)))
        elif name == "Ftrl":
            n, z = slot("accumulator", a.get("initial_accumulator_value", 0.1)), slot("linear")
            power, l1 = t(-a.get("learning_rate_power", -0.5)), t(a.get("l1_regularization_strength", 0))
            l2 = t(a.get("l2_regularization_strength", 0)) + t(a.get("beta", 0)) / (t(2) * lr)
            new = n[r] + g * g
            z[r] += (g + t(2 * a.get("l2_shrinkage_regularization_strength", 0)) * w[r]
                     - (new ** power - n[r] ** power) / lr * w[r])
            w[r] = (np.clip(z[r], -l1, l1) - z[r]) / (new ** power / lr + t(2) * l2)
            n[r] = new
        else:
            rho, eps = a.get("rho", 0.9), t(a.get("epsilon", 1e-7))
            v = slot("velocity")
            v[r] = t(rho) * v[r] + t(1 - rho) * (g * g)
            denominator = v[r] + eps
            if a.get("centered"):
                average = slot("average_gradient")
                average[r] = t(rho) * average[r] + t(1 - rho) * g
                denominator = v[r] - average[r] * average[r] + eps
            change = lr * g / np.sqrt(denominator)
            if momentum > 0:
                m = slot("momentum")
                m[r] = momentum * m[r] + change
                change = m[r]
            w[r] -= change
        if step + 1 in SAVED_STEPS:
            saved[str(step + 1)] = numbers(w)
    return {"variable": saved, "slots": {k: numbers(v) for k, v in slots.items()}}


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "optimizers.json")
    cases = []
    for case, (name, arguments) in CASES.items():
        for dtype in ("float64", "float32"):
            for mode in ("dense", "keras", "lazy"):
                result = (run_lazy(name, arguments, dtype) if mode == "lazy"
                          else run_keras(name, arguments, dtype, mode == "keras"))
                cases.append({"case": case, "class_name": name, "config": arguments, "dtype": dtype,
                              "mode": mode, **result})
    golden = {
        "made_by": "tests/golden/make_optimizer_golden.py",
        "versions": {"keras": keras.__version__, "tensorflow": tf.__version__,
                     "numpy": np.__version__, "python": sys.version.split()[0]},
        "steps": STEPS, "elements": ELEMENTS, "rows": ROWS, "columns": COLUMNS, "cases": cases,
        "schedules": [run_schedule(*case) for case in SCHEDULES],
    }
    with open(path, "w", encoding="utf-8") as f:
        json.dump(golden, f, separators=(",", ":"))
        f.write("\n")
    print(f"{path}: {len(cases)} cases, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
