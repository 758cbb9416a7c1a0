#!/usr/bin/env python3
"""Writes optimizers_torch.json: what the optimizers of PyTorch make of known gradients.

Usage: make_torch_optimizer_golden.py [OUTPUT]     (needs torch from PyPI)

The formulas are those of make_optimizer_golden.py, and so is the form of the file. In the mode "keras" the gradient has some rows only,
which PyTorch takes as a dense gradient with zeros in the others.
"""

import json
import os
import sys

import numpy as np
import torch

STEPS = 100
ELEMENTS = 13
ROWS, COLUMNS = 8, 3
SAVED_STEPS = (1, 20, STEPS)

# The class in a job, its arguments there, and where PyTorch has another name.
CASES = {
    "torch_sgd": ("TorchSGD", dict(learning_rate=0.1)),
    "torch_sgd_decay": ("TorchSGD", dict(learning_rate=0.1, weight_decay=0.02)),
    "torch_sgd_momentum": ("TorchSGD", dict(learning_rate=0.05, momentum=0.9, dampening=0.3, weight_decay=0.02)),
    "torch_sgd_nesterov": ("TorchSGD", dict(learning_rate=0.05, momentum=0.9, nesterov=True)),
    "torch_adam": ("TorchAdam", dict(learning_rate=0.01)),
    "torch_adam_options": ("TorchAdam", dict(learning_rate=0.01, beta_1=0.8, beta_2=0.9, epsilon=1e-3, amsgrad=True, weight_decay=0.1)),
    "torch_adamw": ("TorchAdamW", dict(learning_rate=0.01)),
    "torch_adamw_options": ("TorchAdamW", dict(learning_rate=0.01, beta_1=0.8, epsilon=1e-3, amsgrad=True, weight_decay=0.1)),
    "torch_adagrad": ("TorchAdagrad", dict(learning_rate=0.1)),
    "torch_adagrad_options": (
        "TorchAdagrad", dict(learning_rate=0.1, lr_decay=0.1, initial_accumulator_value=0.2, epsilon=1e-3, weight_decay=0.02)),
    "torch_rmsprop": ("TorchRMSprop", dict(learning_rate=0.01)),
    "torch_rmsprop_momentum": ("TorchRMSprop", dict(learning_rate=0.01, rho=0.8, momentum=0.7, weight_decay=0.02)),
    "torch_rmsprop_centered": ("TorchRMSprop", dict(learning_rate=0.01, rho=0.9, momentum=0.5, centered=True, epsilon=1e-4)),
}
NAMES = {"learning_rate": "lr", "epsilon": "eps", "rho": "alpha"}


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


def run(name, arguments, dtype, mode):
    given = {NAMES.get(key, key): value for key, value in arguments.items() if not key.startswith("beta")}
    if any(key.startswith("beta") for key in arguments):
        given["betas"] = (arguments.get("beta_1", 0.9), arguments.get("beta_2", 0.999))
    shape = (ELEMENTS,) if mode == "dense" else (ROWS, COLUMNS)
    variable = torch.nn.Parameter(torch.from_numpy(initial(int(np.prod(shape)), dtype).reshape(shape)))
    optimizer = getattr(torch.optim, name.removeprefix("Torch"))([variable], **given)
    saved = {}
    for step in range(STEPS):
        if mode == "dense":
            grad = gradient(step, ELEMENTS, dtype)
        else:
            rows, grad = rows_of(step), np.zeros(shape, dtype)
            grad[rows] = gradient(step, len(rows) * COLUMNS, dtype).reshape(-1, COLUMNS)
        variable.grad = torch.from_numpy(grad)
        optimizer.step()
        if step + 1 in SAVED_STEPS:
            saved[str(step + 1)] = numbers(variable.detach().numpy())
    state = optimizer.state[variable]
    slots = {key: numbers(value.numpy()) for key, value in state.items() if key != "step" and value is not None}
    return {"variable": saved, "slots": slots}


def main():
    output = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "optimizers_torch.json")
    cases = []
    for case, (name, arguments) in CASES.items():
        for dtype in ("float32", "float64"):
            for mode in ("dense", "keras"):
                cases.append({"case": case, "class_name": name, "config": arguments, "dtype": dtype, "mode": mode, **run(name, arguments, dtype, mode)})
    with open(output, "w", encoding="utf-8") as file:
        file.write('{"cases": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
