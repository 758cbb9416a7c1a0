"""Random PyTorch modules: rows of blocks over vectors, sequences of ids, or images."""

from __future__ import annotations

import random
from typing import Callable

import torch
from torch import nn
from torch.nn import functional as F

WORDS, STEPS, WIDTH = 12, 6, 8


class Function(nn.Module):
    """A function of tensors as a module, with the modules that it calls."""

    def __init__(self, function: Callable, *modules: nn.Module, name: str = ""):
        super().__init__()
        self.inner = nn.ModuleList(modules)
        self.function = function
        self.name = name

    def forward(self, x):
        return self.function(x, *self.inner)

    def extra_repr(self):
        return self.name


class Parameter(nn.Module):
    def __init__(self, *shape: int):
        super().__init__()
        self.w = nn.Parameter(torch.randn(*shape) * 0.5)

    def forward(self):
        return self.w


def activation(r: random.Random) -> nn.Module:
    return r.choice([nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.SELU, nn.Softplus, nn.LeakyReLU, nn.Hardswish, nn.Mish, nn.LogSigmoid,
                     nn.Softsign, nn.Hardtanh, nn.PReLU, nn.CELU, nn.Tanhshrink, nn.Softshrink, nn.Hardsigmoid, lambda: nn.Softmax(1),
                     lambda: nn.GELU(approximate="tanh"), lambda: nn.Softplus(2.0), lambda: nn.Dropout(0.0)])()


def elementwise(r: random.Random) -> nn.Module:
    name, function = r.choice([
        ("sin", lambda x: torch.sin(x) + torch.cos(2 * x)), ("bell", lambda x: torch.exp(-x**2)), ("root", lambda x: torch.sqrt(x.abs() + 0.1)),
        ("where", lambda x: torch.where(x > 0.1, x, x * x)), ("clamp", lambda x: x.clamp(-0.7, 0.9)), ("log", lambda x: torch.log1p(x * x)),
        ("divide", lambda x: x / (1 + x.abs())), ("rsub", lambda x: 1 - x), ("power", lambda x: (x.abs() + 0.5).pow(1.5)),
        ("erf", lambda x: torch.erf(x)), ("maximum", lambda x: torch.maximum(x, -0.5 * x)), ("mask", lambda x: x.masked_fill(x < -1, 0.0)),
        ("expm1", lambda x: torch.expm1(0.3 * x)), ("rsqrt", lambda x: x * torch.rsqrt(x * x + 1)), ("logical", lambda x: x * ((x > 0) & (x < 1))),
    ])
    return Function(function, name=name)


