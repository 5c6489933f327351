"""Labels by their counts, and what a level partitions of them."""

import numpy as np

from trials import heterogeneity

POOLED = [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]
"""MNIST's images of each digit, train and test together."""


def shared(level: str, y: np.ndarray, clients: int, seed: int = 0, owner=None) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return heterogeneity.parse(level).partition.assign(y, clients, owner, rng)


def counted(parts: list[np.ndarray], y: np.ndarray, classes: int = 10) -> np.ndarray:
    return np.array([np.bincount(y[ids], minlength=classes) for ids in parts])


def of_counts(counts: list[int], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
