"""The clients, graphs and runs that the tests of DeFed share."""

import numpy as np

from tests.support.simulations import state
from trials.algorithms import ALGORITHMS

LR = 0.4
SIZES = [5, 9, 3, 7, 4, 8]
TEN = [4, 6, 5, 3, 7, 5, 8, 4, 6, 2]
ONE = {"local_steps": 1}


def DeFed(**given):  # noqa: N802
    return ALGORITHMS["defed"](**given)


def circle(n, degree):
    """1 / (l + 1) for oneself and l / 2 neighbours on each side."""
    gap = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return (np.minimum(gap, n - gap) <= degree // 2) / (degree + 1)


def hub(n):
    """Metropolis weights of a star: every edge 1 / n."""
    w = np.zeros((n, n))
    w[0, 1:] = w[1:, 0] = 1 / n
    return w + np.diag(1 - w.sum(1))


def among(w, ids):
    """The exchange of those awake: an edge needs both its ends, the rest stays at home."""
    awake = np.isin(np.arange(len(w)), ids)
    off = w * np.outer(awake, awake) * (1 - np.eye(len(w)))
    return off + np.diag(1 - off.sum(1))


def iterations(run):
    """All clients' weights after each evaluation."""
    while not run.finished:
        run.advance()
        yield state(run)["W"].copy()


GRAPHS = {
    "ring(2)": circle(6, 2),
    "ring(4)": circle(6, 4),
    "ring(8)": np.full((6, 6), 1 / 6),
    "complete": np.full((6, 6), 1 / 6),
    "star": hub(6),
}
