#!/usr/bin/env python3
"""Milliseconds of a training step in PyTorch, eager, on the CPU: median and best of many steps.

    torch_steps.py --model mobilenet_v2 --threads 1 --seconds 5

Prints one line: MEDIAN BEST. The models are those of compare_steps.py.
"""
import argparse
import statistics
import time

import torch
from torch import nn


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.dense = nn.Linear(8, 1)

    def forward(self, ids):
        return self.dense(self.embedding(ids).mean(1))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 13 * 13, 128),
                         nn.ReLU(), nn.Linear(128, 10))


class Recurrent(nn.Module):
    """32 x 80 x 128 to 128 units, of which the last step counts."""
    def __init__(self, kind):
        super().__init__()
        self.layer = kind(128, 128, batch_first=True)
        self.dense = nn.Linear(128, 10)

    def forward(self, x):
        return self.dense(self.layer(x)[0][:, -1])


class Transformer(nn.Module):
    """An encoder block: 4 heads of 32, a feed-forward part of 512, normalization after each."""
    def __init__(self):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
        self.dense = nn.Linear(128, 10)

    def forward(self, x):
        return self.dense(self.block(x).mean(1))


def mobilenet_v2():
    """As keras.applications.MobileNetV2, alpha 1."""
    layers = []

    def block(inputs, outputs, size, stride, groups, active):
        layers = [nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
                  nn.BatchNorm2d(outputs, eps=1e-3, momentum=1e-3)]
        return layers + ([nn.ReLU6(inplace=True)] if active else [])

    class Inverted(nn.Module):
        def __init__(self, inputs, outputs, stride, expansion):
            super().__init__()
            hidden = inputs * expansion
            expand = block(inputs, hidden, 1, 1, 1, True) if expansion > 1 else []
            self.body = nn.Sequential(*expand, *block(hidden, hidden, 3, stride, hidden, True),
                                      *block(hidden, outputs, 1, 1, 1, False))
            self.adds = stride == 1 and inputs == outputs

        def forward(self, x):
            return x + self.body(x) if self.adds else self.body(x)

    layers += block(3, 32, 3, 2, 1, True)
    channels = 32
    for expansion, outputs, repeats, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                                (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(repeats):
            layers.append(Inverted(channels, outputs, stride if i == 0 else 1, expansion))
            channels = outputs
    layers += block(channels, 1280, 1, 1, 1, True)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 10))


def setting(name):
    """(model, batch, labels, loss, optimizer)"""
    if name == "recommender":
        model = Recommender()
        return (model, torch.randint(0, 20, (32, 3)), torch.randint(0, 2, (32, 1)).float(),
                nn.BCEWithLogitsLoss(), torch.optim.RMSprop(model.parameters(), 0.1))
    if name == "mlp":
        model = mlp()
        return (model, torch.rand(32, 784), torch.randint(0, 10, (32,)), nn.CrossEntropyLoss(),
                torch.optim.Adam(model.parameters(), foreach=True))
    if name in ("lstm", "gru", "transformer"):
        model = Transformer() if name == "transformer" else Recurrent(nn.LSTM if name == "lstm" else nn.GRU)
        return (model, torch.rand(32, 64 if name == "transformer" else 80, 128), torch.randint(0, 10, (32,)),
                nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.01, foreach=True))
    model, size, batch, channels = (cnn(), 28, 64, 1) if name == "cnn" else (mobilenet_v2(), 96, 16, 3)
    model = model.to(memory_format=torch.channels_last)
    images = torch.rand(batch, channels, size, size).contiguous(memory_format=torch.channels_last)
    return (model, images, torch.randint(0, 10, (batch,)), nn.CrossEntropyLoss(),
            torch.optim.SGD(model.parameters(), 0.01, foreach=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    model, x, y, loss_of, optimizer = setting(args.model)
    model.train()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(x), y).backward()
        optimizer.step()

    for _ in range(5):
        step()
    times = []
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    print("%.5f %.5f" % (statistics.median(times) * 1e3, min(times) * 1e3))


if __name__ == "__main__":
    main()
