"""What models are scored by: one value a sample, keyed by the metric that a task is ranked by, and metrics of a
classification that are no mean over samples but of all labels and predictions together.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common.tensors import Tensor

Array = npt.NDArray[Any]
Scores = Callable[[Tensor, Tensor], dict[str, Tensor]]
"""Outputs (..., C) and targets (...) -> values (...) by metric, the ranked one first."""


def classification(logits: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Return whether the likeliest class is right and, above 5 classes, whether one of the likeliest 5 is."""
    best = logits.topk(min(5, logits.shape[-1]), dim=-1).indices == y[..., None]
    first = {"accuracy": best[..., 0]}
    return {**first, "top5_accuracy": best.any(-1)} if logits.shape[-1] > 5 else first


def regression(outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Return the squared error of the one output."""
    return {"mse": (outputs[..., 0] - y) ** 2}


SCORES: dict[str, Scores] = {"accuracy": classification, "mse": regression}


def macro_f1(logits: Array, y: Array) -> float:
    """Return the mean over labels, true or predicted ones, of F1 = 2 TP / (2 TP + FP + FN); logits (N, C), y (N,)."""
    guess = logits.argmax(1)
    both = np.unique(np.concatenate([y, guess]))
    hit, true, said = (_counts(v, both) for v in (y[guess == y], y, guess))
    return float((2 * hit / (true + said)).mean())


def balanced_accuracy(logits: Array, y: Array) -> float:
    """Return the mean over true labels of the share of their samples that are recognised."""
    guess, labels = logits.argmax(1), np.unique(y)
    return float((_counts(y[guess == y], labels) / _counts(y, labels)).mean())


def auc(logits: Array, y: Array) -> float:
    """Return the area under the ROC curve, one label against the rest: the mean over true labels c of P(p_c(a) > p_c(b))
    + P(p_c(a) = p_c(b)) / 2, a of label c and b of another, p the softmax; NaN where there is one label only.
    """
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    p = shifted / shifted.sum(1, keepdims=True)
    areas = []
    for label in np.unique(y):
        ours = y == label
        n, others = int(ours.sum()), int((~ours).sum())
        if others:
            _, place, ties = np.unique(p[:, label], return_inverse=True, return_counts=True)
            ranks = (np.cumsum(ties) - (ties - 1) / 2)[place]  # of equal ones the mean
            areas.append((ranks[ours].sum() - n * (n + 1) / 2) / (n * others))
    return float(np.mean(areas)) if areas else float("nan")


def _counts(values: Array, labels: Array) -> Array:
    return np.bincount(values, minlength=int(labels.max()) + 1)[labels]


MEASURES: dict[str, Callable[[Array, Array], float]] = {
    "macro_f1": macro_f1,
    "balanced_accuracy": balanced_accuracy,
    "auc": auc,
}
