#!/usr/bin/env python3
"""One rank of PyTorch's DistributedDataParallel over Gloo, for compare_strategies.py.

    torch_peer.py RANK RANKS PORT [--batch 64] [--learning_rate 0.01] [--data DIR]

Prints "ok" when all ranks are there. "steps COUNT" on standard input is answered by the seconds of one training step
of the MNIST CNN of compare_strategies.py, after a warm-up. One thread calculates.
"""
import argparse
import datetime
import gzip
import os
import sys
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

WARM_UP_STEPS = 50


def cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 13 * 13, 128),
                         nn.ReLU(), nn.Linear(128, 10))


def batches(args, rank):
    """Batches of shuffled images of one channel, without end."""
    with gzip.open(os.path.join(args.data, "mnist/t10k-images-idx3-ubyte.gz")) as f:
        images = torch.from_numpy(np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)[:9000].copy())
    with gzip.open(os.path.join(args.data, "mnist/t10k-labels-idx1-ubyte.gz")) as f:
        labels = torch.from_numpy(np.frombuffer(f.read(), np.uint8, offset=8)[:9000].astype(np.int64))
    generator = torch.Generator().manual_seed(rank)
    while True:
        order = torch.randperm(len(images), generator=generator)
        for begin in range(0, len(images) - args.batch + 1, args.batch):
            chosen = order[begin:begin + args.batch]
            x = images[chosen].to(torch.float32).div_(255)
            yield x.contiguous(memory_format=torch.channels_last), labels[chosen]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rank", type=int)
    parser.add_argument("ranks", type=int)
    parser.add_argument("port", type=int)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--data", default=os.environ.get("COHORT_DATA_DIR", ""))
    args = parser.parse_args()
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:%d" % args.port, rank=args.rank,
                            world_size=args.ranks, timeout=datetime.timedelta(seconds=120))
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(cnn().to(memory_format=torch.channels_last),
                                                gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), args.learning_rate, foreach=True)
    loss_of = nn.CrossEntropyLoss()
    data = batches(args, args.rank)

    def step():
        x, y = next(data)
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(x), y).backward()
        optimizer.step()

    print("ok", flush=True)
    for line in sys.stdin:
        count = int(line.split()[1])
        for _ in range(WARM_UP_STEPS):
            step()
        begin = time.perf_counter()
        for _ in range(count):
            step()
        print("%.9f" % ((time.perf_counter() - begin) / count), flush=True)


main()
