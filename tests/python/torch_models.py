"""PyTorch modules as users write them, small."""

from __future__ import annotations

import torch
from torch import nn


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x):
        return self.net(x)


class Encoder(nn.Module):
    """A classifier of sequences of ids by nn.TransformerEncoder."""

    def __init__(self, words: int = 40, width: int = 16, steps: int = 7):
        super().__init__()
        self.tokens = nn.Embedding(words, width, padding_idx=0)
        self.positions = nn.Parameter(torch.randn(steps, width) * 0.1)
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(width, 3)

    def forward(self, ids):
        return self.out(self.encoder(self.tokens(ids) + self.positions).mean(1))


class Recommender(nn.Module):
    """DLRM: dense features, bags of ids, and products of all pairs."""

    def __init__(self, rows: tuple[int, ...] = (100, 60, 40), width: int = 8):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, width, mode="sum") for n in rows)
        count = len(rows) + 1
        self.register_buffer("pairs", torch.tril_indices(count, count, offset=-1), persistent=False)
        self.top = nn.Sequential(nn.Linear(width + count * (count - 1) // 2, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense, a, b, c):
        x = self.bottom(dense)
        rows = torch.stack([x, *(table(ids) for table, ids in zip(self.tables, (a, b, c)))], dim=1)
        products = torch.bmm(rows, rows.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], dim=1)).squeeze(1)


def _twice(i: int, o: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True), nn.Conv2d(o, o, 3, padding=1),
                         nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Classes of pixels."""

    def __init__(self, width: int = 4, classes: int = 3):
        super().__init__()
        self.down1, self.down2, self.middle = _twice(1, width), _twice(width, 2 * width), _twice(2 * width, 4 * width)
        self.pool = nn.MaxPool2d(2)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2), nn.Upsample(scale_factor=2, mode="bilinear")
        self.join2, self.join1 = _twice(4 * width, 2 * width), _twice(3 * width, width)
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        c = self.middle(self.pool(b))
        b = self.join2(torch.cat([self.up2(c), b], dim=1))
        return self.out(self.join1(torch.cat([self.up1(b), a], dim=1)))


class Recurrent(nn.Module):
    """A classifier of texts by nn.LSTM or nn.GRU."""

    def __init__(self, kind: str, layers: int = 1, bidirectional: bool = False, words: int = 30, width: int = 8, units: int = 6):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.rnn = getattr(nn, kind)(width, units, num_layers=layers, batch_first=True, bidirectional=bidirectional)
        self.out = nn.Linear(2 * units if bidirectional else units, 2)

    def forward(self, ids):
        y, state = self.rnn(self.embedding(ids))
        h = state[0] if isinstance(state, tuple) else state
        return self.out(torch.cat([h[-2], h[-1]], dim=1) if self.rnn.bidirectional else y[:, -1])


class Ordered(nn.Module):
    """What sorts, and what reads and writes by places."""

    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(10, 12)
        self.steps = nn.Parameter(torch.linspace(-1, 1, 6).sin())
        self.answer = nn.Linear(36, 3)

    def forward(self, x):
        y = self.scores(x).view(-1, 3, 4)
        values, places = y.sort(dim=-1)
        best = torch.topk(y, 2, dim=1)
        gates = torch.zeros(len(x), 3, 4, dtype=x.dtype).scatter(-1, torch.topk(y, 2).indices, 1.0)
        added = torch.zeros_like(y).scatter_add(2, places.flip(-1), values * values) + y.index_add(1, torch.tensor([2, 0, 2]), y * y)
        written = y.scatter(1, best.indices[:, :1], best.values[:, :1] * 3) + self.steps.sort(descending=True).values[1:5].cumprod(0)
        angles = torch.asin(torch.tanh(y) * 0.5) + torch.atan2(y, 1 + y * y) + torch.asinh(y) + torch.fmod(y, 0.75) + y.median(-1, keepdim=True).values
        return self.answer(torch.cat([(gates * y + added).flatten(1), written.flatten(1), angles.flatten(1)], 1))


class TwoModes(nn.Module):
    """Computes something else in train(): a path of its own, and a factor that only eval() has."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(10, 8)
        self.norm = nn.BatchNorm1d(8)
        self.frozen = nn.BatchNorm1d(8).eval()
        self.auxiliary = nn.Linear(10, 8)
        self.answer = nn.Linear(8, 3)
        self.temperature = nn.Parameter(torch.tensor(0.75))

    def train(self, mode=True):
        super().train(mode)
        self.frozen.eval()
        return self

    def forward(self, x):
        y = torch.relu(self.frozen(self.norm(self.hidden(x))))
        if self.training:
            return self.answer(y * 0.5 + torch.tanh(self.auxiliary(x)))
        return self.answer(y) * self.temperature


def resnet18(part: int = 1) -> nn.Module:
    """torchvision's ResNet18 with channels divided by `part`."""
    from torchvision.models.resnet import BasicBlock, ResNet

    class Narrow(ResNet):
        def _make_layer(self, block, planes, *args, **kwargs):
            return super()._make_layer(block, planes // part, *args, **kwargs)

    module = Narrow(BasicBlock, [2, 2, 2, 2], num_classes=3)
    module.fc = nn.Linear(512 // part, 3)
    return module
