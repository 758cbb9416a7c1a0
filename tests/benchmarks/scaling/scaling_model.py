#!/usr/bin/env python3
"""A model of synchronous data-parallel steps, beside published scaling; draws docs/scaling.svg.

    scaling_model.py --check           prints predictions beside published figures; fails above 20 %
    scaling_model.py --plot FILE.svg   draws the throughput of up to 512 replicas

A step of n replicas takes

    launch + images * image + exchange(n, bytes)

per replica, where `launch` is the part of a step that does not depend on the batch, and `image` the time of one
image. Both are fixed per device. The exchange of a gradient of `bytes` bytes takes, with a link of bandwidth B and
latency L per message, each replica sending and receiving at the same time:

    ring     2 (n - 1) L + 2 bytes (n - 1) / n / B       reduce-scatter and all-gather in n - 1 hops each
    direct   2 L + 2 bytes (n - 1) / n / B               each part goes to its owner in one hop, and back
    servers  2 L + 2 bytes max(n / m, 1) / B             m parameter servers, each with 1 / m of the bytes

`direct` needs a switch that carries all pairs at once. The published runs train MobileNetV2 (3.5 million parameters)
on 80 % of each data set. The devices' constants, and the batch of the runs on one device, which is not published, were
fixed with the figures of cats_vs_dogs. Those of tf_flowers were not used.
"""
import argparse
import math
import sys

PARAMETER_BYTES = 3_504_872 * 4
IMAGES = {"cats_vs_dogs": 0.8 * 23_262, "tf_flowers": 0.8 * 3_670}


class Device:
    def __init__(self, name, launch, image, single_batch):
        self.name, self.launch, self.image, self.single_batch = name, launch, image, single_batch


class Link:
    def __init__(self, name, bytes_per_s, latency):
        self.name, self.bytes_per_s, self.latency = name, bytes_per_s, latency


GTX_1080_TI = Device("GTX 1080 Ti", launch=0.038, image=0.0055, single_batch=16)
K80 = Device("K80", launch=0.55, image=0.070, single_batch=32)
PCIE = Link("PCIe 3.0, shared by four cards", 2.5e9, 20e-6)
ETHERNET = Link("1 Gbit/s Ethernet", 0.117e9, 100e-6)

# Data set, device, link, replicas, global batch, seconds of an epoch.
PUBLISHED = [
    ("cats_vs_dogs", GTX_1080_TI, PCIE, 1, None, 146), ("cats_vs_dogs", GTX_1080_TI, PCIE, 4, 64, 39),
    ("cats_vs_dogs", GTX_1080_TI, PCIE, 4, 256, 29), ("tf_flowers", GTX_1080_TI, PCIE, 1, None, 22),
    ("tf_flowers", GTX_1080_TI, PCIE, 4, 64, 7), ("tf_flowers", GTX_1080_TI, PCIE, 4, 256, 5),
    ("cats_vs_dogs", K80, ETHERNET, 1, None, 1622), ("cats_vs_dogs", K80, ETHERNET, 2, 64, 858),
    ("cats_vs_dogs", K80, ETHERNET, 2, 128, 755), ("tf_flowers", K80, ETHERNET, 1, None, 301),
    ("tf_flowers", K80, ETHERNET, 2, 64, 152), ("tf_flowers", K80, ETHERNET, 2, 128, 144),
]


def exchange(kind, replicas, link, servers=None):
    """Seconds for the gradient's way to the owners and the values' way back."""
    if replicas == 1:
        return 0.0
    part = 2 * PARAMETER_BYTES / link.bytes_per_s
    if kind == "ring":
        return 2 * (replicas - 1) * link.latency + part * (replicas - 1) / replicas
    if kind == "direct":
        return 2 * link.latency + part * (replicas - 1) / replicas
    return 2 * link.latency + part * max(replicas / servers, 1)


