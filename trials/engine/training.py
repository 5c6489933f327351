"""Local training of many clients at once: their minibatches, the rules of their steps, and the solver."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from trials.common import randomness
from trials.common.errors import UserError
from trials.common.tensors import Tensor, torch
from trials.common.transfer import to_device
from trials.engine.direction import Affine, Direction, affine, column
from trials.federated_data import FederatedData, Samples
from trials.models.base import Model
from trials.scoring.losses import Loss, cross_entropy, half_squared_error, squared_error
from trials.scoring.scores import Scores
from trials.settings import Settings

Array = npt.NDArray[Any]
BLOCK = 512  # samples on which one model is evaluated at a time
EXECUTIONS = ("compiled", "batched", "sequential")  # the ways to compute; they agree up to rounding
COMPILED: dict[Loss, float] = {cross_entropy: 0.0, squared_error: 2.0, half_squared_error: 1.0}
"""The losses of the compiled loop, with the factor c of a squared error's derivative c (z - y); 0 for cross-entropy."""

# Minibatches


@dataclass(frozen=True)
class BatchPlan:
    """The minibatches of k clients, each of which is a row. `samples` (k, J, B) are ids of the data set's samples. `weight`
    (k, J, B) is each sample's share in its minibatch's loss; padding comes last and has 0. Row i has `steps[i]` <= J steps.
    `draws` (k,) seed the random numbers of a row's training, such as dropout's. `clients` (k,) are the rows' client ids.
    """

    samples: Array
    weight: Array
    steps: Array
    draws: Array | None = None
    clients: Array | None = None


