#!/usr/bin/env python3
"""Trains 100 random PyTorch modules for some steps on Cohort: weights and losses as PyTorch has them within 1e-9 in float64."""

import copy
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "python"))
if "COHORT_BINARY_DIR" in os.environ:
    os.environ["COHORT_BIN_DIR"] = os.path.join(os.environ["COHORT_BINARY_DIR"], "bin")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

import cohort  # noqa: E402
from torch_random_modules import STEPS, WORDS, Bundle, random_modules  # noqa: E402

COUNT = int(os.environ.get("COHORT_TEST_MODULES", "100"))
SEED = int(os.environ.get("COHORT_TEST_SEED", "1"))
IN_A_JOB = 25
BATCH, UPDATES = 4, 3


class RandomModulesTest(unittest.TestCase):
    def test_modules(self):
        torch.set_num_threads(1)
        modules = random_modules(COUNT, SEED)
        rng = np.random.default_rng(SEED)
        records = BATCH * UPDATES
        x = {"vector": rng.normal(size=(records, 10)), "ids": rng.integers(0, WORDS, (records, STEPS)), "image": rng.normal(size=(records, 3, 8, 8))}
        wrong: dict[int, str] = {}
        for first in range(0, COUNT, IN_A_JOB):
            bundle = Bundle(modules[first : first + IN_A_JOB])
            peer = copy.deepcopy(bundle)
            labels = [rng.normal(size=(records, 2)) for _ in bundle.members]
            cohort.fit(bundle, x, labels, loss=nn.MSELoss(), optimizer=torch.optim.SGD(bundle.parameters(), lr=0.01), batch_size=BATCH,
                       shuffle=False, strategy="one_device", verbose=0)
            self.train(peer, x, labels)
            for name, expected in peer.state_dict().items():
                error = (bundle.state_dict()[name] - expected).abs().max().item() if expected.is_floating_point() else 0
                if not error <= 1e-9 * max(1.0, expected.abs().max().item()):
                    member = int(name.split(".")[1])
                    wrong[first + member] = f"module {first + member}: {name} differs by {error}: {bundle.members[member]}"
        self.assertEqual(wrong, {}, "\n".join(wrong.values()))

    @staticmethod
    def train(module, x, labels):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
        for step in range(UPDATES):
            part = slice(step * BATCH, (step + 1) * BATCH)
            outputs = module(*(torch.from_numpy(x[name][part]) for name in ("vector", "ids", "image")))
            loss = sum(nn.functional.mse_loss(output, torch.from_numpy(label[part])) for output, label in zip(outputs, labels))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    unittest.main()