def step_seconds(device, link, replicas, batch_per_replica, kind="ring", servers=None):
    return device.launch + batch_per_replica * device.image + exchange(kind, replicas, link, servers)


def epoch_seconds(data, device, link, replicas, global_batch):
    batch = (global_batch or device.single_batch) / replicas
    return IMAGES[data] / (batch * replicas) * step_seconds(device, link, replicas, batch)


def check(most_error=0.2):
    """Prints a row per published figure. Returns the rows whose error is larger than `most_error`."""
    wrong = []
    print("%-13s %-12s %8s %6s %10s %10s %7s" % ("data", "device", "replicas", "batch", "published", "predicted", "error"))
    for data, device, link, replicas, batch, seconds in PUBLISHED:
        predicted = epoch_seconds(data, device, link, replicas, batch)
        error = predicted / seconds - 1
        print("%-13s %-12s %8d %6d %8d s %8.1f s %+6.1f %%" %
              (data, device.name, replicas, batch or device.single_batch, seconds, predicted, 100 * error))
        if abs(error) > most_error:
            wrong.append((data, device.name, replicas, batch))
    return wrong


def plot():
    """An SVG: images per second of 1 to 512 replicas of 32 images each, with ring, direct and servers."""
    device, link = GTX_1080_TI, Link("10 Gbit/s Ethernet", 1.17e9, 50e-6)
    counts = [2**k for k in range(10)]
    rate = lambda n, kind, servers=None: 32 * n / step_seconds(device, link, n, 32, kind, servers)
    lines = [
        ("linear", "#999999", [rate(1, "ring") * n for n in counts]),
        ("direct", "#1b6ca8", [rate(n, "direct") for n in counts]),
        ("ring", "#c8553d", [rate(n, "ring") for n in counts]),
        ("one server per replica", "#2e7d32", [rate(n, "servers", n) for n in counts]),
        ("8 servers", "#8e44ad", [rate(n, "servers", 8) for n in counts]),
    ]
    width, height, left, top, right, bottom = 720, 440, 70, 40, 170, 50
    top_rate = lines[0][2][-1]
    x = lambda i: left + i * (width - left - right) / (len(counts) - 1)
    y = lambda r: height - bottom - (height - top - bottom) * math.log(r / 100) / math.log(top_rate / 100)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">' %
           (width, height), '<rect width="100%" height="100%" fill="white"/>',
           '<text x="%d" y="22" font-size="14">MobileNetV2, 32 images per replica, %s, %s: images per second</text>' %
           (left, device.name, link.name)]
    for i, n in enumerate(counts):
        out.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#eeeeee"/>' % (x(i), top, x(i), height - bottom))
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%d</text>' % (x(i), height - bottom + 18, n))
    out.append('<text x="%d" y="%d" text-anchor="middle">replicas</text>' %
               ((left + width - right) // 2, height - 12))
    for r in (100, 1000, 10000):
        out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#eeeeee"/>' % (left, y(r), width - right, y(r)))
        out.append('<text x="%d" y="%.1f" text-anchor="end">%d</text>' % (left - 8, y(r) + 4, r))
    places = []
    for name, color, rates in lines:
        points = " ".join("%.1f,%.1f" % (x(i), y(r)) for i, r in enumerate(rates))
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' % (points, color))
        at = y(rates[-1]) + 4
        while any(abs(at - other) < 14 for other in places):
            at += 14
        places.append(at)
        out.append('<text x="%d" y="%.1f" fill="%s">%s</text>' % (width - right + 8, at, color, name))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with published figures")
    parser.add_argument("--plot", metavar="FILE.svg", help="where the plot goes")
    arguments = parser.parse_args()
    if arguments.plot:
        with open(arguments.plot, "w", encoding="utf-8") as file:
            file.write(plot())
    if arguments.check:
        wrong = check()
        if wrong:
            sys.exit("more than 20 %% away: %s" % wrong)


if __name__ == "__main__":
    main()
