"""Numbers that Python and C++ make alike, so that golden files hold results and not inputs.

uniform(seed, i) is SplitMix64 (Steele, Lea, Flood 2014) at position i, as a double in [0, 1).
tests/golden/golden_data.h is the same in C++.
"""
import numpy as np

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def uniform(seed, count, begin=0):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(begin, begin + count, dtype=np.uint64) + np.uint64(1)) * _GAMMA
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def tensor(seed, shape, low=-1.0, high=1.0):
    count = int(np.prod(shape)) if shape else 1
    return (low + (high - low) * uniform(seed, count)).reshape(shape)


def integers(seed, shape, bound):
    count = int(np.prod(shape)) if shape else 1
    return np.floor(uniform(seed, count) * bound).astype(np.int64).reshape(shape)


def weight_seed(model_seed, variable):
    return model_seed * 1000 + variable


def input_seed(model_seed, step, position):
    return model_seed * 1000 + 100 + step * 10 + position


def mask_seed(model_seed, step, number):
    return model_seed * 1000 + 500_000_000 + step * 10 + number
