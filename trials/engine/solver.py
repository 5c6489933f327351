"""The local solver: SGD of many clients at once on a plan, in one of three executions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common import randomness
from trials.common.errors import UserError
from trials.common.tensors import Tensor, torch
from trials.common.transfer import to_device
from trials.engine.direction import Direction, affine
from trials.engine.local_training import SGD, LocalTraining, rate_of, snapshots_due
from trials.engine.plans import BatchPlan, minibatches
from trials.federated_data import FederatedData, Samples
from trials.models.base import Model
from trials.scoring.scores import Scores
from trials.settings import Settings

Array = npt.NDArray[Any]
Move = Callable[[Tensor, list[Tensor], slice, int, Tensor | None], None]
"""`move(w, parts, rows, step, v)`: a step, counted from 0, of the first rows of a group (a) on weights
w (a, d) and momentum v (a, d) in place; `parts` are gradients (a, size), one a parameter."""
BLOCK = 512
"""Samples on which one model is evaluated at a time."""
EXECUTIONS = ("compiled", "batched", "sequential")
"""The ways to compute; they agree up to rounding."""


def executions(model: Model, settings: Settings, device: torch.device) -> list[str]:
    """The ways there are to compute a run, the one first that is fastest by what was measured on CPUs:
    on a GPU `trials.sizing.calibration` measures.
    """
    architecture, known = model.architecture, ["sequential"]
    minibatch = math.inf if settings.batch_size == "full" else settings.batch_size
    if architecture.batchable:
        faster = device.type != "cpu" or minibatch <= architecture.batched_up_to
        known.insert(0 if faster else 1, "batched")
    plain = architecture.linear and not model.mixed
    if plain and device.type == "cpu" and find_spec("numba"):
        from trials.engine import compiled

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


def joins(model: Model, execution: str, device: torch.device) -> bool:
    """Whether rows of several runs may be computed in one call, so that a CPU changes no bit."""
    return execution == "batched" and (model.architecture.exact_rows or device.type != "cpu")


@dataclass(frozen=True)
class _Group:
    """Clients that are computed together, `members` of a plan (a,), and their part of it on the device.

    `drawn` are the `samples` to ask for, on the host where they are made on demand; `widths` (a, J) are
    the real ones of each minibatch, where one client is computed after the other.
    """

    members: Array
    ids: Tensor
    steps: Array
    drawn: Tensor | Array
    samples: Tensor
    weight: Tensor
    widths: Array | None


class Solver:
    """Runs plans on a model and samples x (N, *shape), y (N,), in one of three executions.

    Batched: `chunk` clients at a time as one tensor program (all by default), sorted by step count,
    so that those that are done stop costing. Sequential: one after the other on its real samples
    only; the others' oracle. Compiled: as batched, but SGD of a linear model is one compiled loop
    wherever a step has a form it knows (`trials.engine.direction.Affine`, no clipping).
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
    ) -> BatchPlan:
        """The module's `minibatches`."""
        return minibatches(data, ids, steps, batch_size, words)

    def initial(self, ids: Array, seed: int) -> Array:
        """The model's `initial`."""
        return self.model.initial(ids, seed)

    def sgd(
        self,
        start: Tensor,
        plan: BatchPlan,
        rule: SGD,
        direction: Direction,
        aligned: dict[str, Tensor],
        snapshot_steps: Array | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The plan's steps by `rule` from `start` (k, d).

        `aligned` tensors (k, ...) reach `direction` with the rows they belong to. Returns the end
        points (k, d), the mean over all steps of the minibatch loss, (), and the weights after
        `marks` (k, E) steps each, ascending from 1, (k, E, d).
        """
        snapshot_steps = (
            np.zeros((len(start), 0), np.int64) if snapshot_steps is None else snapshot_steps
        )
        form = affine(direction, aligned) if rule.clip_norm is None else None
        if form is None:
            moves = self._any_moves(rule, direction, aligned)
            w, losses, path = self._descend(start, plan, snapshot_steps, moves, bool(rule.momentum))
        else:
            w, losses, path = self.follow(rule.training(start, plan, form, snapshot_steps))
        return w, losses.sum().to(w) / int(plan.steps.sum()), path

    def follow(self, training: LocalTraining) -> tuple[Tensor, Tensor, Tensor]:
        """A course's end points (k, d), the sum over all steps of each row's loss, (k,), or compiled
        (1,) of all, and the weights at its marks (k, E, d).
        """
        if self.execution == "compiled":
            return self._compiled(training)
        moves, momentum = partial(self._affine_move, training), bool(training.terms.momentum)
        start, plan = training.start, training.plan
        return self._descend(start, plan, training.snapshot_steps, moves, momentum)

    def _descend(
        self,
        start: Tensor,
        plan: BatchPlan,
        snapshot_steps: Array,
        moves: Callable[[_Group], Move],
        momentum: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`follow`, by steps of any kind: those that `moves` gives for a group."""
        path = start.new_empty(*snapshot_steps.shape, start.shape[1])
        w, losses = torch.empty_like(start), start.new_empty(len(start))
        for group in self._groups(plan):
            at, lost = start[group.ids], start.new_zeros(len(group.ids))
            v = torch.zeros_like(at) if momentum else None
            move = moves(group)
            self._begin(plan, group, at)
            stops = snapshots_due(snapshot_steps, group.members, group.steps, self.x.device)
            for rows, j, x, y, weight in self._batches(group):
                now = at[rows]
                draw = self._draw(plan, group, j)
                found, parts = self._gradients(now, x, y, weight, draw)
                lost[rows] += found
                move(now, parts, rows, j, None if v is None else v[rows])
                if j + 1 in stops:
                    row, place = stops[j + 1]
                    path.view(-1, path.shape[-1])[place] = now[row]
            w[group.ids], losses[group.ids] = at, lost
        return w, losses, path

    def _any_moves(
        self, rule: SGD, direction: Direction, aligned: dict[str, Tensor]
    ) -> Callable[[_Group], Move]:
        """Steps along any direction, on gradients in one piece."""

        def moves(group: _Group) -> Move:
            def move(w: Tensor, parts: list[Tensor], rows: slice, j: int, v: Tensor | None) -> None:
                g, ids = torch.cat(parts, -1), group.ids[rows]
                if rule.weight_decay:
                    g = g.add_(w, alpha=rule.weight_decay)
                step = direction(w, g, **{name: value[ids] for name, value in aligned.items()})
                step = rule.clipped(step)
                if v is not None:
                    step = v.mul_(rule.momentum).add_(step)
                w.sub_(rate_of(rule.lr, ids, j) * step)

            return move

        return moves

    def _affine_move(self, training: LocalTraining, group: _Group) -> Move:
        """A course's step, on the gradients of one parameter after the other."""
        terms, lr = training.terms.of(group.members, group.ids), training.lr
        lr = lr[group.ids] if isinstance(lr, torch.Tensor) else lr

        def move(w: Tensor, parts: list[Tensor], rows: slice, j: int, v: Tensor | None) -> None:
            terms.step(w, parts, self.model.layout, rate_of(lr, rows, j), v)

        return move

    def _compiled(self, training: LocalTraining) -> tuple[Tensor, Tensor, Tensor]:
        """`follow` as one compiled loop, mark after mark."""
        from trials.engine import compiled

        plan, snapshot_steps, terms = training.plan, training.snapshot_steps, training.terms
        w = training.start.clone(memory_format=torch.contiguous_format)
        path = w.new_empty(*snapshot_steps.shape, w.shape[1])
        v = torch.zeros_like(w) if terms.momentum else w.new_empty(0, 0)
        lr = torch.as_tensor(training.lr, dtype=w.dtype)
        lr = lr.contiguous() if lr.dim() else lr.reshape(1, 1)
        x, y, samples = self.x.matrix(self.y, plan.samples)
        of = compiled.CompiledSamples(x.numpy(), y.numpy(), compiled.SLOPES[self.model.loss])
        weight = plan.weight.astype(w.numpy().dtype)
        pull = terms.pull.values[:, 0] if len(terms.pull.rows) else w.new_zeros(len(w))
        affine = terms.scale.numpy(), pull.numpy(), terms.shift.values.numpy()
        follows = compiled.Rule(*affine, terms.momentum, v.numpy())
        total, done = 0.0, np.zeros_like(plan.steps)
        # Each in one piece, as `plan.steps` is: for arrays of other kinds the loop is compiled anew.
        for e, stop in enumerate([*np.ascontiguousarray(snapshot_steps.T), plan.steps]):
            steps = compiled.Steps(samples, weight, done, stop, lr.numpy())
            total += compiled.sgd(w.numpy(), of, steps, follows)
            done = stop
            if e < snapshot_steps.shape[1]:
                path[:, e] = w
        return w, torch.tensor([total], dtype=torch.float64), path

    def _compiled_gradient(self, w: Tensor, plan: BatchPlan) -> tuple[Tensor, Tensor]:
        """`gradient` by the same loop: with momentum 1 and steps of length 0, v adds up gradients."""
        from trials.engine import compiled

        g, at = torch.zeros_like(w, memory_format=torch.contiguous_format).numpy(), w.numpy()
        x, y, samples = self.x.matrix(self.y, plan.samples)
        none = np.zeros((0, 0), g.dtype)
        rows = len(g)
        total = compiled.sgd(
            at.copy(),
            compiled.CompiledSamples(x.numpy(), y.numpy(), compiled.SLOPES[self.model.loss]),
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

    def gradient(self, w: Tensor, plan: BatchPlan) -> tuple[Tensor, Tensor]:
        """Sum over a plan of the gradients at w (k, d): with `full_pass`, those of F_k, (k, d).

        Also returns the mean over rows of F_k, ().
        """
        g, losses = self.gradients(w, plan)
        return g, losses.sum().to(w) / len(w)

    def gradients(self, w: Tensor, plan: BatchPlan) -> tuple[Tensor, Tensor]:
        """The gradients of `gradient` (k, d), and each row's loss (k,), or compiled (1,) of all."""
        if self.execution == "compiled":
            return self._compiled_gradient(w, plan)
        found, losses = torch.empty_like(w), w.new_empty(len(w))
        for group in self._groups(plan):
            at, lost = w[group.ids], w.new_zeros(len(group.ids))
            g = torch.zeros_like(at)
            self._begin(plan, group, at)
            for rows, _, x, y, weight in self._batches(group):
                values, parts = self._gradients(at[rows], x, y, weight)
                g[rows] += torch.cat(parts, -1)
                lost[rows] += values
            found[group.ids], losses[group.ids] = g, lost
        return found, losses

    def score(self, w: Tensor, plan: BatchPlan, scores: Scores) -> Tensor:
        """Weighted mean over a plan of the first of `scores` at w (k, d), (k,)."""
        found = w.new_zeros(len(w))
        for group in self._groups(plan):
            at, sums = w[group.ids], w.new_zeros(len(group.ids))
            for rows, _, x, y, weight in self._batches(group):
                one = rows.start if self.sequential else rows
                ranked, *_ = scores(self.model.logits(at[one], x), y).values()
                sums[one] += (ranked * weight).sum(-1)
            found[group.ids] = sums
        return found

    def evaluate(self, w: Tensor, ids: Array, scores: Scores) -> dict[str, Tensor]:
        """Mean scores and mean loss on samples `ids`: () for w (d,), (k,) for w (k, d)."""
        if w.dim() == 1 and self.by_rows:
            return {
                name: value[0] for name, value in self.scores_of_rows(w[None], ids, scores).items()
            }
        if w.dim() == 2 and self.sequential:
            each = [self.evaluate(row, ids, scores) for row in w]
            return {metric: torch.stack([one[metric] for one in each]) for metric in each[0]}
        rows = w.shape[:-1]
        return self._means(w, ids, scores, max(1, 32768 // (rows.numel() + 63)))

    @property
    def by_rows(self) -> bool:
        """Whether one model is evaluated as a row of many, whatever others are evaluated with it."""
        return joins(self.model, self.execution, self.x.device)

    def scores_of_rows(self, w: Tensor, ids: Array, scores: Scores) -> dict[str, Tensor]:
        """`evaluate` of w (k, d), each row computed as if it were alone."""
        return self._means(w, ids, scores, BLOCK, apart=True)

    def _means(
        self, w: Tensor, ids: Array, scores: Scores, width: int, apart: bool = False
    ) -> dict[str, Tensor]:
        """`evaluate` in blocks of `width` samples; if `apart`, each row has its own copy of them.

        Where a sample's outputs depend on its block, blocks are drawn by chance, the same ever: in the
        order of a data set that lies label by label each would have one label.
        """
        if len(ids) > width and not self.model.architecture.one_by_one:
            ids = randomness.generator("evaluation").permutation(ids)
        rows, total = w.shape[:-1], dict[str, Tensor]()
        for block in to_device(ids, self.x.device).split(width):
            x, y = self.x[block], self.y[block].expand(*rows, -1)
            x = x.expand(*rows, *x.shape)
            outputs = self.model.logits(w, x.contiguous() if apart else x)
            values = {**scores(outputs, y), "loss": self.model.loss(outputs, y)}
            for metric, value in values.items():
                total[metric] = total.get(metric, 0) + value.sum(-1, dtype=torch.float64)
        return {metric: value / len(ids) for metric, value in total.items()}

    def _groups(self, plan: BatchPlan) -> Iterator[_Group]:
        """Clients that are computed together, most steps first. The plan is copied to the device once."""
        device, order = self.x.device, np.argsort(-plan.steps, kind="stable")
        steps, drawn = plan.steps[order], plan.samples[order]
        widths = (plan.weight[order] > 0).sum(-1) if self.sequential else None
        ids, samples = to_device(order, device), to_device(drawn, device)
        weight = to_device(plan.weight[order], device, self.x.dtype)
        size = self.chunk or len(order)
        for part in (slice(first, first + size) for first in range(0, len(order), size)):
            yield _Group(
                order[part],
                ids[part],
                steps[part],
                drawn[part] if self.x.on_demand else samples[part],
                samples[part],
                weight[part],
                None if widths is None else widths[part],
            )

    def _batches(self, group: _Group) -> Iterator[tuple[slice, int, Tensor, Tensor, Tensor]]:
        """(rows, step, x, y, weight) of each step of a group; rows count within the group."""
        for j in range(int(group.steps[0])):
            rows = slice(0, int(np.searchsorted(-group.steps, -j)))
            cut: tuple[Any, ...] = (rows, j)
            if group.widths is not None:
                cut = (0, j, slice(group.widths[0, j]))
            yield rows, j, self.x[group.drawn[cut]], self.y[group.samples[cut]], group.weight[cut]

    def _begin(self, plan: BatchPlan, group: _Group, w: Tensor) -> None:
        """Begin the training of a group's clients: of one, where BatchNorm keeps statistics of it."""
        statistics = self.model.architecture.statistics
        if statistics is not None and plan.clients is not None:
            (member,) = group.members
            statistics.work(int(plan.clients[member]), w)

    def _draw(self, plan: BatchPlan, group: _Group, step: int) -> int | None:
        """The seed of a step's random numbers, a function of run, round, client and step, where it draws any:
        clients are then computed one after the other.
        """
        if plan.draws is None or not self.model.architecture.draws:
            return None
        (member,) = group.members
        return int(randomness.bits("step", plan.draws[member], step)[0])

    def _gradients(
        self, w: Tensor, x: Tensor, y: Tensor, weight: Tensor, draw: int | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Losses (a,) and, of each slot of the layout, gradients (a, size)."""
        if not self.sequential:
            return self.model.gradient_parts(w, x, y, weight)
        loss, parts = self.model.gradient_parts(w[0], x, y, weight, draw)
        return loss, [part.unsqueeze(0) for part in parts]