def vector(r: random.Random, n: int) -> tuple[nn.Module, int]:
    """A block from [records, n] to [records, m]."""
    m = r.choice([4, 6, 8, 12])
    linear = nn.Linear(n, m, bias=r.random() < 0.8)
    kind = r.randrange(20)
    if kind < 5:
        return nn.Sequential(linear, activation(r)), m
    if kind == 5:
        return nn.LayerNorm(n, elementwise_affine=r.random() < 0.7), n
    if kind == 6:
        # Between layers that keep the deviation of a channel above rounding.
        return nn.Sequential(nn.Linear(n, n), nn.BatchNorm1d(n, affine=r.random() < 0.7, momentum=0.3, eps=1e-2)), n
    if kind == 7:
        return Function(lambda x, f: x + f(x), nn.Linear(n, n), name="residual"), n
    if kind == 8:
        return Function(lambda x, f, g: f(x) * torch.sigmoid(g(x)), linear, nn.Linear(n, m), name="gate"), m
    if kind == 9:
        return Function(lambda x: F.normalize(x, dim=1), name="normalize"), n
    if kind == 10:
        return Function(lambda x: torch.cat([x, x.mean(1, keepdim=True), x.std(1, keepdim=True), x.amax(1, keepdim=True)], dim=1), name="moments"), n + 3
    if kind == 11 and n % 2 == 0:
        return Function(lambda x: torch.cat(x.chunk(2, dim=1)[::-1], dim=1) - x, name="chunks"), n
    if kind == 12 and n % 2 == 0:
        return Function(lambda x, p: torch.einsum("bij,jk->bik", x.view(-1, 2, n // 2), p()).flatten(1), Parameter(n // 2, 5), name="einsum"), 10
    if kind == 13 and n % 2 == 0:
        return Function(lambda x: x.unflatten(1, (n // 2, 2)).transpose(1, 2).reshape(x.shape[0], n), name="transposed"), n
    if kind == 14:
        return Function(lambda x: (x[:, :, None] * x[:, None, :]).softmax(-1).sum(1) + x, name="outer"), n
    if kind == 15 and n <= 12:  # sums of many would explode
        return Function(lambda x: torch.stack([x, x.flip(1), x.cumsum(1)], dim=2).amax(2), name="stack"), n
    if kind == 16:
        return Function(lambda x: x[:, 1:] - x[:, :-1], name="differences"), n - 1
    if kind == 17:
        return Function(lambda x, p: F.linear(x, p(), None).tanh() @ p(), Parameter(m, n), name="tied"), n
    if kind == 18:
        return Function(lambda x: x.index_select(1, torch.arange(n - 1, -1, -1)) * torch.linspace(0.1, 1, n, dtype=x.dtype), name="places"), n
    return elementwise(r), n


def sequence(r: random.Random) -> nn.Module:
    """A block from [records, STEPS, WIDTH] to the same shape."""
    kind = r.randrange(14)
    if kind < 2:
        units, both = (WIDTH // 2, True) if r.random() < 0.4 else (WIDTH, False)
        layers = r.choice([1, 1, 2])
        return Function(lambda x, f: f(x)[0], r.choice([nn.LSTM, nn.GRU, nn.RNN])(WIDTH, units, layers, batch_first=True, bidirectional=both,
                                                                                  bias=r.random() < 0.8), name="recurrence")
    if kind == 2:
        return Function(lambda x, f: f(x.transpose(0, 1))[0].transpose(0, 1), nn.GRU(WIDTH, WIDTH), name="time first")
    if kind == 3:
        causal = r.random() < 0.5
        mask = torch.full((STEPS, STEPS), float("-inf")).triu(1).double() if causal else None
        return Function(lambda x, f: x + f(x, x, x, attn_mask=mask, need_weights=False)[0], nn.MultiheadAttention(WIDTH, 2, batch_first=True), name="attention")
    if kind == 4:
        return nn.TransformerEncoderLayer(WIDTH, 2, 12, dropout=0.0, batch_first=True, norm_first=r.random() < 0.5, activation=r.choice(["relu", "gelu"]))
    if kind == 5:
        return Function(lambda x, f: f(x.transpose(1, 2)).transpose(1, 2), nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=r.choice([1, 2])), name="conv1d")
    if kind == 6:
        return nn.LayerNorm(r.choice([[WIDTH], [STEPS, WIDTH]]))
    if kind == 7:
        return Function(lambda x: x - x.mean(1, keepdim=True), name="centered")
    if kind == 8:
        return Function(lambda x, p: x + p()[None], Parameter(STEPS, WIDTH), name="positions")
    if kind == 9:
        return Function(lambda x: torch.cat([x[:, 1:], x[:, :1]], dim=1) * 0.5 + x, name="shifted")
    if kind == 10:
        return Function(lambda x: F.scaled_dot_product_attention(x, x.flip(1), x, is_causal=True), name="scaled")
    if kind == 11:
        return Function(lambda x, f, g: x + f(g(x).transpose(1, 2)).transpose(1, 2), nn.Linear(STEPS, STEPS), nn.LayerNorm(WIDTH), name="mixer")
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), activation(r) if r.random() < 0.8 else elementwise(r))


def pooled(r: random.Random) -> nn.Module:
    """From [records, STEPS, WIDTH] to [records, WIDTH]."""
    name, function = r.choice([("mean", lambda x: x.mean(1)), ("max", lambda x: x.max(1)[0]), ("last", lambda x: x[:, -1]), ("first", lambda x: x[:, 0]),
                               ("sum", lambda x: x.sum(dim=1)), ("soft", lambda x: (x * x.softmax(1)).sum(1)), ("logsumexp", lambda x: x.logsumexp(1))])
    return Function(function, name=name)


def image(r: random.Random, c: int, size: int) -> tuple[nn.Module, int, int]:
    """A block of images from [records, c, size, size]: the channels and size of its result."""
    m = r.choice([4, 6, 8])
    kind = r.randrange(18)
    if kind < 4:
        k, stride, padding = r.choice([(3, 1, 1), (3, 1, 0), (1, 1, 0), (3, 2, 1), (5, 1, 2), (2, 2, 0)])
        after = (size + 2 * padding - k) // stride + 1
        if after >= 2:
            return nn.Sequential(nn.Conv2d(c, m, k, stride, padding, bias=r.random() < 0.7, padding_mode=r.choice(["zeros", "zeros", "reflect"])), activation(r)), m, after
    if kind == 4:
        return nn.BatchNorm2d(c), c, size
    if kind == 5 and c % 2 == 0:
        return nn.GroupNorm(2, c, affine=r.random() < 0.7), c, size
    if kind == 6:
        return nn.InstanceNorm2d(c, affine=r.random() < 0.5), c, size
    if kind == 7 and size >= 4:
        return r.choice([nn.MaxPool2d(2), nn.AvgPool2d(2)]), c, size // 2
    if kind == 8 and size >= 4:
        pool = r.choice([nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1, count_include_pad=False)])
        return pool, c, (size - 1) // 2 + 1
    if kind == 9 and size >= 3 and size % 2:
        return r.choice([nn.MaxPool2d(2, ceil_mode=True), nn.AvgPool2d(2, ceil_mode=True)]), c, size // 2 + 1
    if kind == 10 and size <= 8:
        return nn.Upsample(scale_factor=2, mode=r.choice(["nearest", "bilinear"])), c, 2 * size
    if kind == 11 and size <= 8:
        k, stride, padding, more = r.choice([(2, 2, 0, 0), (3, 2, 1, 1), (4, 2, 1, 0), (3, 1, 1, 0)])
        return nn.ConvTranspose2d(c, m, k, stride, padding, more), m, (size - 1) * stride - 2 * padding + k + more
    if kind == 12 and c % 4 == 0 and size <= 8:
        return nn.PixelShuffle(2), c // 4, 2 * size
    if kind == 13:
        return nn.Conv2d(c, c, 3, padding=1, groups=c), c, size
    if kind == 14:
        return Function(lambda x, f: F.pad(x, (1, 0, 0, 1)) * torch.sigmoid(f(F.pad(x, (1, 0, 0, 1)))), nn.Conv2d(c, c, 1), name="padded"), c, size + 1
    if kind == 15:
        return Function(lambda x, f: x * torch.sigmoid(f(x.mean((2, 3))))[:, :, None, None], nn.Linear(c, c), name="squeeze"), c, size
    if kind == 16:
        return Function(lambda x, f: torch.cat([x, f(x)], dim=1), nn.Conv2d(c, 2, 3, padding=1), name="dense"), c + 2, size
    return (activation(r) if r.random() < 0.5 else elementwise(r)), c, size


class RandomModule(nn.Module):
    """Blocks for an input of `kind`: "vector" [records, 10], "ids" [records, STEPS], or "image" [records, 3, 8, 8]."""

    def __init__(self, kind: str, r: random.Random):
        super().__init__()
        self.kind = kind
        blocks: list[nn.Module] = []
        n = 10
        if kind == "ids":
            if r.random() < 0.25:
                blocks.append(nn.EmbeddingBag(WORDS, WIDTH, mode=r.choice(["sum", "mean"]), padding_idx=r.choice([None, 0])))
            else:
                blocks.append(nn.Embedding(WORDS, WIDTH, padding_idx=r.choice([None, 0])))
                blocks.extend(sequence(r) for _ in range(r.randint(1, 3)))
                blocks.append(pooled(r))
            n = WIDTH
        if kind == "image":
            c, size = 3, 8
            for _ in range(r.randint(2, 5)):
                block, c, size = image(r, c, size)
                blocks.append(block)
            way = r.randrange(3)
            blocks.append(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()) if way == 0 else nn.Flatten() if way == 1
                          else Function(lambda x: x.amax(dim=(-1, -2)), name="greatest"))
            n = c * size * size if way == 1 else c
        for _ in range(r.randint(1, 4)):
            block, n = vector(r, n)
            blocks.append(block)
        self.blocks = nn.Sequential(*blocks, nn.Linear(n, 2))

    def forward(self, x):
        return self.blocks(x)


class Bundle(nn.Module):
    """Many modules over the same inputs as one, with an output for each."""

    def __init__(self, modules: list[RandomModule]):
        super().__init__()
        self.members = nn.ModuleList(modules)

    def forward(self, vector, ids, image):
        inputs = {"vector": vector, "ids": ids, "image": image}
        return tuple(member(inputs[member.kind]) for member in self.members)


def random_modules(count: int, seed: int) -> list[RandomModule]:
    torch.manual_seed(seed)
    r = random.Random(seed)
    return [RandomModule(r.choice(["vector", "ids", "image"]), r).double() for _ in range(count)]
