#!/usr/bin/env python3
"""Steps per second of deploy/examples/dlrm.yaml in PyTorch, eager, on the CPU: EmbeddingBag with sparse gradients,
Adagrad, batches of 512 from a CSV file.

    torch_dlrm.py --data criteo_train.csv --rows 100000 --threads 1 --seconds 10

Prints one number, the median of the passes over the file.
"""
import argparse
import statistics
import time
import warnings

import numpy as np
import torch
from torch import nn

BATCH = 512


class Dlrm(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(rows, 16, mode="sum", sparse=True) for _ in range(26)])
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(16 + 27 * 26 // 2, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(),
                                 nn.Linear(32, 1))
        self.pairs = [torch.tensor(index) for index in np.tril_indices(27, -1)]
        self.offsets = torch.arange(BATCH)

    def forward(self, numbers, ids):
        bottom = self.bottom(numbers)
        vectors = torch.stack([bottom] + [table(i, self.offsets) for table, i in zip(self.tables, ids)], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return self.top(torch.cat([bottom, products[:, self.pairs[0], self.pairs[1]]], 1)).squeeze(1)


def batches(path):
    with open(path, encoding="utf-8") as f:
        names = f.readline().strip().split(",")
        table = np.loadtxt(f, np.int64, delimiter=",")
    columns = {name: torch.from_numpy(table[:, i].copy()) for i, name in enumerate(names)}
    numbers = torch.stack([columns[f"I{i}"] for i in range(1, 14)], 1).float().log1p()
    ids = [columns[f"C{i}"] for i in range(1, 27)]
    labels = columns["label"].float()
    return [(numbers[i:i + BATCH], [column[i:i + BATCH] for column in ids], labels[i:i + BATCH])
            for i in range(0, len(labels) - BATCH + 1, BATCH)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message="Sparse invariant checks")
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    model, loss_of = Dlrm(args.rows), nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adagrad(model.parameters(), 0.2, initial_accumulator_value=0.1)
    records = batches(args.data)
    rates = []
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end or len(rates) < 2:
        begin = time.perf_counter()
        for numbers, ids, labels in records:
            optimizer.zero_grad(set_to_none=True)
            loss_of(model(numbers, ids), labels).backward()
            optimizer.step()
        rates.append(len(records) / (time.perf_counter() - begin))
    print("%.2f" % statistics.median(rates))


if __name__ == "__main__":
    main()
