#!/usr/bin/env python3
"""Writes optimizers.json: what Keras 3 (TensorFlow backend) makes of known gradients.

Usage: make_optimizer_golden.py [OUTPUT]     (needs keras and tensorflow-cpu from PyPI)

Initial values and gradients are formulas that common/optimizers/optimizer_rules_golden_test.cc repeats,
so that the file holds results only:
  initial[i]     = ((6007 i + 17) mod 1999) / 1000 - 1
  gradient[t][i] = ((7919 i + 104729 t + 31) mod 2003) / 1000 - 1
in float64, rounded to the variable's dtype. Sparse cases have ROWS x COLUMNS variables; step t pushes the
rows {t mod 8, (t + 3) mod 8, (3 t + 5) mod 8}, ascending and without repetition, but none at step 7; i of
the gradient counts the elements of the pushed rows. "matrix" is a dense gradient of ROWS x COLUMNS, for the
optimizers that work on whole variables, and for constraints.

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

STEPS = 100
ELEMENTS = 13
ROWS, COLUMNS = 8, 3
SAVED_STEPS = (1, 20, STEPS)
WHOLE = ("Lamb", "Adafactor", "Muon")
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

CASES.update({
    "adadelta": ("Adadelta", dict(learning_rate=0.5)),
    "adadelta_weight_decay": ("Adadelta", dict(learning_rate=1.0, rho=0.8, epsilon=1e-4, weight_decay=0.02)),
    "adamax": ("Adamax", dict(learning_rate=0.01)),
    "adamax_weight_decay": (
        "Adamax", dict(learning_rate=0.02, beta_1=0.8, beta_2=0.9, epsilon=1e-3, weight_decay=0.02)),
    "nadam": ("Nadam", dict(learning_rate=0.01)),
    "nadam_weight_decay": (
        "Nadam", dict(learning_rate=0.02, beta_1=0.8, beta_2=0.9, epsilon=1e-3, weight_decay=0.02)),
    "lion": ("Lion", dict(learning_rate=0.01)),
    "lion_weight_decay": ("Lion", dict(learning_rate=0.003, beta_1=0.8, beta_2=0.9, weight_decay=0.02)),
    "schedule_free": ("ScheduleFreeAdamW", dict(learning_rate=0.01)),
    "schedule_free_warm": ("ScheduleFreeAdamW", dict(
        learning_rate=0.02, beta_1=0.8, beta_2=0.9, epsilon=1e-3, warmup_steps=7, weight_decay=0.02)),
    "lamb": ("Lamb", dict(learning_rate=0.01)),
    "lamb_weight_decay": (
        "Lamb", dict(learning_rate=0.02, beta_1=0.8, beta_2=0.9, epsilon=1e-3, weight_decay=0.02)),
    "adafactor": ("Adafactor", dict(learning_rate=0.01)),
    "adafactor_options": ("Adafactor", dict(
        learning_rate=0.5, beta_2_decay=-0.5, epsilon_1=1e-6, epsilon_2=0.1, clip_threshold=1.5,
        relative_step=False, weight_decay=0.02)),
    "adafactor_schedule": ("Adafactor", dict(learning_rate=dict(
        class_name="ExponentialDecay",
        config=dict(initial_learning_rate=0.9, decay_steps=40, decay_rate=0.5)))),
    "muon": ("Muon", dict(learning_rate=0.01)),
    "muon_options": ("Muon", dict(
        learning_rate=0.02, adam_beta_1=0.8, adam_beta_2=0.9, adam_weight_decay=0.01, epsilon=1e-3,
        weight_decay=0.02, muon_a=3.0, muon_b=-4.0, muon_c=1.5, adam_lr_ratio=0.5, momentum=0.8, ns_steps=3,
        nesterov=False, rms_rate=None)),
    "muon_excluded": ("Muon", dict(learning_rate=0.01, exclude_layers=["^x", "^v$"])),
    "sgd_ema": ("SGD", dict(learning_rate=0.1, momentum=0.9, use_ema=True, ema_momentum=0.8,
                            ema_overwrite_frequency=7)),
    "rmsprop_ema": ("RMSprop", dict(learning_rate=0.05, use_ema=True, ema_momentum=0.9)),
    "adam_accumulation": ("Adam", dict(learning_rate=dict(
        class_name="ExponentialDecay",
        config=dict(initial_learning_rate=0.05, decay_steps=4, decay_rate=0.9)),
        gradient_accumulation_steps=3)),
    "adam_accumulation_ema": ("Adam", dict(
        learning_rate=0.05, amsgrad=True, gradient_accumulation_steps=2, use_ema=True, ema_momentum=0.7,
        ema_overwrite_frequency=5)),
})

CONSTRAINTS = {
    "non_neg": ("NonNeg", dict()),
    "max_norm": ("MaxNorm", dict(max_value=0.9)),
    "max_norm_rows": ("MaxNorm", dict(max_value=0.5, axis=1)),
    "min_max_norm": ("MinMaxNorm", dict(min_value=0.7, max_value=0.9, rate=0.6)),
    "min_max_norm_all": ("MinMaxNorm", dict(min_value=1.5, max_value=1.6, axis=[0, 1])),
    "unit_norm": ("UnitNorm", dict()),
    "unit_norm_rows": ("UnitNorm", dict(axis=-1)),
}
for case, constraint in CONSTRAINTS.items():
    CASES["sgd_" + case] = ("SGD", dict(learning_rate=0.1), constraint)
CASES["adam_max_norm"] = ("Adam", dict(learning_rate=0.1), CONSTRAINTS["max_norm"])

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
    """JSON numbers that read back as the same bits, in the dtype of the array."""
    return [float(str(x)) for x in np.asarray(array).ravel()]


def run_keras(name, arguments, constraint, dtype, mode):
    keras.config.set_floatx(dtype)
    sparse = mode == "keras"
    optimizer = getattr(keras.optimizers, name)(
        **dict(arguments, learning_rate=schedule(arguments["learning_rate"])))
    shape = (ELEMENTS,) if mode == "dense" else (ROWS, COLUMNS)
    variable = keras.Variable(initial(int(np.prod(shape)), dtype).reshape(shape), dtype=dtype, name="v")
    if constraint:
        variable.constraint = getattr(keras.constraints, constraint[0])(**constraint[1])
    optimizer.build([variable])
    saved = {}
    for step in range(STEPS):
        if sparse:
            rows = rows_of(step)
            values = gradient(step, len(rows) * COLUMNS, dtype).reshape(-1, COLUMNS)
            grad = tf.IndexedSlices(tf.constant(values), tf.constant(rows),
                                    tf.constant(shape, tf.int64))
        else:
            grad = tf.constant(gradient(step, int(np.prod(shape)), dtype).reshape(shape))
        optimizer.apply([grad], [variable])
        if step + 1 in SAVED_STEPS:
            saved[str(step + 1)] = numbers(variable.numpy())
    slots = {}
    for slot in optimizer.variables:
        base = slot.path.split("/")[-1]
        if base.startswith("v_"):
            slots[base.removeprefix("v_")] = numbers(slot.numpy())
    if name == "Adafactor":  # means of rows and columns have the name of the variable; v follows from them
        slots = {"velocity": slots["velocity"]} if mode == "dense" else {}
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
        elif name == "Adadelta":
            rho, eps = a.get("rho", 0.95), t(a.get("epsilon", 1e-7))
            squares, changes = slot("accumulated_grad"), slot("accumulated_delta_var")
            squares[r] = t(rho) * squares[r] + t(1 - rho) * (g * g)
            delta = -(np.sqrt(changes[r] + eps) * g / np.sqrt(squares[r] + eps))
            changes[r] = t(rho) * changes[r] + t(1 - rho) * (delta * delta)
            w[r] += lr * delta
        elif name == "Adamax":
            b1, b2 = a.get("beta_1", 0.9), a.get("beta_2", 0.999)
            m, u = slot("momentum"), slot("norm")
            m[r] += (g - m[r]) * t(1 - b1)
            u[r] = np.maximum(t(b2) * u[r], np.abs(g))
            w[r] -= lr * m[r] / ((t(1) - cast(b1) ** t(step + 1)) * (u[r] + t(a.get("epsilon", 1e-7))))
        elif name == "Nadam":
            b1, b2 = a.get("beta_1", 0.9), a.get("beta_2", 0.999)
            m, v = slot("momentum"), slot("velocity")
            rates = [cast(b1) * (t(1) - t(0.5) * cast(0.96) ** t(step + i)) for i in (1, 2)]
            product = t(np.prod([b1 * (1 - 0.5 * 0.96 ** i) for i in range(1, step + 2)]))
            m[r] += (g - m[r]) * (t(1) - cast(b1))
            v[r] += (g * g - v[r]) * (t(1) - cast(b2))
            mean = (rates[1] * m[r] / (t(1) - product * rates[1])
                    + (t(1) - rates[0]) * g / (t(1) - product))
            root = np.sqrt(v[r] / (t(1) - cast(b2) ** t(step + 1)))
            w[r] -= mean * lr / (root + t(a.get("epsilon", 1e-7)))
        elif name == "Lion":
            b1, b2 = cast(a.get("beta_1", 0.9)), cast(a.get("beta_2", 0.99))
            m = slot("momentum")
            w[r] -= lr * np.sign(m[r] * b1 + g * (t(1) - b1))
            m[r] = m[r] * b2 + g * (t(1) - b2)
        elif name == "ScheduleFreeAdamW":
            b1, b2 = cast(a.get("beta_1", 0.9)), cast(a.get("beta_2", 0.999))
            if step == 0:
                slots["momentum"] = initial(ROWS * COLUMNS, dtype).reshape(ROWS, COLUMNS)
            z, v = slot("momentum"), slot("velocity")
            speed = lr
            if a.get("warmup_steps"):
                speed = lr * min(t(step + 1) / t(a["warmup_steps"]), t(1))
            v[r] += (g * g - v[r]) * (t(1) - b2)
            z[r] -= speed * g / (np.sqrt(v[r] / (t(1) - b2 ** t(step + 1))) + cast(a.get("epsilon", 1e-8)))
            weight = t(1) / t(step + 1)
            x = (t(1) - weight) * ((w[r] - (t(1) - b1) * z[r]) / b1) + weight * z[r]
            w[r] = (t(1) - b1) * z[r] + b1 * x
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
    for case, (name, arguments, *rest) in CASES.items():
        constraint = rest[0] if rest else None
        no_lazy = (name in WHOLE or constraint or "use_ema" in arguments
                   or "gradient_accumulation_steps" in arguments)
        modes = ["keras", "matrix" if no_lazy else "lazy"]
        if not constraint:
            modes.append("dense")
        for dtype in ("float64", "float32"):
            for mode in modes:
                result = (run_lazy(name, arguments, dtype) if mode == "lazy"
                          else run_keras(name, arguments, constraint, dtype, mode))
                if constraint:
                    result["constraint"] = {"class_name": constraint[0], "config": constraint[1]}
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
