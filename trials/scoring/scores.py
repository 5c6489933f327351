"""What models are scored by, one value a sample; keyed by the metric that a task is ranked by."""

from collections.abc import Callable

from trials.common.tensors import Tensor

Scores = Callable[[Tensor, Tensor], dict[str, Tensor]]
"""Outputs (..., C) and targets (...) -> values (...) by metric, the ranked one first."""


def classification(logits: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Whether the likeliest class is right and, above 5 classes, whether one of the likeliest 5 is."""
    best = logits.topk(min(5, logits.shape[-1]), dim=-1).indices == y[..., None]
    first = {"accuracy": best[..., 0]}
    return {**first, "top5_accuracy": best.any(-1)} if logits.shape[-1] > 5 else first


def regression(outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Squared error of the one output."""
    return {"mse": (outputs[..., 0] - y) ** 2}


SCORES: dict[str, Scores] = {"accuracy": classification, "mse": regression}
