"""Local SGD, as it is asked for: which samples, by which rule, along what, of many clients' rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.direction import Affine, column
from trials.models.base import Slot
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
        terms = Terms(self.momentum, scale, pull, pulled, shift)
        return Course(start, plan, marks, self.lr, terms)


@dataclass(frozen=True)
class Terms:
    """What steps of k rows add up: v <- momentum v + scale g + pull w + shift, w <- w - lr v.

    `scale` and `pull` are (k,). Rows are `pulled`, all or none, or those that (k,) says; a pull of 0 is another
    thing, since 0 times an infinite weight is not 0. `shift` is (k, d), or (0, 0) where there is none.
    """

    momentum: float
    scale: Tensor
    pull: Tensor
    pulled: bool | Tensor
    shift: Tensor

    def step(
        self,
        w: Tensor,
        parts: list[Tensor],
        layout: list[Slot],
        ids: Tensor | slice,
        rate: float | Tensor,
        v: Tensor | None,
    ) -> None:
        """A step of rows `ids` (a,) in place on weights w (a, d) and momentum v (a, d), from the gradients
        of one parameter after the other, (a, size) each, at one rate or (a, 1).
        """
        along, by = (w, -rate) if v is None else (v.mul_(self.momentum), 1.0)
        if isinstance(self.pulled, torch.Tensor):  # nothing is changed by -0.0
            pull = by * self.pull[ids, None] * w
            along.add_(pull.where(self.pulled[ids, None], -0.0))
        elif self.pulled:
            along.add_(by * self.pull[ids, None] * w)
        if self.shift.numel():
            along.add_(by * self.shift[ids])
        by = by * self.scale[ids, None]
        for slot, part in zip(layout, parts, strict=True):
            along[:, slot.start : slot.stop].addcmul_(part, by)
        if v is not None:
            w.sub_(rate * v)


@dataclass(frozen=True)
class Course:
    """Local SGD of k rows from `start` (k, d) on a plan, by `terms`, at one rate `lr` or (k, J). The weights
    after `marks` (k, E) steps each, ascending from 1, are wanted; 0 is no mark.
    """

    start: Tensor
    plan: Plan
    marks: Array
    lr: float | Tensor
    terms: Terms


def reached(
    marks: Array, members: Array, steps: Array, device: torch.device
) -> dict[int, tuple[Tensor, Tensor]]:
    """Of `members` (a,) of k rows, which take `steps` (a,), those that reach one of their `marks` (k, E) with a
    step, by the number of steps after it: places among the members, and in a path (k E, d). A mark of 0 is
    none.
    """
    if not marks.shape[1]:
        return {}
    marks = marks[members]
    row, mark = np.nonzero((marks > 0) & (marks <= steps[:, None]))
    after = marks[row, mark]
    order = np.argsort(after, kind="stable")
    place = members[row] * marks.shape[1] + mark
    found = sent(np.stack([row, place])[:, order], device)
    stops, first = np.unique(after[order], return_index=True)
    last = [*first[1:], len(order)]
    return {
        int(stop): (found[0, a:b], found[1, a:b])
        for stop, a, b in zip(stops, first, last, strict=True)
    }


def rate_of(lr: float | Tensor, rows: Tensor, step: int) -> float | Tensor:
    """The rates of `rows` (a,) at a step: one number, or (a, 1)."""
    return lr if isinstance(lr, float | int) else lr[rows, step, None]
