"""Scores of models: `SCORES` with one value per sample, and `MEASURES`, classification metrics of all samples together."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common.lazy import Lazy
from trials.common.tensors import Tensor

metrics: Any = Lazy("sklearn.metrics")
special: Any = Lazy("scipy.special")
stats: Any = Lazy("scipy.stats")
Array = npt.NDArray[Any]
Scores = Callable[[Tensor, Tensor], dict[str, Tensor]]
"""Outputs (..., C) and targets (...) -> values (...) by metric, the ranked one first."""


def classification(logits: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Return whether each sample's most probable class is right. With more than 5 classes, add whether one of the top 5 is right."""
    hits = logits.topk(min(5, logits.shape[-1]), dim=-1).indices == y[..., None]
    scores = {"accuracy": hits[..., 0]}
    return {**scores, "top5_accuracy": hits.any(-1)} if logits.shape[-1] > 5 else scores


def regression(outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Return "mse", the squared error (z - y)^2 of each sample, for outputs z (..., 1) and targets y (...)."""
    return {"mse": (outputs[..., 0] - y) ** 2}


SCORES: dict[str, Scores] = {"accuracy": classification, "mse": regression}


def macro_f1(logits: Array, y: Array) -> float:
    """Return the mean F1 = 2 TP / (2 TP + FP + FN) over all true or predicted labels. `logits` are (N, C), `y` (N,)."""
    return float(metrics.f1_score(y, logits.argmax(1), average="macro", zero_division=0.0))


def balanced_accuracy(logits: Array, y: Array) -> float:
    """Return the mean recall over all labels in `y`. Recall is the share of a label's samples that are predicted right."""
    labels = np.unique(y)
    return float(metrics.recall_score(y, logits.argmax(1), labels=labels, average="macro"))


def auc(logits: Array, y: Array) -> float:
    """Return the mean area under the ROC curve of each label in `y` against the rest; NaN if there is only one label.

    The area of label c is P(p_c(a) > p_c(b)) + P(p_c(a) = p_c(b)) / 2, where p = softmax(logits). Here a is a random sample
    of label c, and b a random sample of another label.
    """
    labels, p = np.unique(y), special.softmax(logits, axis=1)
    if len(labels) == 1:
        return float("nan")
    ranks = stats.rankdata(p, "average", axis=0)
    n = np.array([(y == label).sum() for label in labels])
    sums = np.array([ranks[y == label, label].sum() for label in labels])
    return float(np.mean((sums - n * (n + 1) / 2) / (n * (len(y) - n))))


MEASURES: dict[str, Callable[[Array, Array], float]] = {
    "macro_f1": macro_f1,
    "balanced_accuracy": balanced_accuracy,
    "auc": auc,
}
