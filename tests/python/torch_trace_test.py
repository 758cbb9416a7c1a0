#!/usr/bin/env python3
"""Traces PyTorch modules of many kinds and evaluates the graphs with Keras: the outputs of the modules themselves."""

import os
import sys
import unittest

os.environ.setdefault("KERAS_BACKEND", "torch")
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "python"))

import keras  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from cohort import TraceError  # noqa: E402
from cohort import torch as tracer  # noqa: E402
import torch_models  # noqa: E402
from graph_interpreter import Interpreter  # noqa: E402

keras.config.set_floatx("float64")
RECORDS = 5


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.0), nn.Linear(8, 3))

    def forward(self, x):
        return F.log_softmax(self.layers(x), dim=1)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 6, 3, padding=1, groups=2)
        self.last = nn.Linear(6 * 4 * 4, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = x + F.max_pool2d(x, 3, stride=1, padding=1)
        return self.last(torch.flatten(F.hardswish(self.second(x)), 1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 4, 3, padding=1)
        self.inner = nn.Conv2d(4, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = F.relu(self.down(x))
        b = F.relu(self.inner(F.max_pool2d(a, 2)))
        return self.out(torch.cat([a, self.up(b)], dim=1)).mean(dim=(2, 3))


class Recommender(nn.Module):
    """DLRM: bags of ids, pairwise products."""

    def __init__(self):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.tables = nn.ModuleList(nn.EmbeddingBag(20, 8, mode=mode) for mode in ("sum", "mean"))
        self.top = nn.Linear(8 + 3, 1)

    def forward(self, dense, a, b):
        x = self.bottom(dense)
        rows = torch.stack([x, self.tables[0](a), self.tables[1](b)], dim=1)
        products = torch.bmm(rows, rows.transpose(1, 2))
        i, j = torch.tril_indices(3, 3, offset=-1)
        flat = products.flatten(1)[:, i * 3 + j]
        return torch.sigmoid(self.top(torch.cat([x, flat], dim=1)))


class Shapes(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 4, 5))
        self.token = nn.Parameter(torch.randn(1, 1, 4))
        self.register_buffer("places", torch.arange(6, dtype=torch.float64) / 6)

    def forward(self, x):
        batch = x.shape[0]
        x = x.view(batch, 6, 4) + self.places[:, None]
        x = torch.cat([self.token.expand(batch, -1, -1), x], dim=1)
        y = torch.einsum("bsc,hcd->bhsd", x, self.w)
        y = y.permute(2, 0, 1, 3).reshape(7, batch * 3, 5).softmax(-1)
        y = y.view(7, batch, 3, 5).transpose(0, 1)
        z = torch.gather(y[:, 1:, 0], 2, torch.zeros(batch, 6, 2, dtype=torch.long) + 3)
        a, b = y.chunk(2, dim=1)[0].split([2, 3], dim=-1)
        return (a.sum(dim=(1, 2)) - b.mean(dim=(1, 2))[:, :2]) * torch.where(z > 0.2, z, -z).std(dim=1) + y[:, ::3].amax(dim=(1, 2, 3))[:, None]


class Encoder(nn.Module):
    def __init__(self, batch_first):
        super().__init__()
        self.batch_first = batch_first
        self.tokens = nn.Embedding(30, 8)
        self.positions = nn.Parameter(torch.randn(7, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(8, 1)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions
        if not self.batch_first:
            x = x.transpose(0, 1)
        mask = nn.Transformer.generate_square_subsequent_mask(7).to(x.dtype)
        x = self.encoder(x, mask=mask, is_causal=True)
        return self.out(x.mean(1 if self.batch_first else 0))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 6)

    def forward(self, ids):
        return F.linear(self.table(ids).mean(1), self.table.weight)


class Order(nn.Module):
    """What sorts, and what reads and writes by places."""

    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(6, 5)
        self.steps = nn.Parameter(torch.linspace(-1, 1, 6).sin())

    def forward(self, x):
        y = self.scores(x)
        values, places = y.sort(dim=-1)
        top, best = torch.topk(y, 2, dim=1)
        low = torch.topk(y, 3, largest=False).values
        gates = torch.zeros(x.shape[0], x.shape[1], 5, dtype=x.dtype).scatter(-1, torch.topk(y, 2).indices, 1.0)
        written = y.scatter(1, best[:, :1], top[:, :1] * 3)
        added = torch.zeros_like(y).scatter_add(2, places.flip(-1), values) + y.index_add(1, torch.tensor([2, 0, 2, 1]), y * y)
        middle = y.median(dim=-1).values + y.kthvalue(2, dim=-1).values + self.steps.sort(descending=True).values[0]
        picked = torch.take_along_dim(y, torch.argsort(y, dim=-1, descending=True)[..., :2], dim=-1)
        hot = F.one_hot(best[:, 0] % 3, 4).to(x.dtype).sum(1)
        return torch.cat([values.flatten(1), top.flatten(1), low.flatten(1), (gates * y).flatten(1), written.flatten(1), added.flatten(1),
                          middle, picked.flatten(1), hot], dim=1)


class Angles(nn.Module):
    """Trigonometric functions, divisions with roundings, and cumulative products."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.3, -0.4, 0.5, 0.9]))

    def forward(self, x):
        y = torch.tanh(x * self.scale)
        angles = torch.asin(y) + torch.acos(y) * 2 + torch.atan2(y, x) + torch.asinh(x) + torch.acosh(1 + x * x) + torch.atanh(y)
        rests = torch.fmod(x, 0.3) + torch.remainder(x, 0.3) + torch.fmod(x, y) + torch.div(x, 0.4, rounding_mode="floor") + x // y
        whole = torch.div(x * 7, 2, rounding_mode="trunc") + ((x * 9).long() / 2).long() + torch.div((x * 9).long(), 4, rounding_mode="trunc")
        return torch.cat([angles, rests, whole.to(x.dtype), x.cumprod(1), y.cumsum(1)], dim=1)


class TorchTraceTest(unittest.TestCase):
    def check(self, module, *arguments, tolerance=1e-6):
        torch.manual_seed(1)
        module = module.double()
        graph = tracer.trace(module, tuple(x[:2] for x in arguments))
        names = [layer["Input"]["name"] for layer in graph.layers if "Input" in layer]
        inputs = dict(zip(names, [x.numpy() for x in arguments]))
        for training in (False, True):
            module.train(training)
            expected = module(*arguments).detach().numpy()
            (actual,) = Interpreter(graph)(inputs, training=training)
            np.testing.assert_allclose(keras.ops.convert_to_numpy(actual), expected, rtol=0, atol=tolerance)
        parameters = {name for name, p in module.named_parameters()}
        self.assertEqual(parameters - {target for target, _ in graph.variables.values()}, set())
        return graph

    def test_a_gradient_of_its_own_is_refused(self):
        class Reversed(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return x * 1

            @staticmethod
            def backward(context, gradient):
                return -gradient

        class Model(torch.nn.Module):
            def forward(self, x):
                return Reversed.apply(x)

        with self.assertRaisesRegex(TraceError, "Reversed, a torch.autograd.Function"):
            tracer.trace(Model(), (self.normal(2, 3),))

    def normal(self, *shape):
        return torch.randn(RECORDS, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    def ids(self, limit, *shape):
        return torch.randint(0, limit, (RECORDS, *shape), generator=torch.Generator().manual_seed(4))

    def test_order_and_places(self):
        self.check(Order(), self.normal(4, 6))

    def test_train_and_eval_may_differ(self):
        graph = self.check(torch_models.TwoModes(), self.normal(10))
        kinds = [next(iter(layer)) for layer in graph.layers]
        self.assertEqual([kinds.count(kind) for kind in ("ops.in_training", "BatchNormalization", "Dense")], [1, 1, 4])

        class Reads(nn.Module):  # the weight of a layer in one mode, and as it is in the other one
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, x):
                return F.dropout(self.linear(x), 0.0) if self.training else x @ (self.linear.weight * 2).T

        self.check(Reads(), self.normal(3))

        class OtherShape(nn.Module):
            def forward(self, x):
                return torch.cat([x, x], 1) if self.training else x * 2

        with self.assertRaisesRegex(TraceError, r"outputs have the shapes \[\(6,\)\] in training and \[\(3,\)\] in inference"):
            tracer.trace(OtherShape(), self.normal(3))

    def test_angles_and_rests(self):
        self.check(Angles(), self.normal(4))

    def test_perceptron(self):
        graph = self.check(Perceptron(), self.normal(6))
        self.assertIn("Dense", [next(iter(layer)) for layer in graph.layers])

    def test_images(self):
        self.check(Images(), self.normal(3, 8, 8))

    def test_unet(self):
        self.check(UNet(), self.normal(1, 8, 8))

    def test_recommender(self):
        graph = self.check(Recommender(), self.normal(4), self.ids(20, 3), self.ids(20, 2))
        self.assertEqual(sum("Embedding" in layer for layer in graph.layers), 2)

    def test_shapes(self):
        self.check(Shapes(), self.normal(24))

    def test_encoder(self):
        self.check(Encoder(True), self.ids(30, 7))

    def test_encoder_with_the_batch_second(self):
        self.check(Encoder(False), self.ids(30, 7))

    def test_tied_table(self):
        graph = self.check(Tied(), self.ids(11, 4))
        self.assertEqual(len(graph.values), 1)

    def test_resnet18(self):
        try:
            from torchvision.models import resnet18
        except ImportError:
            self.skipTest("torchvision is not installed")
        self.check(resnet18(num_classes=5), self.normal(3, 32, 32), tolerance=1e-4)

    def test_what_cannot_be_traced_is_named_with_its_line(self):
        class ByValue(nn.Module):
            def forward(self, x):
                if x.sum() > 0:
                    x = -x
                return x

        with self.assertRaisesRegex(TraceError, r"torch_trace_test.py:\d+: if x.sum\(\) > 0:.*external_step"):
            tracer.trace(ByValue(), self.normal(6))

        class Sorted(nn.Module):
            def forward(self, x):
                return torch.linalg.svd(x.view(-1, 2, 3))[1]

        with self.assertRaisesRegex(TraceError, r"torch_trace_test.py:\d+: .*linalg_svd.*external_step"):
            tracer.trace(Sorted(), self.normal(6))

    def test_what_a_trace_would_lose_is_refused(self):
        def part(linear, x, training):
            x = linear(x)
            x[:, :1].mul_(5)
            return x

        def later(linear, x, training):
            y = linear(x)
            z = y[:, :2]
            z += 1
            return torch.cat([y, z], 1)

        def draw(linear, x, training):
            return linear(x) + torch.randn(3)

        def always(linear, x, training):
            return F.dropout(linear(x), 0.5)

        class Module(nn.Module):
            def __init__(self, function):
                super().__init__()
                self.linear = nn.Linear(3, 3)
                self.frozen = nn.Dropout().eval()
                self.function = function

            def forward(self, x):
                return self.function(self.linear, x, self.training)

        for function, text in ((part, "mul_ changes a tensor in place"), (later, "add_ changes a tensor in place"),
                               (draw, "randn draws random numbers"), (always, r"dropout drops elements in eval\(\) too")):
            module = Module(function)
            with self.assertRaisesRegex(TraceError, rf"torch_trace_test.py:\d+: .*{text}"):
                tracer.trace(module, torch.ones(2, 3))
            self.assertEqual([m.training for m in (module, module.linear, module.frozen)], [True, True, False])

    def test_detach_stops_a_gradient_and_a_view_changed_in_place_is_kept(self):
        class Module(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)
                self.drop = nn.Dropout(0.0)

            def forward(self, x):
                y = self.linear(x).view(-1, 3, 1).flatten(1)
                y.relu_()  # nothing reads the other views later
                y += 1
                return self.drop(y.detach() + y) if self.training else y.detach() + y

        kinds = [next(iter(layer)) for layer in self.check(Module(), self.normal(3)).layers]
        self.assertEqual(kinds, ["Input", "Dense", "ops.relu", "ops.add", "ops.stop_gradient", "ops.add"])


if __name__ == "__main__":
    unittest.main()
