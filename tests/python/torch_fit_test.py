#!/usr/bin/env python3
"""Trains PyTorch modules by cohort.fit on real daemons, and compares each step's result with PyTorch's own."""

import copy
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "python"))
if "COHORT_BINARY_DIR" in os.environ:
    os.environ["COHORT_BIN_DIR"] = os.path.join(os.environ["COHORT_BINARY_DIR"], "bin")

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.optim import lr_scheduler  # noqa: E402

import cohort  # noqa: E402
import torch_models as models  # noqa: E402
from cohort import torch as tracer  # noqa: E402

BATCH, STEPS = 4, 20
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}


def images(rng, n, channels, size):
    return [rng.normal(size=(n, channels, size, size))]


def dlrm_columns(rng, n):
    return [rng.normal(size=(n, 4)), rng.integers(0, 100, (n, 3)), rng.integers(0, 60, (n, 2)), rng.integers(0, 40, (n, 1))]


def classes(rng, n):
    return rng.integers(0, 3, n)


def error(prediction, target):
    """A metric of the user's own."""
    return prediction.argmax(1) != target


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.01)


def by_hand(module, x, y, loss, optimizer, batch, scheduler=None, epochs=1):
    """Trains as PyTorch's tutorials do; returns the mean loss."""
    losses = []
    module.train()
    for _ in range(epochs):
        for at in range(0, len(y), batch):
            part = [torch.from_numpy(column[at : at + batch]) for column in x]
            value = loss(module(*part), torch.from_numpy(y[at : at + batch]))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            losses.append(value.item())
        if scheduler is not None:
            scheduler.step()
    return np.mean(losses[-(len(y) // batch):])


class TorchFitTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        self.rng = np.random.default_rng(0)
        self.run_dir = tempfile.mkdtemp(prefix="cohort-torch-")
        self.addCleanup(shutil.rmtree, self.run_dir, ignore_errors=True)

    def check(self, module, x, y, loss=None, optimizer=sgd, dtype="float64", strategy="one_device", batch=BATCH, **arguments):
        loss = loss or nn.CrossEntropyLoss()
        module = module.to(getattr(torch, dtype))
        x = [column.astype(dtype) if column.dtype.kind == "f" else column for column in x]
        y = y.astype(dtype) if y.dtype.kind == "f" else y
        peer, loaded = copy.deepcopy(module), copy.deepcopy(module)
        expected = by_hand(peer, x, y, loss, optimizer(peer.parameters()), batch)
        run_dir = os.path.join(self.run_dir, f"run{len(os.listdir(self.run_dir))}")
        history = cohort.fit(module, x if len(x) > 1 else x[0], y, loss=loss, optimizer=optimizer(module.parameters()), batch_size=batch, shuffle=False,
                             strategy=strategy, verbose=0, run_dir=run_dir, **arguments)
        self.same(module, peer, TOLERANCE[dtype])
        cohort.load_weights(loaded, run_dir)
        self.same(loaded, module, 0)
        self.assertAlmostEqual(history.history["loss"][0], expected, delta=1e-9 if dtype == "float64" else 1e-4)
        return history

    def same(self, module, peer, tolerance):
        for (name, value), other in zip(module.state_dict().items(), peer.state_dict().values()):
            if value.is_floating_point():
                self.assertLessEqual((value - other).abs().max().item(), tolerance * max(1.0, other.abs().max().item()), name)

    def test_perceptron(self):
        n = BATCH * STEPS
        x, y = [self.rng.normal(size=(n, 10))], classes(self.rng, n)
        for dtype in ("float64", "float32"):
            self.check(models.Perceptron(), x, y, dtype=dtype)
        self.check(models.Perceptron(), x, y, strategy="parameter_server", mode="sync", workers=1, ps=2)

    def test_optimizers(self):
        n = BATCH * STEPS
        x, y = [self.rng.normal(size=(n, 10))], classes(self.rng, n)
        for make in (lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3), lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=1e-2),
                     lambda p: torch.optim.AdamW(p, lr=1e-3), lambda p: torch.optim.Adagrad(p, lr=1e-2), lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5),
                     lambda p: torch.optim.Adadelta(p)):
            self.check(models.Perceptron(), x, y, optimizer=make)

    def test_fine_tuning(self):
        """What has no requires_grad keeps its values, except the statistics of a normalization."""
        n = BATCH * STEPS
        module = models.Perceptron()
        for p in [*module.net[0].parameters(), *module.net[1].parameters()]:
            p.requires_grad_(False)
        self.check(module, [self.rng.normal(size=(n, 10))], classes(self.rng, n), optimizer=lambda p: torch.optim.Adam([q for q in p if q.requires_grad]))

    def test_resnet18(self):
        try:
            module = models.resnet18(part=8)
        except ImportError:
            self.skipTest("torchvision is not installed")
        batch = 8  # the last maps are 1 x 1: with fewer records their variance amplifies rounding
        self.check(module, images(self.rng, batch * STEPS, 3, 32), classes(self.rng, batch * STEPS), batch=batch,
                   optimizer=lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9))

    def test_encoder(self):
        n = BATCH * STEPS
        self.check(models.Encoder(), [self.rng.integers(0, 40, (n, 7))], classes(self.rng, n), optimizer=lambda p: torch.optim.Adam(p, lr=1e-3))

    def test_recommender(self):
        n = BATCH * STEPS
        module = models.Recommender().double()
        graph = tracer.trace(module, tuple(torch.from_numpy(x[:2]) for x in dlrm_columns(self.rng, n)))
        self.assertEqual(sum("Embedding" in layer for layer in graph.layers), 3)  # whose rows are pulled
        self.check(module, dlrm_columns(self.rng, n), self.rng.integers(0, 2, n).astype(float), nn.BCEWithLogitsLoss(),
                   lambda p: torch.optim.Adagrad(p, lr=0.01), strategy="parameter_server", mode="sync", workers=1, ps=2)

    def test_unet(self):
        n = BATCH * STEPS
        module, x, y = models.UNet(), images(self.rng, n, 1, 8), self.rng.integers(0, 3, (n, 8, 8))
        history = self.check(module, x, y, nn.CrossEntropyLoss(label_smoothing=0.1), metrics=["accuracy", error], validation_data=(x[0][:8], y[:8]))
        with torch.no_grad():
            prediction, target = module.eval()(torch.from_numpy(x[0][:8])), torch.from_numpy(y[:8])
        self.assertAlmostEqual(history.history["val_loss"][0], nn.CrossEntropyLoss(label_smoothing=0.1)(prediction, target).item(), delta=1e-9)
        self.assertAlmostEqual(history.history["val_accuracy"][0], (prediction.argmax(1) == target).double().mean().item(), delta=1e-9)
        self.assertAlmostEqual(history.history["val_error"][0], error(prediction, target).double().mean().item(), delta=1e-9)

    def test_order_and_places(self):
        n = BATCH * STEPS
        self.check(models.Ordered(), [self.rng.normal(size=(n, 10))], classes(self.rng, n))

    def test_train_and_eval_may_differ(self):
        n = BATCH * STEPS
        for strategy in ({}, {"strategy": "parameter_server", "mode": "sync", "workers": 1, "ps": 2}):
            module, x, y = models.TwoModes(), [self.rng.normal(size=(n, 10))], classes(self.rng, n)
            history = self.check(module, x, y, validation_data=(x[0][:8], y[:8]), **strategy)
            part, target = torch.from_numpy(x[0][:8]), torch.from_numpy(y[:8])
            with torch.no_grad():
                self.assertAlmostEqual(history.history["val_loss"][0], nn.CrossEntropyLoss()(module.eval()(part), target).item(), delta=1e-9)
                self.assertGreater(abs(history.history["val_loss"][0] - nn.CrossEntropyLoss()(module.train()(part), target).item()), 1e-3)
            self.assertEqual(module.temperature.item(), 0.75)

    def test_recurrences(self):
        n = BATCH * STEPS
        for module in (models.Recurrent("LSTM"), models.Recurrent("LSTM", 2, True), models.Recurrent("GRU")):
            self.check(module, [self.rng.integers(0, 30, (n, 5))], self.rng.integers(0, 2, n), optimizer=lambda p: torch.optim.Adam(p, lr=0.01))

    def test_losses(self):
        n = BATCH * STEPS
        x = [self.rng.normal(size=(n, 10))]
        numbers, shares = self.rng.normal(size=(n, 3)), self.rng.dirichlet(np.ones(3), n)
        binary = self.rng.integers(0, 2, (n, 3)).astype(float)
        log_softmax = nn.Sequential(nn.Linear(10, 3), nn.LogSoftmax(1))
        for loss, module, y in (
                (nn.MSELoss(reduction="sum"), nn.Linear(10, 3), numbers), (nn.L1Loss(), nn.Linear(10, 3), numbers),
                (nn.SmoothL1Loss(beta=0.3), nn.Linear(10, 3), numbers), (nn.HuberLoss(delta=0.5), nn.Linear(10, 3), numbers),
                (nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)), nn.Linear(10, 3), binary),
                (nn.BCELoss(), nn.Sequential(nn.Linear(10, 3), nn.Sigmoid()), binary), (nn.CrossEntropyLoss(label_smoothing=0.1), nn.Linear(10, 3), shares),
                (nn.NLLLoss(), log_softmax, classes(self.rng, n)), (nn.KLDivLoss(reduction="batchmean"), log_softmax, shares),
                (nn.SoftMarginLoss(), nn.Linear(10, 3), 2 * binary - 1), (nn.PoissonNLLLoss(), nn.Linear(10, 3), binary),
                (lambda p, t: ((p - t) ** 4).mean(1), nn.Linear(10, 3), numbers)):
            with self.subTest(loss=str(loss)):
                by_torch = loss if isinstance(loss, nn.Module) else lambda p, t: ((p - t) ** 4).mean()
                peer, module = copy.deepcopy(module).double(), module.double()
                by_hand(peer, x, y, by_torch, sgd(peer.parameters()), BATCH)
                cohort.fit(module, x[0], y, loss=loss, optimizer=sgd(module.parameters()), batch_size=BATCH, shuffle=False, strategy="one_device", verbose=0,
                           run_dir=os.path.join(self.run_dir, str(len(os.listdir(self.run_dir)))))
                self.same(module, peer, 1e-9)

    def test_schedulers_and_groups(self):
        n, epochs = BATCH * 5, 6
        x, y = [self.rng.normal(size=(n, 10))], classes(self.rng, n)

        def optimizer_of(module):
            first, last = module.net[0], module.net[3]
            rest = [p for p in module.parameters() if not any(p is q for q in [*first.parameters(), *last.parameters()])]
            return torch.optim.SGD([{"params": first.parameters(), "lr": 0.05}, {"params": last.parameters(), "weight_decay": 0.01},
                                    {"params": rest}], lr=0.1, momentum=0.9)

        for make in (lambda o: lr_scheduler.StepLR(o, 2, 0.5), lambda o: lr_scheduler.CosineAnnealingLR(o, epochs), lambda o: lr_scheduler.ExponentialLR(o, 0.8),
                     lambda o: lr_scheduler.MultiStepLR(o, [1, 4], 0.3)):
            module = models.Perceptron().double()
            peer = copy.deepcopy(module)
            theirs, mine = optimizer_of(peer), optimizer_of(module)
            by_hand(peer, x, y, nn.CrossEntropyLoss(), theirs, BATCH, make(theirs), epochs)
            cohort.fit(module, x[0], y, loss=nn.CrossEntropyLoss(), optimizer=mine, scheduler=make(mine), epochs=epochs, batch_size=BATCH, shuffle=False,
                       strategy="one_device", verbose=0, run_dir=os.path.join(self.run_dir, str(len(os.listdir(self.run_dir)))))
            self.same(module, peer, 1e-9)

    def test_a_cluster(self):
        """3 workers and 2 servers: sync as PyTorch with the whole batch, and async learns."""
        part = BATCH * STEPS
        one = dlrm_columns(self.rng, BATCH)
        label = (one[0].sum(1) > 0).astype(float)
        # Each batch has the same records, so a step of three workers has the gradient of one batch.
        x, y = [np.concatenate([column] * 3 * STEPS) for column in one], np.concatenate([label] * 3 * STEPS)
        module = models.Recommender().double()
        peer = copy.deepcopy(module)
        by_hand(peer, [np.concatenate([column] * STEPS) for column in one], np.concatenate([label] * STEPS), nn.BCEWithLogitsLoss(),
                torch.optim.Adam(peer.parameters()), BATCH)
        common = {"loss": nn.BCEWithLogitsLoss(), "batch_size": BATCH, "shuffle": False, "workers": 3, "ps": 2, "verbose": 0}
        cohort.fit(module, x, y, optimizer=torch.optim.Adam(module.parameters()), mode="sync", run_dir=os.path.join(self.run_dir, "sync"), **common)
        self.same(module, peer, 1e-9)
        history = cohort.fit(module, x, y, optimizer=torch.optim.Adam(module.parameters(), lr=0.01), epochs=3, run_dir=os.path.join(self.run_dir, "async"),
                             validation_data=([column[:part] for column in x], y[:part]), **common)
        self.assertLess(history.history["loss"][-1], history.history["loss"][0])
        with torch.no_grad():
            value = nn.BCEWithLogitsLoss()(module(*(torch.from_numpy(column[:part]) for column in x)), torch.from_numpy(y[:part])).item()
        self.assertAlmostEqual(history.history["val_loss"][-1], value, delta=1e-9)

    def test_what_has_no_counterpart_is_refused_by_name(self):
        x, y = self.rng.normal(size=(8, 10)), classes(self.rng, 8)
        module = nn.Linear(10, 3)
        adam = torch.optim.Adam(module.parameters())
        for expected, arguments in (
                ("NAdam of PyTorch has no counterpart", {"optimizer": torch.optim.NAdam(module.parameters())}),
                ("CrossEntropyLoss with weight: .*class_weight", {"loss": nn.CrossEntropyLoss(weight=torch.ones(3))}),
                ("CrossEntropyLoss with ignore_index: .*sample_weight", {"loss": nn.CrossEntropyLoss(ignore_index=0)}),
                ("ReduceLROnPlateau", {"scheduler": lr_scheduler.ReduceLROnPlateau(adam)}),
                ("one of another optimizer", {"scheduler": lr_scheduler.StepLR(torch.optim.Adam(module.parameters()), 1)}),
                ("does not have the parameter bias", {"optimizer": torch.optim.SGD([module.weight], lr=0.1)}),
                ("needs `loss` and `optimizer`", {"loss": None})):
            with self.subTest(expected), self.assertRaisesRegex((cohort.TraceError, TypeError), expected):
                cohort.fit(module, x, y, **{"loss": nn.CrossEntropyLoss(), "optimizer": adam, "run_dir": self.run_dir, **arguments})

    def test_functions_that_return_the_mean(self):
        generator = np.random.default_rng(0)
        x, classes, numbers = generator.normal(size=(128, 4)), generator.integers(0, 3, 128), generator.normal(size=128)
        functional = torch.nn.functional
        for width, loss, y in ((3, lambda p, t: functional.cross_entropy(p, t, label_smoothing=0.1), classes),
                               (1, lambda p, t: ((p[:, 0] - t) ** 2).mean(), numbers),
                               (3, lambda p, t: -torch.log_softmax(p, 1)[torch.arange(len(t)), t].mean(), classes)):
            module = torch.nn.Linear(4, width).double()
            twin = torch.nn.Linear(4, width).double()
            twin.load_state_dict(module.state_dict())
            cohort.fit(module, x, y, loss=loss, optimizer=torch.optim.SGD(module.parameters(), lr=0.1), batch_size=32, shuffle=False,
                       strategy="one_device", verbose=0)
            optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
            for i in range(0, 128, 32):
                optimizer.zero_grad()
                loss(twin(torch.from_numpy(x[i:i + 32])), torch.from_numpy(y[i:i + 32])).backward()
                optimizer.step()
            np.testing.assert_allclose(module.weight.detach().numpy(), twin.weight.detach().numpy(), rtol=0, atol=1e-12)


if __name__ == "__main__":
    unittest.main()
