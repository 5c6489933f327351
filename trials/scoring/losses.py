"""Losses of a model's outputs, one value a sample. A new one is a function, an entry of `LOSSES`, and
its name among those of a task.
"""

from collections.abc import Callable

from trials.common.errors import UserError
from trials.common.tensors import F, Tensor, torch

Loss = Callable[[Tensor, Tensor], Tensor]  # logits (..., C) and labels (...) -> losses (...)


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return -ln p_y, p = softmax(logits)."""
    flat = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none")
    return flat.view(y.shape)


def two_sided(logits: Tensor, y: Tensor) -> Tensor:
    """Return -ln p_y - sum_{c != y} ln(1 - p_c), p = softmax(logits): SAFL (27).

    For the likeliest class 1 - p_c is the sum of the others' probabilities, so that it does not round
    to 0; no other p_c exceeds 1/2.
    """
    classes = logits.shape[-1]
    top = F.one_hot(logits.argmax(-1), classes).bool()
    below = logits.masked_fill(top, -torch.inf).logsumexp(-1, keepdim=True)
    p = torch.softmax(logits, -1).masked_fill(top, 0.0)
    log_rest = torch.where(top, below - logits.logsumexp(-1, keepdim=True), torch.log1p(-p))
    label = F.one_hot(y, classes).bool()
    return cross_entropy(logits, y) - log_rest.masked_fill(label, 0.0).sum(-1)


def squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    """Return (z - y)^2 of the one output z."""
    return (outputs[..., 0] - y) ** 2


def half_squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    """Return (z - y)^2 / 2, whose gradient in z is z - y."""
    return squared_error(outputs, y) / 2


_ALL = (cross_entropy, two_sided, squared_error, half_squared_error)
LOSSES: dict[str, Loss] = {loss.__name__: loss for loss in _ALL}
OF_METRIC = {
    "accuracy": ("cross_entropy", "two_sided"),
    "mse": ("squared_error", "half_squared_error"),
}
"""The losses of a task, by the metric it is ranked by; the default first."""


def resolve(name: str | None, metric: str) -> Loss:
    """Return the loss of a task ranked by `metric`; raise `UserError` when it is not one of that task's."""
    losses = OF_METRIC[metric]
    if name is not None and name not in losses:
        rule = f"{' or '.join(losses)} are"
        raise UserError(f"loss {name} is not for data ranked by {metric}: {rule}")
    return LOSSES[name or losses[0]]
