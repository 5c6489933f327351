"""The local solver: minibatch plans, and SGD of many clients at once, in one of three executions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from trials import randomness
from trials.direction import Affine, Direction, affine, column
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
EXECUTIONS = ("compiled", "batched", "sequential")
"""The ways to compute; they agree up to rounding."""


def executions(model: Model, settings: Settings, device: torch.device) -> list[str]:
    """The ways there are to compute a run, the one first that is fastest by what was measured on CPUs:
    on a GPU `trials.calibration` measures.
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
    return known


def execution(model: Model, settings: Settings, device: torch.device) -> str:
    """How a run is computed: as the settings say, else in the first way there is. Models that cannot
    be computed for many clients at once are computed one after the other, whatever is asked.

    Raises `UserError` for `compiled` where a model, loss or device does not have it.
    """
    known = executions(model, settings, device)
    if settings.execution == "compiled" and known[0] != "compiled":
        raise UserError(
            "execution is compiled, which is for linear models, any loss but two_sided, on a CPU with "
            f"numba; leave it out, or use {' or '.join(known)}"
        )
    return settings.execution if settings.execution in known else known[0]


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

    def rate(self, rows: Tensor, step: int) -> float | Tensor:
        """The rates of `rows` (a,) at a step: one number, or (a, 1)."""
        return self.lr if isinstance(self.lr, float | int) else self.lr[rows, step, None]

    def coefficients(self, form: Affine, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """scale (k,), pull (k,), weight decay in it, and shift (k, d), or (0, 0) where there is none,
        of clients with weights like `like` (k, d).
        """
        scale = column(form.scale, like)
        pull = column(form.pull, like) + self.weight_decay * scale
        shift = like.new_empty(0, 0)
        if isinstance(form.shift, torch.Tensor) or form.shift:
            shift = torch.as_tensor(form.shift).to(like).expand_as(like).contiguous()
        return scale, pull, shift


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
        path = start.new_empty(*marks.shape, start.shape[1])
        form = affine(direction, aligned) if rule.clip_norm is None else None
        if form is None:
            move = self._any_move(rule, direction, aligned)
        elif self.execution == "compiled":
            w, total = self._compiled(start, plan, rule, form, marks, path)
            return w, total / int(plan.steps.sum()), path
        else:
            move = self._affine_move(start, rule, form)
        w, total = torch.empty_like(start), start.new_zeros(())
        for group in self._groups(plan.steps):
            ends = torch.from_numpy(marks).to(group.device)[group]
            at = start[group]
            v = torch.zeros_like(at) if rule.momentum else None
            for rows, j, x, y, weight in self._batches(plan, group):
                now, ids = at[rows], group[rows]
                losses, parts = self._gradients(now, x, y, weight)
                total += losses.sum()
                move(now, parts, ids, j, None if v is None else v[rows])
                for e in range(marks.shape[1]):
                    reached = ends[rows, e] == j + 1
                    path[ids[reached], e] = now[reached]
            w[group] = at
        return w, total / int(plan.steps.sum()), path

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
            w.sub_(rule.rate(ids, j) * step)

        return move

    def _affine_move(self, like: Tensor, rule: SGD, form: Affine) -> Move:
        """A step along scale g + pull w + shift, on the gradients of one parameter after the other."""
        scale, pull, shift = rule.coefficients(form, like)
        pulled, layout = bool(pull.any()), self.model.layout

        def move(w: Tensor, parts: list[Tensor], ids: Tensor, j: int, v: Tensor | None) -> None:
            rate = rule.rate(ids, j)
            along, by = (w, -rate) if v is None else (v.mul_(rule.momentum), 1.0)
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

    def _compiled(
        self, start: Tensor, plan: Plan, rule: SGD, form: Affine, marks: Array, path: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`sgd` as one compiled loop, mark after mark; fills `path`. End points, sum of losses."""
        from trials import compiled

        w = start.clone(memory_format=torch.contiguous_format)
        scale, pull, shift = rule.coefficients(form, w)
        v = torch.zeros_like(w) if rule.momentum else w.new_empty(0, 0)
        lr = torch.as_tensor(rule.lr, dtype=w.dtype)
        lr = lr.contiguous() if lr.dim() else lr.reshape(1, 1)
        x, y, samples = self.x.matrix(self.y, plan.samples)
        of = compiled.Samples(x.numpy(), y.numpy(), compiled.SLOPES[self.model.loss])
        weight = plan.weight.astype(w.numpy().dtype)
        follows = compiled.Rule(
            scale.numpy(), pull.numpy(), shift.numpy(), rule.momentum, v.numpy()
        )
        stops = [*marks.T, plan.steps]
        total, done = 0.0, np.zeros_like(plan.steps)
        for e, stop in enumerate(stops):
            steps = compiled.Steps(samples, weight, done, stop, lr.numpy())
            total += compiled.sgd(w.numpy(), of, steps, follows)
            done = stop
            if e < marks.shape[1]:
                path[:, e] = w
        return w, w.new_tensor(total)

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
        return torch.from_numpy(g), w.new_tensor(total / rows)

    def gradient(self, w: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Sum over a plan of the gradients at w (k, d): with `full_pass`, those of F_k, (k, d).

        Also returns the mean over rows of F_k, ().
        """
        if self.execution == "compiled":
            return self._compiled_gradient(w, plan)
        found, total = torch.empty_like(w), w.new_zeros(())
        for group in self._groups(plan.steps):
            at = w[group]
            g = torch.zeros_like(at)
            for rows, _, x, y, weight in self._batches(plan, group):
                losses, parts = self._gradients(at[rows], x, y, weight)
                g[rows] += torch.cat(parts, -1)
                total += losses.sum()
            found[group] = g
        return found, total / len(w)

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
