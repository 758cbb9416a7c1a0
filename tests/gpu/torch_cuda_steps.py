#!/usr/bin/env python3
"""Milliseconds of a training step in PyTorch on a GPU, eager and compiled: the medians of many steps.

    torch_cuda_steps.py --model mobilenet_v2

Prints EAGER, then COMPILED, with "-" for what cannot be run here. The models are those of run.sh.
"""
import argparse
import statistics
import sys
import time

import torch
from torch import nn


def block(channels_in, channels_out, stride, expansion):
    middle = channels_in * expansion
    layers = []
    if expansion != 1:
        layers += [nn.Conv2d(channels_in, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU6()]
    layers += [nn.Conv2d(middle, middle, 3, stride, 1, groups=middle, bias=False), nn.BatchNorm2d(middle), nn.ReLU6(),
               nn.Conv2d(middle, channels_out, 1, bias=False), nn.BatchNorm2d(channels_out)]
    return nn.Sequential(*layers)


class Residual(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return x + self.body(x)


def mobilenet_v2():
    """keras.applications.MobileNetV2 with alpha 0.35 and ten classes."""
    width = lambda c: max(8, int(c * 0.35 + 4) // 8 * 8)  # noqa: E731
    layers = [nn.Conv2d(3, width(32), 3, 2, 1, bias=False), nn.BatchNorm2d(width(32)), nn.ReLU6()]
    channels = width(32)
    for expansion, filters, repeats, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                                (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(repeats):
            body = block(channels, width(filters), stride if i == 0 else 1, expansion)
            same = i > 0 or (stride == 1 and channels == width(filters))
            layers.append(Residual(body) if same else body)
            channels = width(filters)
    layers += [nn.Conv2d(channels, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
               nn.Linear(1280, 10)]
    return nn.Sequential(*layers)


class Bottleneck(nn.Module):
    """A block of keras.applications.ResNet50: the first convolution has the stride, and all have biases."""

    def __init__(self, channels_in, filters, stride, projects):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, filters, 1, stride), nn.BatchNorm2d(filters), nn.ReLU(),
            nn.Conv2d(filters, filters, 3, 1, 1), nn.BatchNorm2d(filters), nn.ReLU(),
            nn.Conv2d(filters, 4 * filters, 1), nn.BatchNorm2d(4 * filters))
        self.shortcut = nn.Sequential(nn.Conv2d(channels_in, 4 * filters, 1, stride), nn.BatchNorm2d(4 * filters)) if projects else nn.Identity()

    def forward(self, x):
        return torch.relu(self.shortcut(x) + self.body(x))


def resnet50():
    """keras.applications.ResNet50 with ten classes."""
    layers, channels = [nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for filters, repeats, stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
        for i in range(repeats):
            layers.append(Bottleneck(channels, filters, stride if i == 0 else 1, i == 0))
            channels = 4 * filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


class Dlrm(nn.Module):
    """step_dlrm.yaml: the inputs are 13 numbers and 26 ids, all as float64, which holds the ids exactly."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(100_000, 16, sparse=True) for _ in range(26))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 16), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(27 * 16, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, x):
        ids = x[:, 13:].long()
        rows = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return self.top(torch.cat([self.bottom(x[:, :13].float()), *rows], 1))


def setting(name):
    """(model, inputs)"""
    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10)), torch.rand(64, 784)
    if name == "resnet50":
        return resnet50(), torch.rand(32, 3, 224, 224)
    if name == "dlrm":
        return Dlrm(), torch.cat([torch.rand(512, 13).double(), torch.randint(0, 100_000, (512, 26)).double()], 1)
    if name == "cnn":
        return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5408, 128), nn.ReLU(),
                             nn.Dropout(0.2), nn.Linear(128, 10)), torch.rand(64, 1, 28, 28)
    if name == "mobilenet_v2":
        return mobilenet_v2(), torch.rand(16, 3, 96, 96)
    sys.exit("unknown model %s" % name)


def milliseconds(model, inputs, labels, seconds=5):
    sparse = labels.is_floating_point()
    optimizer = torch.optim.Adagrad(model.parameters()) if sparse else torch.optim.Adam(model.parameters())
    loss_of = nn.BCEWithLogitsLoss() if sparse else nn.CrossEntropyLoss()
    times, began = [], time.time()
    while time.time() - began < seconds or len(times) < 30:
        start = time.perf_counter()
        optimizer.zero_grad()
        # The batch comes from the host, as Cohort's does.
        loss_of(model(inputs.cuda(non_blocking=True)), labels.cuda(non_blocking=True)).backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times[len(times) // 3:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    model, inputs = setting(args.model)
    labels = torch.randint(0, 10, (inputs.shape[0],))
    if args.model == "dlrm":
        labels = (labels % 2).float().unsqueeze(1)
    inputs, labels = inputs.pin_memory(), labels.pin_memory()
    model = model.cuda()
    print("%.4f" % milliseconds(model, inputs, labels), flush=True)
    try:
        print("%.4f" % milliseconds(torch.compile(model), inputs, labels))
    except Exception:  # no compiler on this machine, or none for sparse gradients
        print("-")


if __name__ == "__main__":
    main()
