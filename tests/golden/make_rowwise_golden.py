#!/usr/bin/env python3
"""Writes optimizers_rowwise.json: what RowwiseAdagrad makes of known gradients, by NumPy.

Usage: make_rowwise_golden.py [OUTPUT]

The rule is EXACT_ROWWISE_ADAGRAD of FBGEMM, with the weight decay of Keras. The formulas of values and gradients are those of
make_optimizer_golden.py, and so is the form of the file. With weight decay the mode "keras" decays rows without a gradient, too.
"""

import json
import os
import sys

import numpy as np
from make_torch_optimizer_golden import COLUMNS, ELEMENTS, ROWS, SAVED_STEPS, STEPS, gradient, initial, numbers, rows_of

CASES = {
    "rowwise_adagrad": dict(learning_rate=0.1),
    "rowwise_adagrad_options": dict(learning_rate=0.05, initial_accumulator_value=0.2, epsilon=1e-3, weight_decay=0.02),
}


def run(a, dtype, mode):
    shape = (ELEMENTS, 1) if mode == "dense" else (ROWS, COLUMNS)
    t = np.dtype(dtype).type
    w = initial(int(np.prod(shape)), dtype).reshape(shape)
    sums = np.full(shape[0], a.get("initial_accumulator_value", 0), dtype)
    rate, epsilon = t(a["learning_rate"]), t(a.get("epsilon", 1e-8))
    decay = t(np.float32(a.get("weight_decay", 0)))  # as Keras, which makes float32 of it
    saved = {}
    for step in range(STEPS):
        rows = np.arange(shape[0]) if mode in ("dense", "matrix") else rows_of(step)
        g = gradient(step, len(rows) * shape[1], dtype).reshape(len(rows), shape[1])
        decayed = rows if mode == "lazy" else np.arange(shape[0])
        w[decayed] = w[decayed] - w[decayed] * decay * rate
        sums[rows] += (g * g).mean(axis=1, dtype=np.float64).astype(dtype)
        w[rows] -= (rate / (np.sqrt(sums[rows]) + epsilon))[:, None] * g
        if step + 1 in SAVED_STEPS:
            saved[str(step + 1)] = numbers(w)
    return {"variable": saved, "slots": {"accumulator": numbers(sums)}}


def main():
    output = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "optimizers_rowwise.json")
    cases = [{"case": case, "class_name": "RowwiseAdagrad", "config": a, "dtype": dtype, "mode": mode, **run(a, dtype, mode)}
             for case, a in CASES.items() for dtype in ("float32", "float64") for mode in ("dense", "matrix", "keras", "lazy")]
    with open(output, "w", encoding="utf-8") as file:
        file.write('{"cases": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
