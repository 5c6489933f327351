"""Losses of a model's outputs, one value per sample. A new one is a function, listed in `_ALL` and `OF_METRIC`."""

from collections.abc import Callable

from trials.common.errors import UserError
from trials.common.tensors import F, Tensor, torch

Loss = Callable[[Tensor, Tensor], Tensor]  # logits (..., C) and labels (...) -> losses (...)


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return each sample's cross-entropy -ln p_y, where p = softmax(logits). Logits (..., C) give losses (...)."""
    flat = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none")
    return flat.view(y.shape)


def two_sided(logits: Tensor, y: Tensor) -> Tensor:
    """Return each sample's loss -ln p_y - sum_{c != y} ln(1 - p_c), where p = softmax(logits): SAFL, equation (27)."""
    # For the most probable class 1 - p_c could round to 0, so it is computed as the sum of the others' p.
    classes = logits.shape[-1]
    top = F.one_hot(logits.argmax(-1), classes).bool()
    below = logits.masked_fill(top, -torch.inf).logsumexp(-1, keepdim=True)
    p = torch.softmax(logits, -1).masked_fill(top, 0.0)
    log_rest = torch.where(top, below - logits.logsumexp(-1, keepdim=True), torch.log1p(-p))
    label = F.one_hot(y, classes).bool()
    return cross_entropy(logits, y) - log_rest.masked_fill(label, 0.0).sum(-1)


def squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    """Return each sample's squared error (z - y)^2. Outputs z (..., 1) give losses (...)."""
    return (outputs[..., 0] - y) ** 2


def half_squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    """Return half of each sample's squared error (z - y)^2. The gradient in the output z is then z - y."""
    return squared_error(outputs, y) / 2


_ALL = (cross_entropy, two_sided, squared_error, half_squared_error)
LOSSES: dict[str, Loss] = {loss.__name__: loss for loss in _ALL}
OF_METRIC = {
    "accuracy": ("cross_entropy", "two_sided"),
    "mse": ("squared_error", "half_squared_error"),
}
"""The losses of a task, by the task's ranked metric; the default first."""


def resolve(name: str | None, metric: str) -> Loss:
    """Return a task's loss by name (None: the default). `metric` is the task's ranked metric. Raise `UserError` for another task's loss."""
    losses = OF_METRIC[metric]
    if name is not None and name not in losses:
        rule = f"{' or '.join(losses)} are"
        raise UserError(f"loss {name} is not for data ranked by {metric}: {rule}")
    return LOSSES[name or losses[0]]
