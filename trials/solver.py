"""The local solver: minibatch plans, and SGD of many clients at once, in one of three executions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from trials import randomness
from trials.course import SGD, Course, Plan, rate_of
from trials.direction import Direction, affine
from trials.errors import UserError
from trials.federated_data import FederatedData, Samples
from trials.models.base import Model
from trials.scores import Scores
from trials.settings import Settings
from trials.tensors import Tensor, torch

Array = npt.NDArray[Any]
Move = Callable[[Tensor, list[Tensor], Tensor, int, Tensor | None], None]
"""`move(w, parts, rows, step, v)`: a step of `rows` (a,), counted from 0, on weights w (a, d) and
momentum v (a, d) in place; `parts` are gradients (a, size), one a parameter."""
BLOCK = 512
"""Samples on which one model is evaluated at a time."""
EXECUTIONS = ("compiled", "batched", "sequential")
"""The ways to compute; they agree up to rounding."""


def execution(model: Model, settings: Settings, device: torch.device) -> str:
    """How a run is computed: as the settings say, else in the fastest way there is. Models that
    cannot be computed for many clients at once are computed one after the other, whatever is asked.

    Raises `UserError` for `compiled` where a model, loss or device does not have it.
    """
    architecture, known = model.architecture, ["sequential"]
    minibatch = math.inf if settings.batch_size == "full" else settings.batch_size
    if architecture.batchable:
        faster = device.type != "cpu" or minibatch <= architecture.batched_up_to
        known.insert(0 if faster else 1, "batched")
    plain = architecture.linear and not model.mixed
    if plain and device.type == "cpu" and find_spec("numba"):
        from trials import compiled

        known = ["compiled", *known] if model.loss in compiled.SLOPES else known
    if settings.execution == "compiled" and known[0] != "compiled":
        raise UserError(
            "execution is compiled, which is for linear models, any loss but two_sided, on a CPU with "
            f"numba; leave it out, or use {' or '.join(known)}"
        )
    return settings.execution if settings.execution in known else known[0]


def joins(model: Model, execution: str, device: torch.device) -> bool:
    """Whether rows of several runs may be computed in one call, so that a CPU changes no bit."""
    return execution == "batched" and (model.architecture.exact_rows or device.type != "cpu")


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


class Solver:
    """Runs plans on a model and samples x (N, *shape), y (N,), in one of three executions.

    Batched: `chunk` clients at a time as one tensor program (all by default), sorted by step count,
    so that those that are done stop costing. Sequential: one after the other on its real samples
    only; the others' oracle. Compiled: as batched, but SGD of a linear model is one compiled loop
    wherever a step has a form it knows (`trials.direction.Affine`, no clipping).
    """

    def __init__(
        self, model: Model, x: Samples, y: Tensor, execution: str, chunk: int | None = None
    ) -> None:
        self.model, self.x, self.y = model, x, y
        self.execution, self.sequential = execution, execution == "sequential"
        self.chunk = 1 if self.sequential else chunk

    def minibatches(
        self,
        data: FederatedData,
        ids: Array,
        steps: Array,
        batch_size: int | str,
        words: tuple[int, ...],
    ) -> Plan:
        """The module's `minibatches`."""
        return minibatches(data, ids, steps, batch_size, words)

    def initial(self, ids: Array, seed: int) -> Array:
        """The model's `initial`."""
        return self.model.initial(ids, seed)

    def sgd(
        self,
        start: Tensor,
        plan: Plan,
        rule: SGD,
        direction: Direction,
        aligned: dict[str, Tensor],
        marks: Array | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The plan's steps by `rule` from `start` (k, d).

        `aligned` tensors (k, ...) reach `direction` with the rows they belong to. Returns the end
        points (k, d), the mean over all steps of the minibatch loss, (), and the weights after
        `marks` (k, E) steps each, ascending from 1, (k, E, d).
        """
        marks = np.zeros((len(start), 0), np.int64) if marks is None else marks
        form = affine(direction, aligned) if rule.clip_norm is None else None
        if form is None:
            move = self._any_move(rule, direction, aligned)
            w, losses, path = self._descend(start, plan, marks, move, bool(rule.momentum))
        else:
            w, losses, path = self.follow(rule.course(start, plan, form, marks))
        return w, losses.sum().to(w) / int(plan.steps.sum()), path

    def follow(self, course: Course) -> tuple[Tensor, Tensor, Tensor]:
        """A course's end points (k, d), the sum over all steps of each row's loss, (k,), or compiled
        (1,) of all, and the weights at its marks (k, E, d).
        """
        if self.execution == "compiled":
            return self._compiled(course)
        move = self._affine_move(course)
        return self._descend(course.start, course.plan, course.marks, move, bool(course.momentum))

    def _descend(
        self, start: Tensor, plan: Plan, marks: Array, move: Move, momentum: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`follow`, by a step of any kind."""
        path = start.new_empty(*marks.shape, start.shape[1])
        w, losses = torch.empty_like(start), start.new_empty(len(start))
        for group in self._groups(plan.steps):
            ends = torch.from_numpy(marks).to(group.device)[group]
            at, lost = start[group], start.new_zeros(len(group))
            v = torch.zeros_like(at) if momentum else None
            for rows, j, x, y, weight in self._batches(plan, group):
                now, ids = at[rows], group[rows]
                found, parts = self._gradients(now, x, y, weight)
                lost[rows] += found
                move(now, parts, ids, j, None if v is None else v[rows])
                for e in range(marks.shape[1]):
                    reached = ends[rows, e] == j + 1
                    path[ids[reached], e] = now[reached]
            w[group], losses[group] = at, lost
        return w, losses, path

    def _any_move(self, rule: SGD, direction: Direction, aligned: dict[str, Tensor]) -> Move:
        """A step along any direction, on gradients in one piece."""

        def move(w: Tensor, parts: list[Tensor], ids: Tensor, j: int, v: Tensor | None) -> None:
            g = torch.cat(parts, -1)
            if rule.weight_decay:
                g = g.add_(w, alpha=rule.weight_decay)
            step = direction(w, g, **{name: value[ids] for name, value in aligned.items()})
            step = rule.clipped(step)
            if v is not None:
                step = v.mul_(rule.momentum).add_(step)
            w.sub_(rate_of(rule.lr, ids, j) * step)

        return move

    def _affine_move(self, course: Course) -> Move:
        """A course's step, on the gradients of one parameter after the other."""
        scale, pull, shift = course.scale, course.pull, course.shift
        pulled, layout = bool(pull.any()), self.model.layout

        def move(w: Tensor, parts: list[Tensor], ids: Tensor, j: int, v: Tensor | None) -> None:
            rate = rate_of(course.lr, ids, j)
            along, by = (w, -rate) if v is None else (v.mul_(course.momentum), 1.0)
            if pulled:
                along.add_(by * pull[ids, None] * w)
            if len(shift):
                along.add_(by * shift[ids])
            by = by * scale[ids, None]
            for slot, part in zip(layout, parts, strict=True):
                along[:, slot.start : slot.stop].addcmul_(part, by)
            if v is not None:
                w.sub_(rate * v)

        return move

    def _compiled(self, course: Course) -> tuple[Tensor, Tensor, Tensor]:
        """`follow` as one compiled loop, mark after mark."""
        from trials import compiled

        plan, marks = course.plan, course.marks
        w = course.start.clone(memory_format=torch.contiguous_format)
        path = w.new_empty(*marks.shape, w.shape[1])
        v = torch.zeros_like(w) if course.momentum else w.new_empty(0, 0)
        lr = torch.as_tensor(course.lr, dtype=w.dtype)
        lr = lr.contiguous() if lr.dim() else lr.reshape(1, 1)
        x, y, samples = self.x.matrix(self.y, plan.samples)
        of = compiled.Samples(x.numpy(), y.numpy(), compiled.SLOPES[self.model.loss])
        weight = plan.weight.astype(w.numpy().dtype)
        affine = course.scale.numpy(), course.pull.numpy(), course.shift.numpy()
        follows = compiled.Rule(*affine, course.momentum, v.numpy())
        total, done = 0.0, np.zeros_like(plan.steps)
        for e, stop in enumerate([*marks.T, plan.steps]):
            steps = compiled.Steps(samples, weight, done, stop, lr.numpy())
            total += compiled.sgd(w.numpy(), of, steps, follows)
            done = stop
            if e < marks.shape[1]:
                path[:, e] = w
        return w, torch.tensor([total], dtype=torch.float64), path

    def _compiled_gradient(self, w: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """`gradient` by the same loop: with momentum 1 and steps of length 0, v adds up gradients."""
        from trials import compiled

        g, at = torch.zeros_like(w, memory_format=torch.contiguous_format).numpy(), w.numpy()
        x, y, samples = self.x.matrix(self.y, plan.samples)
        none = np.zeros((0, 0), g.dtype)
        rows = len(g)
        total = compiled.sgd(
            at.copy(),
            compiled.Samples(x.numpy(), y.numpy(), compiled.SLOPES[self.model.loss]),
            compiled.Steps(
                samples,
                plan.weight.astype(g.dtype),
                np.zeros_like(plan.steps),
                plan.steps,
                np.zeros((1, 1), g.dtype),
            ),
            compiled.Rule(np.ones(rows, g.dtype), np.zeros(rows, g.dtype), none, 1.0, g),
        )
        return torch.from_numpy(g), torch.tensor([total], dtype=torch.float64)

    def gradient(self, w: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Sum over a plan of the gradients at w (k, d): with `full_pass`, those of F_k, (k, d).

        Also returns the mean over rows of F_k, ().
        """
        g, losses = self.slopes(w, plan)
        return g, losses.sum().to(w) / len(w)

    def slopes(self, w: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """The gradients of `gradient` (k, d), and each row's loss (k,), or compiled (1,) of all."""
        if self.execution == "compiled":
            return self._compiled_gradient(w, plan)
        found, losses = torch.empty_like(w), w.new_empty(len(w))
        for group in self._groups(plan.steps):
            at, lost = w[group], w.new_zeros(len(group))
            g = torch.zeros_like(at)
            for rows, _, x, y, weight in self._batches(plan, group):
                values, parts = self._gradients(at[rows], x, y, weight)
                g[rows] += torch.cat(parts, -1)
                lost[rows] += values
            found[group], losses[group] = g, lost
        return found, losses

    def score(self, w: Tensor, plan: Plan, scores: Scores) -> Tensor:
        """Weighted mean over a plan of the first of `scores` at w (k, d), (k,)."""
        found = w.new_zeros(len(w))
        for group in self._groups(plan.steps):
            at, sums = w[group], w.new_zeros(len(group))
            for rows, _, x, y, weight in self._batches(plan, group):
                one = rows.start if self.sequential else rows
                ranked, *_ = scores(self.model.logits(at[one], x), y).values()
                sums[one] += (ranked * weight).sum(-1)
            found[group] = sums
        return found

    def evaluate(self, w: Tensor, ids: Array, scores: Scores) -> dict[str, Tensor]:
        """Mean scores and mean loss on samples `ids`: () for w (d,), (k,) for w (k, d)."""
        if w.dim() == 1 and self.by_rows:
            return {name: value[0] for name, value in self.rated(w[None], ids, scores).items()}
        if w.dim() == 2 and self.sequential:
            each = [self.evaluate(row, ids, scores) for row in w]
            return {metric: torch.stack([one[metric] for one in each]) for metric in each[0]}
        rows = w.shape[:-1]
        return self._means(w, ids, scores, max(1, 32768 // (rows.numel() + 63)))

    @property
    def by_rows(self) -> bool:
        """Whether one model is evaluated as a row of many, whatever others are evaluated with it."""
        return joins(self.model, self.execution, self.x.device)

    def rated(self, w: Tensor, ids: Array, scores: Scores) -> dict[str, Tensor]:
        """`evaluate` of w (k, d), each row computed as if it were alone."""
        return self._means(w, ids, scores, BLOCK, apart=True)

    def _means(
        self, w: Tensor, ids: Array, scores: Scores, width: int, apart: bool = False
    ) -> dict[str, Tensor]:
        """`evaluate` in blocks of `width` samples, of which each row has a copy of its own if `apart`."""
        rows, total = w.shape[:-1], dict[str, Tensor]()
        for block in torch.from_numpy(ids).to(self.x.device).split(width):
            x, y = self.x[block], self.y[block].expand(*rows, -1)
            x = x.expand(*rows, *x.shape)
            outputs = self.model.logits(w, x.contiguous() if apart else x)
            values = {**scores(outputs, y), "loss": self.model.loss(outputs, y)}
            for metric, value in values.items():
                total[metric] = total.get(metric, 0) + value.sum(-1, dtype=torch.float64)
        return {metric: value / len(ids) for metric, value in total.items()}

    def _groups(self, steps: Array) -> Sequence[Tensor]:
        """Clients that are computed together, most steps first: index tensors."""
        order = torch.from_numpy(np.argsort(-steps, kind="stable")).to(self.x.device)
        return order.split(self.chunk or len(order))

    def _batches(
        self, plan: Plan, group: Tensor
    ) -> Iterator[tuple[slice, int, Tensor, Tensor, Tensor]]:
        """(rows, step, x, y, weight) of each step of a group; rows count within the group."""
        members = group.cpu().numpy()
        steps = plan.steps[members]
        samples = torch.from_numpy(plan.samples[members]).to(self.x.device)
        weight = torch.from_numpy(plan.weight[members]).to(self.x.device, self.x.dtype)
        for j in range(int(steps[0])):
            if self.sequential:
                width = int((plan.weight[members[0], j] > 0).sum())
                real, share = samples[0, j, :width], weight[0, j, :width]
                yield slice(0, 1), j, self.x[real], self.y[real], share
            else:
                active = int(np.searchsorted(-steps, -j))
                batch = samples[:active, j]
                yield slice(0, active), j, self.x[batch], self.y[batch], weight[:active, j]

    def _gradients(
        self, w: Tensor, x: Tensor, y: Tensor, weight: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Losses (a,) and, of each slot of the layout, gradients (a, size)."""
        if not self.sequential:
            return self.model.gradient_parts(w, x, y, weight)
        loss, parts = self.model.gradient_parts(w[0], x, y, weight)
        return loss, [part.unsqueeze(0) for part in parts]


def _counts_up(lengths: Array) -> Array:
    """0..l-1 for each length l, one after the other: [2, 3] -> [0, 1, 0, 1, 2]."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
