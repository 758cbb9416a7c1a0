#!/usr/bin/env python3
"""One rank of an all-reduce over Gloo (torch.distributed), for compare_gloo.py.

    gloo_peer.py RANK RANKS PORT

Prints "ok" when all ranks are there. Then "run BYTES COUNT" on standard input is answered by the seconds of one
all-reduce of float32, after a few others.
"""
import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

WARM_UP = 3


def main():
    rank, ranks, port = map(int, sys.argv[1:4])
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:%d" % port, rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=60))
    print("ok", flush=True)
    buffers = {}
    for line in sys.stdin:
        size, count = map(int, line.split()[1:3])
        buffer = buffers.setdefault(size, torch.zeros(size // 4, dtype=torch.float32))
        for _ in range(WARM_UP):
            dist.all_reduce(buffer)
        begin = time.perf_counter()
        for _ in range(count):
            dist.all_reduce(buffer)
        print("%.9f" % ((time.perf_counter() - begin) / count), flush=True)


main()
