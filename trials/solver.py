"""The local solver: minibatch plans, and SGD of many clients as one batched tensor program."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trials import randomness
from trials.federated_data import FederatedData
from trials.models import Model
from trials.scores import Scores

Array = npt.NDArray[Any]
Direction = Callable[..., Tensor]
"""`direction(w, g, **rows) -> (k, d)`: what a step follows, from weights and gradients (k, d)."""
Watch = Callable[[Tensor, int, Tensor], None]
"""`watch(rows, step, w)`: rows (a,) have weights w (a, d) after a step, counted from 0."""


@dataclass(frozen=True)
class Plan:
    """Which samples each of k rows meets at each step.

    `samples` (k, J, B) indexes the data set; `weight` (k, J, B) is each sample's share in its loss
    and 0 for padding, which comes last; row i has `steps[i]` <= J steps.
    """

    samples: Array
    weight: Array
    steps: Array


def steps_per_epoch(sizes: Array, batch_size: int | str) -> Array:
    """Minibatches in one pass, ceil(m_k / B), the last short one kept; 1 for full batches."""
    return np.ones_like(sizes) if batch_size == "full" else -(-sizes // int(batch_size))


def minibatches(
    data: FederatedData, ids: Array, steps: Array, batch_size: int | str, words: tuple[int, ...]
) -> Plan:
    """`steps` (k,) minibatches for clients `ids` (k,): each pass over a client's data in a new
    order, a function of (`words`, client, pass) alone; a minibatch weighs its samples equally.
    """
    sizes = data.sizes[ids]
    width = int(sizes.max()) if batch_size == "full" else min(int(batch_size), int(sizes.max()))
    per_epoch = steps_per_epoch(sizes, batch_size)
    passes = -(-steps // per_epoch)
    row = np.repeat(np.arange(len(ids)), passes)
    epoch = _counts_up(passes)
    segment = np.repeat(np.arange(len(row)), sizes[row])
    position = _counts_up(sizes[row])
    key = randomness.bits("order", *words, ids[row][segment], epoch[segment], position)
    shuffled = position[
        np.argsort((segment.astype(np.uint64) << np.uint64(40)) | (key >> np.uint64(24)))
    ]
    row = row[segment]
    step = epoch[segment] * per_epoch[row] + position // width
    kept = step < steps[row]
    row, step, slot = row[kept], step[kept], position[kept] % width
    samples = np.zeros((len(ids), int(steps.max()), width), np.int64)
    real = np.zeros(samples.shape, bool)
    samples[row, step, slot] = data.train[data.offsets[ids[row]] + shuffled[kept]]
    real[row, step, slot] = True
    return Plan(samples, real / np.maximum(real.sum(-1, keepdims=True), 1), steps)


def full_pass(data: FederatedData, ids: Array, width: int = 256) -> Plan:
    """All samples of clients `ids` in blocks, each weighing 1 / m_k: gradients of F_k add up."""
    sizes = data.sizes[ids]
    width = min(width, int(sizes.max()))
    steps = -(-sizes // width)
    row, position = np.repeat(np.arange(len(ids)), sizes), _counts_up(sizes)
    samples = np.zeros((len(ids), int(steps.max()), width), np.int64)
    weight = np.zeros(samples.shape)
    where = (row, position // width, position % width)
    samples[where] = data.train[data.offsets[ids[row]] + position]
    weight[where] = 1 / sizes[row]
    return Plan(samples, weight, steps)


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


class Solver:
    """Runs plans on a model and samples x (N, *shape), y (N,), in either execution mode.

    Batched: all rows at once; rows are sorted by step count, so that those that are done stop
    costing. Sequential: one row after the other on its real samples only; the batched mode's oracle.
    """

    def __init__(self, model: Model, x: Tensor, y: Tensor, sequential: bool) -> None:
        self.model, self.x, self.y, self.sequential = model, x, y, sequential

    def sgd(
        self,
        start: Tensor,
        plan: Plan,
        rule: SGD,
        direction: Direction,
        aligned: dict[str, Tensor],
        watch: Watch | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The plan's steps by `rule` from `start` (k, d).

        `aligned` tensors (k, ...) reach `direction` with the rows they belong to. Returns the end
        points (k, d) and the mean over all steps of the minibatch loss, ().
        """
        order, back = self._order(plan.steps)
        w = start[order]
        aligned = {name: value[order] for name, value in aligned.items()}
        lr = rule.lr[order] if isinstance(rule.lr, Tensor) else rule.lr
        v = torch.zeros_like(w) if rule.momentum else None
        total = w.new_zeros(())
        for rows, j, x, y, weight in self._batches(plan, order):
            at = w[rows]
            losses, g = self._gradients(at, x, y, weight)
            total += losses.sum()
            if rule.weight_decay:
                g = g.add_(at, alpha=rule.weight_decay)
            step = direction(at, g, **{name: value[rows] for name, value in aligned.items()})
            step = rule.clipped(step)
            if v is not None:
                step = v[rows].mul_(rule.momentum).add_(step)
            if isinstance(lr, Tensor):
                at.sub_(step * lr[rows, j, None])
            else:
                at.sub_(step, alpha=lr)
            if watch is not None:
                watch(order[rows], j, at)
        return w[back], total / int(plan.steps.sum())

    def gradient(self, w: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Sum over a plan of the gradients at w (k, d): with `full_pass`, those of F_k, (k, d).

        Also returns the mean over rows of F_k, ().
        """
        order, back = self._order(plan.steps)
        w = w[order]
        g, total = torch.zeros_like(w), w.new_zeros(())
        for rows, _, x, y, weight in self._batches(plan, order):
            losses, part = self._gradients(w[rows], x, y, weight)
            g[rows] += part
            total += losses.sum()
        return g[back], total / len(w)

    def score(self, w: Tensor, plan: Plan, scores: Scores) -> Tensor:
        """Weighted mean over a plan of the first of `scores` at w (k, d), (k,)."""
        order, back = self._order(plan.steps)
        w = w[order]
        found = w.new_zeros(len(w))
        for rows, _, x, y, weight in self._batches(plan, order):
            one = rows.start if self.sequential else rows
            ranked, *_ = scores(self.model.logits(w[one], x), y).values()
            found[one] += (ranked * weight).sum(-1)
        return found[back]

    def _order(self, steps: Array) -> tuple[Tensor, Tensor]:
        order = np.argsort(-steps, kind="stable")
        tensor = torch.from_numpy(order).to(self.x.device)
        return tensor, torch.argsort(tensor)

    def _batches(
        self, plan: Plan, order: Tensor
    ) -> Iterator[tuple[slice, int, Tensor, Tensor, Tensor]]:
        """(rows, step, x, y, weight) of each step; rows count from the one with the most steps."""
        by_steps = order.cpu().numpy()
        steps = plan.steps[by_steps]
        samples = torch.from_numpy(plan.samples[by_steps]).to(self.x.device)
        weight = torch.from_numpy(plan.weight[by_steps]).to(self.x)
        if self.sequential:
            widths = (plan.weight[by_steps] > 0).sum(-1)
            for i in range(len(steps)):
                for j in range(steps[i]):
                    real = samples[i, j, : widths[i, j]]
                    share = weight[i, j, : widths[i, j]]
                    yield slice(i, i + 1), j, self.x[real], self.y[real], share
        else:
            for j in range(int(steps[0])):
                active = int(np.searchsorted(-steps, -j))
                batch = samples[:active, j]
                yield slice(0, active), j, self.x[batch], self.y[batch], weight[:active, j]

    def _gradients(self, w: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        if not self.sequential:
            return self.model.gradients(w, x, y, weight)
        loss, g = self.model.gradients(w[0], x, y, weight)
        return loss, g.unsqueeze(0)


def _counts_up(lengths: Array) -> Array:
    """0..l-1 for each length l, one after the other: [2, 3] -> [0, 1, 0, 1, 2]."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
