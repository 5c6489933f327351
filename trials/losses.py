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


LOSSES: dict[str, Loss] = {"cross_entropy": cross_entropy, "two_sided": two_sided}
