"""Random numbers that are functions of (seed, round, client, ...), drawn in bulk.

A number is a hash of a stream's name and of integers, its `words`, such as seed, round and client. No generator advances,
so two algorithms get the same minibatch order for client 7 in round 3, whatever else they drew before. The hash is the
finaliser of SplitMix64 (Steele, Lea and Flood 2014), applied to one word after the other.
"""

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def bits(stream: str, *words: Any) -> npt.NDArray[np.uint64]:
    """Return random 64-bit integers as hashes of `stream` and `words`. `words` are integers or arrays, broadcast to one shape."""
    state = np.full(1, zlib.crc32(stream.encode()), np.uint64)
    for word in words:
        z = (state * GOLDEN) ^ (np.atleast_1d(word).astype(np.uint64) + GOLDEN)
        z ^= z >> np.uint64(30)
        z *= FACTORS[0]
        z ^= z >> np.uint64(27)
        z *= FACTORS[1]
        z ^= z >> np.uint64(31)
        state = z
    return state


def uniform(stream: str, *words: Any) -> npt.NDArray[np.float64]:
    """Return uniform numbers in [0, 1) as hashes of `stream` and `words`. `words` are integers or arrays, broadcast to one shape."""
    return (bits(stream, *words) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def generator(stream: str, *words: int) -> np.random.Generator:
    """Return a NumPy generator of random numbers, seeded with a hash of `stream` and the integers `words`."""
    return np.random.default_rng(int(bits(stream, *words)[0]))