def steps_per_epoch(sizes: Array, batch_size: int | str) -> Array:
    """Return each client's number of minibatches in one pass: ceil(m_k / B), or 1 for full batches."""
    return np.ones_like(sizes) if batch_size == "full" else -(-sizes // int(batch_size))


def asked_steps(settings: Settings, per_epoch: Array) -> Array:
    """Return how many local steps (k,) the clients take in a round. `per_epoch` (k,) counts a client's minibatches in one pass over its data."""
    if settings.local_steps is None:
        return settings.local_epochs * per_epoch
    return np.full_like(per_epoch, settings.local_steps)


def samples_met(sizes: Array, steps: Array, batch_size: int | str) -> int:
    """Return the total number of samples in `steps` (k,) minibatches of clients that have `sizes` (k,) samples."""
    per_epoch = steps_per_epoch(sizes, batch_size)
    width = sizes if batch_size == "full" else int(batch_size)
    return int((steps // per_epoch * sizes + steps % per_epoch * width).sum())


def minibatches(
    data: FederatedData, ids: Array, steps: Array, batch_size: int | str, key: tuple[int, ...]
) -> BatchPlan:
    """Return a plan with `steps` (k,) minibatches of the clients `ids`. The samples' order depends on `key` (seed, round), client and pass."""
    sizes = data.sizes[ids]
    width = int(sizes.max()) if batch_size == "full" else min(int(batch_size), int(sizes.max()))
    per_epoch = steps_per_epoch(sizes, batch_size)
    passes = -(-steps // per_epoch)
    row = np.repeat(np.arange(len(ids)), passes)
    epoch = _counts_up(passes)
    segment = np.repeat(np.arange(len(row)), sizes[row])
    position = _counts_up(sizes[row])
    hashed = randomness.bits("order", *key, ids[row][segment], epoch[segment], position)
    order = (segment.astype(np.uint64) << np.uint64(40)) | (hashed >> np.uint64(24))
    # Keys of 40 bits tie now and then; only a stable sort breaks ties alike on all processors.
    shuffled = position[np.argsort(order, kind="stable")]
    row = row[segment]
    step = epoch[segment] * per_epoch[row] + position // width
    kept = step < steps[row]
    row, step, slot = row[kept], step[kept], position[kept] % width
    samples = np.zeros((len(ids), int(steps.max()), width), np.int64)
    real = np.zeros(samples.shape, bool)
    samples[row, step, slot] = data.train[data.offsets[ids[row]] + shuffled[kept]]
    real[row, step, slot] = True
    draws = randomness.bits("draws", *key, ids)
    weight = real / np.maximum(real.sum(-1, keepdims=True), 1)
    return BatchPlan(samples, weight, steps, draws, ids)


def full_pass(data: FederatedData, ids: Array, width: int = 256) -> BatchPlan:
    """Return a plan of all samples of the clients `ids`. Samples of client k weigh 1 / m_k, so the client's gradients sum to grad F_k."""
    sizes = data.sizes[ids]
    width = min(width, int(sizes.max()))
    steps = -(-sizes // width)
    row, position = np.repeat(np.arange(len(ids)), sizes), _counts_up(sizes)
    samples = np.zeros((len(ids), int(steps.max()), width), np.int64)
    weight = np.zeros(samples.shape)
    index = (row, position // width, position % width)
    samples[index] = data.train[data.offsets[ids[row]] + position]
    weight[index] = 1 / sizes[row]
    return BatchPlan(samples, weight, steps, clients=ids)


def _counts_up(lengths: Array) -> Array:
    """Return 0..l-1 for each length l, one after the other: [2, 3] -> [0, 1, 0, 1, 2]."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


# Steps


@dataclass(frozen=True)
class Optimizer:
    """SGD with momentum along the direction u of a step: v <- momentum * v + u, w <- w - lr * v."""

    momentum: float = 0.0

    @property
    def vectors(self) -> int:
        """Return the number of vectors (d,) that the optimizer keeps for each client."""
        return int(self.momentum > 0)

    def begin(self, w: Tensor, rate: Any, memory: Memory) -> tuple[Tensor, Any]:
        """Begin a step of weights w (a, d). Return a tensor (a, d) and a factor: the caller adds factor * direction to the tensor in place."""
        return (memory.moments[:, 0].mul_(self.momentum), 1.0) if self.momentum else (w, -rate)

    def end(self, w: Tensor, along: Tensor, rate: Any, memory: Memory) -> None:
        """Complete a step of weights w (a, d). `along` is the tensor that `begin` returned, after the caller's addition to it."""
        if self.momentum:
            w.sub_(rate * along)


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam as in `torch.optim`: w <- w - lr m / (sqrt(v) + eps), with bias-corrected moments m and v. Before
    each step, AdamW's `decay` changes w to (1 - lr decay) w.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    decay: float = 0.0
    vectors: ClassVar[int] = 2
    eps: ClassVar[float] = 1e-8

    def begin(self, w: Tensor, rate: Any, memory: Memory) -> tuple[Tensor, Any]:
        return torch.zeros_like(w), 1.0

    def end(self, w: Tensor, along: Tensor, rate: Any, memory: Memory) -> None:
        (m, v), count = memory.moments.unbind(1), memory.taken.add_(1)
        first, second = (1 - beta**count for beta in self.betas)
        # Products and sums apart: fused ones round differently in the last weights of a row.
        m.mul_(self.betas[0]).add_((1 - self.betas[0]) * along)
        v.mul_(self.betas[1]).add_((1 - self.betas[1]) * along * along)
        w.mul_(1 - rate * self.decay)
        w.sub_((rate / first).to(w) * m / (v.sqrt() / second.sqrt().to(w) + self.eps))


@dataclass(frozen=True)
class Memory:
    """The optimizer's state of k clients, changed in place: `moments` (k, vectors, d), and steps `taken` (k, 1)."""

    moments: Tensor
    taken: Tensor

    @classmethod
    def empty(cls, optimizer: Optimizer, start: Tensor) -> Memory:
        """Return an optimizer state of zeros for k clients, whose weights are `start` (k, d)."""
        k, d = start.shape
        taken = start.new_zeros(k, 1, dtype=torch.float64)
        return cls(start.new_zeros(k, optimizer.vectors, d), taken)

    def rows(self, which: Tensor | slice) -> Memory:
        """Return the state of some clients: a copy for ids, a view for a slice."""
        return Memory(self.moments[which], self.taken[which])


@dataclass(frozen=True)
class Rule:
    """The rule of a local step: `optimizer` moves w along clipped(direction(w, g + weight_decay w)) at rate `lr`.
    `lr` is a number, or (k, J) for each row and step. A direction longer than `clip_norm` is scaled down to this length.
    `memory` is the optimizer's state of the rows, None for a new one.
    """

    lr: float | Tensor
    optimizer: Optimizer = Optimizer()
    weight_decay: float = 0.0
    clip_norm: float | None = None
    memory: Memory | None = None

    def clipped(self, g: Tensor) -> Tensor:
        """Return g (k, d), with rows longer than `clip_norm` scaled down to that length."""
        if self.clip_norm is None:
            return g
        return g * (self.clip_norm / g.norm(dim=1, keepdim=True)).clamp(max=1.0)

    def rates(self, start: Tensor) -> Tensor:
        """Return the learning rates (k, J) of k clients in J steps, or (k, 1) if all steps share one."""
        if isinstance(self.lr, torch.Tensor):
            return self.lr
        # Through float64: a rate above float32's range becomes infinite, and the trial diverges.
        rate = torch.full((len(start), 1), self.lr, dtype=torch.float64)
        return rate.to(start.device, start.dtype)


@dataclass(frozen=True)
class LocalTraining:
    """The local training of k rows from `start` (k, d): steps of a plan along scale * g + pull * w + shift. `lr` is (k, J) or,
    for all steps, (k, 1). If it is None, steps change only the momentum, not the weights. `scale` and `pull` are (k, 1),
    `shift` is (k, d). `pull` and `shift` are None if all are 0, since 0 times infinity is not 0. Weights are recorded after
    `marks` (k, E) steps. The marks of a row ascend from 1; a 0 is padding.
    """

    start: Tensor
    plan: BatchPlan
    marks: Array
    lr: Tensor | None
    scale: Tensor
    pull: Tensor | None = None
    shift: Tensor | None = None
    optimizer: Optimizer = Optimizer()
    memory: Memory | None = None

    @classmethod
    def along(
        cls, form: Affine, start: Tensor, plan: BatchPlan, marks: Array, rule: Rule
    ) -> LocalTraining:
        """Return the local training of k clients from `start` (k, d), by `rule` without clipping, along the direction `form`."""
        scale, pull, shift = column(form.scale, start)[:, None], None, None
        if isinstance(form.pull, torch.Tensor) or form.pull or rule.weight_decay:
            pull = column(form.pull, start)[:, None] + rule.weight_decay * scale
        if isinstance(form.shift, torch.Tensor) or form.shift:
            values = to_device(torch.as_tensor(form.shift, dtype=start.dtype), start.device)
            shift = values.expand_as(start).contiguous()
        optional = pull, shift, rule.optimizer, rule.memory
        return cls(start, plan, marks, rule.rates(start), scale, *optional)


Move = Callable[[Tensor, list[Tensor], slice, int, Memory], None]
"""`move(w, parts, rows, step, memory)` takes a step, counted from 0, of a group's first rows. It changes weights w (a, d)
and the optimizer's state in place. `parts` are gradients (a, size), one for each parameter."""
_Step = tuple[slice, int, tuple[Tensor, Tensor, Tensor]]
"""The rows of a group that take a step, the step's number from 0, and its minibatch: x, y, the samples' weights."""
Answer = dict[str, Tensor]  # results by name, each with a row for each row of the call
Method = Callable[..., Answer]


def executions(model: Model, settings: Settings, device: torch.device) -> list[str]:
    """Return the possible ways to compute a run, fastest first: `compiled`, `batched` or `sequential`."""
    ways, plain = ["sequential"], model.architecture.linear and not model.mixed
    if not model.network.why_alone:
        minibatch = math.inf if settings.batch_size == "full" else settings.batch_size
        faster = device.type != "cpu" or minibatch <= model.batched_up_to
        ways.insert(0 if faster else 1, "batched")
    plain &= settings.optimizer == "sgd"
    if plain and device.type == "cpu" and model.loss in COMPILED and find_spec("numba"):
        ways.insert(0, "compiled")
    return ways


def execution(model: Model, settings: Settings, device: torch.device) -> str:
    """Return the way to compute a run: `settings.execution`, or by default the fastest way. The fastest way also replaces
    `batched` where that is impossible. Raise `UserError` for `compiled` where that is impossible.
    """
    ways = executions(model, settings, device)
    if settings.execution == "compiled" and ways[0] != "compiled":
        rule = "execution is compiled, which is for SGD of linear models without two_sided on a CPU with numba"
        raise UserError(f"{rule}; leave it out, or use {' or '.join(ways)}")
    return settings.execution if settings.execution in ways else ways[0]


class Solver:
    """The solver of a run, which computes plans on a model and samples x (N, *shape), y (N,) in one of three ways.
    `batched` computes `chunk` clients at a time as one tensor program (default: all). `sequential` computes one client
    after the other, without padding; tests compare the others with it. `compiled` is batched, except that SGD of a linear
    model is one compiled loop if its direction is `Affine` and not clipped.
    """

    def __init__(
        self, model: Model, x: Samples, y: Tensor, execution: str, chunk: int | None = None
    ) -> None:
        self.model, self.x, self.y = model, x, y
        self.execution, self.sequential = execution, execution == "sequential"
        self.chunk = 1 if self.sequential else chunk

    def once(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """Return `make(*arguments)`, which the runs of a pack compute once and share. Callers must not change the result."""
        return make(*arguments)

    def call(self, method: Method, *rows: Any, width: int, shared: tuple[Any, ...] = ()) -> Answer:
        """Return `method(self, *rows, *shared)`. `rows` have a row per client; `width` is the minibatch size. Subclasses may join several runs."""
        return method(self, *rows, *shared)

    def joins(self, width: int, slopes: bool = True) -> bool:
        """Return whether batching clients of several runs leaves their results unchanged to the last bit."""
        like = self.y.new_empty(0, dtype=self.x.dtype)
        return self.execution == "batched" and self.model.exact(width, like, slopes)

    def train(
        self,
        start: Tensor,
        plan: BatchPlan,
        rule: Rule,
        direction: Direction,
        aligned: dict[str, Tensor],
        marks: Array | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Memory]:
        """Train k clients from `start` (k, d) on the minibatches of a plan. Return the final weights (k, d), the mean minibatch
        loss (), the weights (k, E, d) after `marks` (k, E) steps, and the optimizer's state. At each step `direction` receives the
        rows of the tensors `aligned` (k, ...) for the clients that take the step.
        """
        marks = np.zeros((len(start), 0), np.int64) if marks is None else marks
        form = affine(direction, aligned) if rule.clip_norm is None else None
        if form is None:
            moves = partial(self._any_move, rule, rule.rates(start), direction, aligned)
            memory = rule.memory or Memory.empty(rule.optimizer, start)
            answer = self._descend(start, plan, marks, moves, memory)
        else:
            training = LocalTraining.along(form, start, plan, marks, rule)
            answer = self.call(Solver.follow, training, width=plan.samples.shape[2])
        loss = answer["loss"].sum().to(start) / int(plan.steps.sum())
        memory = Memory(answer["moments"], answer["taken"])
        return answer["w"], loss, answer["path"][:, : marks.shape[1]], memory

    def gradient(self, w: Tensor, plan: BatchPlan) -> tuple[Tensor, Tensor]:
        """Return the clients' gradients (k, d) at w (k, d), and their mean loss (). A client's gradient and loss are sums over its
        minibatches. With the plan of `full_pass` these sums are grad F_k and F_k.
        """
        marks = np.zeros((len(w), 0), np.int64)
        still = LocalTraining(w, plan, marks, None, w.new_ones(len(w), 1), optimizer=Optimizer(1.0))
        answer = self.call(Solver.follow, still, width=plan.samples.shape[2])
        return answer["moments"][:, 0], answer["loss"].sum().to(w) / len(w)

    def follow(self, training: LocalTraining) -> Answer:
        """Run local training and return its results by name. They are the final weights `w` (k, d), the optimizer's state (`moments`,
        `taken`), the summed minibatch `loss` (k,), and the weights `path` (k, E, d) after `training.marks` (k, E) steps.
        """
        memory = training.memory or Memory.empty(training.optimizer, training.start)
        if self.execution == "compiled":
            from trials.engine import compiled

            return compiled.follow(training, memory, self.x, self.y, COMPILED[self.model.loss])
        moves = partial(self._affine_move, training)
        return self._descend(training.start, training.plan, training.marks, moves, memory)

    def _descend(
        self,
        start: Tensor,
        plan: BatchPlan,
        marks: Array,
        moves: Callable[[Tensor], Move],
        memory: Memory,
    ) -> Answer:
        """Train k clients from `start` (k, d). Return by name: the final weights `w`, the summed minibatch `loss` (k,), the weights
        `path` after `marks` (k, E) steps, and the optimizer's state. `moves(ids)` returns the function that does the steps of rows `ids`.
        """
        path = start.new_empty(*marks.shape, start.shape[1])
        w, losses = torch.empty_like(start), start.new_zeros(len(start))
        draws = plan.draws if self.model.network.draws else None
        for members, ids, steps in self._groups(plan):
            now, loss = start[ids], start.new_zeros(len(ids))
            kept, move = memory.rows(ids), moves(ids)
            if self.model.statistics is not None and plan.clients is not None:
                self.model.statistics.work(int(plan.clients[members[0]]), now)
            for rows, j, batch in steps:
                if self.sequential:
                    draw = None
                    if draws is not None:
                        draw = int(randomness.bits("step", draws[members[0]], j)[0])
                    values, parts = self.model.gradient_parts(now[0], *batch, draw)
                    parts = [part.unsqueeze(0) for part in parts]
                else:
                    values, parts = self.model.gradient_parts(now[rows], *batch)
                loss[rows] += values
                move(now[rows], parts, rows, j, kept.rows(rows))
                if marks.shape[1]:
                    row, mark = np.nonzero(marks[members[rows]] == j + 1)
                    marked = to_device(row, start.device)
                    path[ids[marked], to_device(mark, start.device)] = now[marked]
            w[ids], losses[ids] = now, loss
            memory.moments[ids], memory.taken[ids] = kept.moments, kept.taken
        return {"w": w, "loss": losses, "path": path, **vars(memory)}

    def _any_move(
        self, rule: Rule, lr: Tensor, direction: Direction, aligned: dict[str, Tensor], ids: Tensor
    ) -> Move:
        """Return a function that moves rows `ids` of the weights w by `rule`, along direction(w, g, **aligned) with the gradient g at w."""

        def move(w: Tensor, parts: list[Tensor], rows: slice, j: int, memory: Memory) -> None:
            g, at = torch.cat(parts, -1), ids[rows]
            rate = lr[at][:, min(j, lr.shape[1] - 1), None]
            if rule.weight_decay:
                g = g.add_(w, alpha=rule.weight_decay)
            tensors = {name: value[at] for name, value in aligned.items()}
            step = rule.clipped(direction(w, g, **tensors))
            along, factor = rule.optimizer.begin(w, rate, memory)
            rule.optimizer.end(w, along.add_(factor * step), rate, memory)

        return move

    def _affine_move(self, training: LocalTraining, ids: Tensor) -> Move:
        """Return a function that makes one local step, as `training` describes it, for the rows `ids` of the weights."""
        optional = training.pull, training.shift, training.lr
        pull, shift, lr = (None if value is None else value[ids] for value in optional)
        scale = training.scale[ids]

        # Weights w move along scale * g + pull * w + shift, with the gradient g at w.
        def move(w: Tensor, parts: list[Tensor], rows: slice, j: int, memory: Memory) -> None:
            rate = 0.0 if lr is None else lr[rows, min(j, lr.shape[1] - 1), None]
            along, factor = training.optimizer.begin(w, rate, memory)
            if pull is not None:
                along.add_(factor * pull[rows] * w)
            if shift is not None:
                along.add_(factor * shift[rows])
            factor = factor * scale[rows]
            for slot, part in zip(self.model.layout, parts, strict=True):
                along[:, slot.start : slot.stop].addcmul_(part, factor)
            if lr is not None:
                training.optimizer.end(w, along, rate, memory)

        return move

    def scored(self, w: Tensor, plan: BatchPlan, scores: Scores) -> Answer:
        """Return the mean score of each model w (k, d) as `score` (k,). The score is the first metric in `scores`. The mean is
        over the planned samples of the model, weighted as in the plan.
        """
        totals = w.new_zeros(len(w))
        for _, ids, steps in self._groups(plan):
            now, sums = w[ids], w.new_zeros(len(ids))
            for rows, _, (x, y, weight) in steps:
                which = rows.start if self.sequential else rows
                ranked, *_ = scores(self.model.logits(now[which], x), y).values()
                sums[which] += (ranked * weight).sum(-1)
            totals[ids] = sums
        return {"score": totals}

    def evaluate(self, w: Tensor, ids: Array, scores: Scores) -> Answer:
        """Return mean scores and mean loss of models `w` on samples `ids`, by name. Each value is () for w (d,), or (k,) for w (k, d)."""
        if w.dim() == 1 and self.joins(BLOCK, slopes=False):
            # Computed as in a pack, so that its bits are the same without one.
            answer = self.call(Solver.means, w[None], width=BLOCK, shared=(ids, scores))
            return {name: value[0] for name, value in answer.items()}
        if w.dim() == 2 and self.sequential:
            rows = [self.evaluate(row, ids, scores) for row in w]
            return {name: torch.stack([*map(itemgetter(name), rows)]) for name in rows[0]}
        width = max(1, 32768 // (w.shape[:-1].numel() + 63))
        return self.means(w, ids, scores, width, apart=False)

    def means(
        self, w: Tensor, ids: Array, scores: Scores, width: int = BLOCK, apart: bool = True
    ) -> Answer:
        """Return the mean scores and mean loss of each model in `w`, by name. If `apart`, no model influences the result of another."""
        # Without shuffling, blocks of a data set sorted by label would have one label each.
        if len(ids) > width and not self.model.one_by_one:
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

    def _groups(self, plan: BatchPlan) -> Iterator[tuple[Array, Tensor, Iterator[_Step]]]:
        """Yield groups of rows to compute together: the row numbers (a,), as array and tensor, and an iterator over the steps."""
        device, order = self.x.device, np.argsort(-plan.steps, kind="stable")
        ids, samples = to_device(order, device), to_device(plan.samples[order], device)
        weight = to_device(plan.weight[order], device, self.x.dtype)
        size = self.chunk or len(order)
        for first in range(0, len(order), size):
            cut = slice(first, first + size)
            members = order[cut]
            widths = (plan.weight[members] > 0).sum(-1)
            steps = self._steps(plan.steps[members], widths, samples[cut], weight[cut])
            yield members, ids[cut], steps

    def _steps(
        self, steps: Array, widths: Array, samples: Tensor, weight: Tensor
    ) -> Iterator[_Step]:
        """Yield the steps of clients computed together. Client i takes `steps[i]` steps; its step j has `widths[i, j]` samples."""
        for j in range(int(steps[0])):
            rows = slice(0, int(np.searchsorted(-steps, -j)))
            cut: Any = (0, j, slice(widths[0, j])) if self.sequential else (rows, j)
            yield rows, j, (self.x[samples[cut]], self.y[samples[cut]], weight[cut])
