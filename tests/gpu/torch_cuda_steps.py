#!/usr/bin/env python3
"""Milliseconds of a training step in PyTorch on a GPU, eager and compiled: the medians of many steps.

    torch_cuda_steps.py --model mobilenet_v2

Prints one line: EAGER COMPILED, with "-" for what cannot be run here. The models are those of run.sh.
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


def setting(name):
    """(model, inputs)"""
    if name == "mlp":
        return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10)), torch.rand(64, 784)
    if name == "cnn":
        return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5408, 128), nn.ReLU(),
                             nn.Dropout(0.2), nn.Linear(128, 10)), torch.rand(64, 1, 28, 28)
    if name == "mobilenet_v2":
        return mobilenet_v2(), torch.rand(16, 3, 96, 96)
    sys.exit("unknown model %s" % name)


def milliseconds(model, inputs, labels, seconds=5):
    optimizer = torch.optim.Adam(model.parameters())
    loss_of = nn.CrossEntropyLoss()
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
    inputs, labels = inputs.pin_memory(), torch.randint(0, 10, (inputs.shape[0],)).pin_memory()
    model = model.cuda()
    results = [milliseconds(model, inputs, labels)]
    try:
        results.append(milliseconds(torch.compile(model), inputs, labels))
    except Exception:  # no compiler on this machine
        results.append(None)
    print(" ".join("-" if r is None else "%.4f" % r for r in results))


if __name__ == "__main__":
    main()
