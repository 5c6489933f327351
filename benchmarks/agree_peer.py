"""Shared by the peers of `agree.py`: a linear classifier, its full-batch steps, and the exchange with `agree.py`."""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

STEPS, LR = 3, 0.1
"""The number of local steps, and their learning rate."""
Weights = Callable[[str, dict[str, float], Any, bool], np.ndarray]
"""(algorithm, hyperparameters, the suite's run, whether the peer's suspected lines are changed) -> weights by round."""


def layers(w: np.ndarray, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the weight `(classes, features)` and the bias `(classes,)` of a flat parameter vector."""
    classes = len(w) // (features + 1)
    return w[: classes * features].reshape(classes, features), w[classes * features :]


def flat(weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return weight and bias as a flat parameter vector in the suite's order."""
    return np.concatenate([np.asarray(weight).ravel(), np.asarray(bias)])


def trained(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the flat parameter vector after the local steps of gradient descent, for peers that leave client code to users."""
    weight, bias = (part.copy() for part in layers(w, x.shape[1]))
    for _ in range(STEPS):
        z = x @ weight.T + bias
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        p /= len(y)
        weight, bias = weight - LR * p.T @ x, bias - LR * p.sum(0)
    return flat(weight, bias)


def answer(weights: Weights) -> None:
    """Compute the weights that `agree.py` requests by the arguments of this process, and save them to a file."""
    name, params, run, answer, corrected = sys.argv[1:]
    np.save(answer, weights(name, json.loads(params), np.load(run), corrected == "True"))
