"""Local SGD, as it is asked for: which samples, by which rule, along what, of many clients' rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from trials.direction import Affine, column
from trials.plans import Plan
from trials.tensors import Tensor, torch
from trials.transfer import sent

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SGD:
    """How a step is taken: v <- momentum v + clipped(direction(w, g + weight_decay w)), w <- w - lr v.

    `lr` is one number, or (k, J): of each row and step. A direction longer than `clip_norm` is cut
    to that length. v starts at 0.
    """

    lr: float | Tensor
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None

    def clipped(self, g: Tensor) -> Tensor:
        """Rows g (k, d), none longer than `clip_norm`."""
        if self.clip_norm is None:
            return g
        return g * (self.clip_norm / g.norm(dim=1, keepdim=True)).clamp(max=1.0)

    def course(self, start: Tensor, plan: Plan, form: Affine, marks: Array) -> Course:
        """The steps along a form from `start` (k, d), with the weight decay in them."""
        scale = column(form.scale, start)
        pull = column(form.pull, start)
        if self.weight_decay:
            pull = pull + self.weight_decay * scale
        pulled = isinstance(form.pull, torch.Tensor) or bool(form.pull or self.weight_decay)
        shift = start.new_empty(0, 0)
        if isinstance(form.shift, torch.Tensor) or form.shift:
            shift = sent(torch.as_tensor(form.shift), start.device, start.dtype)
            shift = shift.expand_as(start).contiguous()
        return Course(start, plan, marks, self.lr, self.momentum, scale, pull, pulled, shift)


@dataclass(frozen=True)
class Course:
    """Local SGD of k rows whose steps are v <- momentum v + scale g + pull w + shift, w <- w - lr v.

    `lr` is one number, or (k, J); `scale` and `pull` are (k,), the pull 0 unless `pulled`; `shift` is (k, d), or (0, 0)
    where there is none. The weights after `marks` (k, E) steps each, ascending from 1, are wanted.
    """

    start: Tensor
    plan: Plan
    marks: Array
    lr: float | Tensor
    momentum: float
    scale: Tensor
    pull: Tensor
    pulled: bool
    shift: Tensor


def rate_of(lr: float | Tensor, rows: Tensor, step: int) -> float | Tensor:
    """The rates of `rows` (a,) at a step: one number, or (a, 1)."""
    return lr if isinstance(lr, float | int) else lr[rows, step, None]
