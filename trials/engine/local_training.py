"""Local SGD, as it is asked for: which samples, by which rule, along what, of many clients' rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common.tensors import Tensor, torch
from trials.common.transfer import to_device
from trials.engine.direction import Affine, column
from trials.engine.plans import BatchPlan
from trials.models.base import Slot

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

    def training(
        self, start: Tensor, plan: BatchPlan, form: Affine, snapshot_steps: Array
    ) -> LocalTraining:
        """The steps along a form from `start` (k, d), with the weight decay in them."""
        every, none = np.arange(len(start)), np.arange(0)
        scale = column(form.scale, start)
        pull, shift = Term(none, start.new_empty(0, 1)), Term(none, start.new_empty(0, 0))
        if isinstance(form.pull, torch.Tensor) or form.pull or self.weight_decay:
            found = column(form.pull, start)
            if self.weight_decay:
                found = found + self.weight_decay * scale
            pull = Term(every, found[:, None])
        if isinstance(form.shift, torch.Tensor) or form.shift:
            values = to_device(torch.as_tensor(form.shift, dtype=start.dtype), start.device)
            shift = Term(every, values.expand_as(start).contiguous())
        return LocalTraining(
            start, plan, snapshot_steps, self.lr, Terms(self.momentum, scale, pull, shift)
        )


@dataclass(frozen=True)
class Term:
    """What is added in steps of `rows` (m,) alone, ascending, of k: their `values` (m, ...). A 0 for the others
    would be another thing, since 0 times an infinite weight is not 0. `at` are the rows on the device, once
    they are asked for.
    """

    rows: Array
    values: Tensor
    at: Tensor | None = None

    @classmethod
    def joined(cls, terms: Sequence[Term], counts: Sequence[int]) -> Term:
        """The terms' rows, concatenated; `counts` has the number of rows of each."""
        before = np.cumsum([0, *counts[:-1]])
        rows = [term.rows + first for term, first in zip(terms, before, strict=True)]
        values = [term.values for term in terms if len(term.rows)]
        return cls(np.concatenate(rows), torch.cat(values) if values else terms[0].values)

    def of(self, members: Array) -> Term:
        """The same of `members` (a,) of the rows, by their place among these."""
        if not len(self.rows):
            return self
        place = np.searchsorted(self.rows, members)
        there = np.append(self.rows, -1)[place] == members
        rows, device = np.flatnonzero(there), self.values.device
        return Term(rows, self.values[to_device(place[there], device)], to_device(rows, device))

    def add(self, along: Tensor, by: float | Tensor, factor: Tensor | None = None) -> None:
        """Add by * values (* factor) to the first rows (a, d) in place, with `by` a number or (a, 1)."""
        count = int(np.searchsorted(self.rows, len(along)))
        values = self.values[:count]
        if count == len(along):
            along.add_(by * values if factor is None else by * values * factor)
        elif count and self.at is not None:
            at = self.at[:count]
            by = by[at] if isinstance(by, torch.Tensor) else by
            along[at] += by * values if factor is None else by * values * factor[at]


@dataclass(frozen=True)
class Terms:
    """What steps of k rows add up: v <- momentum v + scale g + pull w + shift, w <- w - lr v.

    `scale` is (k,); `pull` has values (m, 1), `shift` (m, d).
    """

    momentum: float
    scale: Tensor
    pull: Term
    shift: Term

    def of(self, members: Array, ids: Tensor) -> Terms:
        """The same of some of the rows, `ids` on the device."""
        return Terms(self.momentum, self.scale[ids], self.pull.of(members), self.shift.of(members))

    def step(
        self,
        w: Tensor,
        parts: list[Tensor],
        layout: list[Slot],
        rate: float | Tensor,
        v: Tensor | None,
    ) -> None:
        """A step of the first rows, on weights w (a, d) and momentum v (a, d) in place, from the gradients
        of one parameter after the other, (a, size) each, at one rate or (a, 1).
        """
        along, by = (w, -rate) if v is None else (v.mul_(self.momentum), 1.0)
        self.pull.add(along, by, w)
        self.shift.add(along, by)
        by = by * self.scale[: len(w), None]
        for slot, part in zip(layout, parts, strict=True):
            along[:, slot.start : slot.stop].addcmul_(part, by)
        if v is not None:
            w.sub_(rate * v)


@dataclass(frozen=True)
class LocalTraining:
    """Local SGD of k rows from `start` (k, d) on a plan, by `terms`, at one rate `lr` or (k, J). The weights
    after `marks` (k, E) steps each, ascending from 1, are wanted; 0 is no mark.
    """

    start: Tensor
    plan: BatchPlan
    snapshot_steps: Array
    lr: float | Tensor
    terms: Terms


def snapshots_due(
    snapshot_steps: Array, members: Array, steps: Array, device: torch.device
) -> dict[int, tuple[Tensor, Tensor]]:
    """Of `members` (a,) of k rows, which take `steps` (a,), those that reach one of their `marks` (k, E) with a
    step, by the number of steps after it: places among the members, and in a path (k E, d). A mark of 0 is
    none.
    """
    if not snapshot_steps.shape[1]:
        return {}
    snapshot_steps = snapshot_steps[members]
    row, mark = np.nonzero((snapshot_steps > 0) & (snapshot_steps <= steps[:, None]))
    after = snapshot_steps[row, mark]
    order = np.argsort(after, kind="stable")
    place = members[row] * snapshot_steps.shape[1] + mark
    found = to_device(np.stack([row, place])[:, order], device)
    stops, first = np.unique(after[order], return_index=True)
    last = [*first[1:], len(order)]
    return {
        int(stop): (found[0, a:b], found[1, a:b])
        for stop, a, b in zip(stops, first, last, strict=True)
    }


def rate_of(lr: float | Tensor, rows: Tensor | slice, step: int) -> float | Tensor:
    """The rates of `rows` (a,) at a step: one number, or (a, 1)."""
    return lr if isinstance(lr, float | int) else lr[rows, step, None]
