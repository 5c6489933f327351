"""Losses of logits, one value a sample. A new one is a function and an entry of `LOSSES`."""

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

Loss = Callable[[Tensor, Tensor], Tensor]
"""Logits (..., C) and labels (...) -> losses (...)."""


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """-ln p_y, p = softmax(logits)."""
    flat = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none")
    return flat.view(y.shape)


def two_sided(logits: Tensor, y: Tensor) -> Tensor:
    """-ln p_y - sum_{c != y} ln(1 - p_c), p = softmax(logits): SAFL (27).

    1 - p_c is the sum of the other classes' probabilities, so that it never rounds to 0.
    """
    classes = logits.shape[-1]
    itself = torch.eye(classes, dtype=torch.bool, device=logits.device)
    others = logits.unsqueeze(-2).masked_fill(itself, -torch.inf).logsumexp(-1)
    log_rest = others - logits.logsumexp(-1, keepdim=True)
    label = F.one_hot(y, classes).bool()
    return cross_entropy(logits, y) - log_rest.masked_fill(label, 0.0).sum(-1)


LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "two_sided": two_sided}
