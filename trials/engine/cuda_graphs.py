"""Local SGD whose steps have the same shapes whatever is asked, so that a GPU captures one and replays it.

Rows are computed in blocks of a fixed size, the last one padded, and all of a block take as many steps as
the one with the most; who has taken its own stays as it is. A step finds its number, its minibatches and
its rates on the device. So a block's bits do not depend on how many rows there are, and a replayed step
is one launch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from trials.common.tensors import Tensor, torch
from trials.common.transfer import to_device
from trials.engine.local_training import LocalTraining, Term, Terms, snapshots_due
from trials.federated_data import Samples
from trials.models.base import Architecture, Model
from trials.scoring.losses import Loss

Array = npt.NDArray[Any]
Work = Callable[[], None]
ROWS = 256
"""Rows of a block at most."""
FEWEST = 8
"""Rows below which a block is bound by arithmetic, and the steps of those that are done cost too much."""
OPERATIONS = 2e9
"""Operations of a step, 6 rows d B, up to which its launches are what it costs on a GPU."""
WARM_UP = 3
"""Steps before one is captured, in which libraries choose their kernels and take their work space."""
KEPT = 4
"""Blocks that a process keeps, the last that were used; together they have the room of clients at once."""
faults: dict[Architecture, str] = {}
"""Why steps of models are not captured in this process."""


def _on_cuda(work: Work) -> Work:
    """Capture what work launches as a CUDA graph, and give what launches it again at once."""
    ahead, here = torch.cuda.Stream(), torch.cuda.current_stream()
    ahead.wait_stream(here)
    with torch.cuda.stream(ahead):
        for _ in range(WARM_UP):
            work()
    here.wait_stream(ahead)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    replay: Work = graph.replay
    return replay


CAPTURES: dict[str, Callable[[Work], Work]] = {"cuda": _on_cuda}
"""How devices of a type capture."""


class _Key(NamedTuple):
    """What the steps of blocks have in common that one capture serves."""

    x: Samples
    architecture: Architecture
    loss: Loss
    mixed: bool
    rows: int
    steps: int
    width: int
    momentum: float
    pulled: bool
    shifted: bool


class _Masked(Term):
    """A term of a block's rows; a mask `at` (rows,) says which rows have it."""

    def __init__(self, last: Tensor, values: Tensor) -> None:
        self.mask = last > 0
        super().__init__(np.arange(values.numel() and len(last)), values, self.mask)

    def fill(self, term: Term) -> None:
        """Take over another's rows."""
        if len(self.rows):
            self.mask.zero_()
            if len(term.rows):
                self.mask[term.at], self.values[term.at] = True, term.values

    @override
    def add(self, along: Tensor, by: float | Tensor, factor: Tensor | None = None) -> None:
        """Add by * values (* factor), and to the other rows -0.0, which changes no bit."""
        if len(self.rows):
            added = by * self.values if factor is None else by * self.values * factor
            along.add_(added.where(self.mask[:, None], -0.0))


class _Block:
    """The buffers of a block, its step on them, and what replays it."""

    def __init__(self, model: Model, x: Samples, y: Tensor, key: _Key) -> None:
        rows, device = key.rows, x.device
        self.model, self.x, self.y = model, x, y
        self.w = torch.zeros(rows, model.d, dtype=x.dtype, device=device)
        self.v = torch.zeros_like(self.w) if key.momentum else None
        self.losses = self.w.new_zeros(rows)
        self.samples = torch.zeros(key.steps, rows, key.width, dtype=torch.int64, device=device)
        self.weight = self.w.new_zeros(self.samples.shape)
        self.rates = self.w.new_zeros(key.steps, rows, 1)
        self.last = torch.zeros(rows, dtype=torch.int64, device=device)
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.pull = _Masked(self.last, self.w.new_zeros(rows, int(key.pulled)))
        self.shift = _Masked(self.last, self.w.new_zeros(rows, model.d * key.shifted))
        self.terms = Terms(key.momentum, self.w.new_zeros(rows), self.pull, self.shift)
        self.replay = CAPTURES[device.type](self.take)

    def take(self) -> None:
        """A step of every row that has any left."""
        samples, weight, rate = (
            each.index_select(0, self.step)[0] for each in (self.samples, self.weight, self.rates)
        )
        found, parts = self.model.gradient_parts(self.w, self.x[samples], self.y[samples], weight)
        goes_on = self.step < self.last
        w, v = self.w.clone(), None if self.v is None else self.v.clone()
        self.terms.step(w, parts, self.model.layout, rate, v)
        self.w.copy_(w.where(goes_on.unsqueeze(1), self.w))
        if self.v is not None and v is not None:
            self.v.copy_(v.where(goes_on.unsqueeze(1), self.v))
        self.losses.add_(found.where(goes_on, 0.0))
        self.step.add_(1)

    def fill(self, training: LocalTraining, members: Array) -> None:
        """Take over `members` (a,) of a course's rows; those of the block that are left do nothing."""
        device, count, ids = self.w.device, len(members), to_device(members, self.w.device)
        plan = training.plan
        steps = int(plan.steps[members].max())
        for buffer, host in ((self.samples, plan.samples), (self.weight, plan.weight)):
            part = np.swapaxes(host[members, :steps], 0, 1)
            buffer[:steps, :count].copy_(to_device(part, device, buffer.dtype))
        last = np.zeros(len(self.last), np.int64)
        last[:count] = plan.steps[members]
        self.last.copy_(to_device(last, device))
        if isinstance(training.lr, torch.Tensor):
            self.rates[:steps, :count, 0].copy_(training.lr[ids, :steps].T)
        else:
            self.rates.fill_(training.lr)
        self.w[:count].copy_(training.start[ids])
        self.terms.scale[:count].copy_(training.terms.scale[ids])
        self.pull.fill(training.terms.pull.of(members))
        self.shift.fill(training.terms.shift.of(members))
        for buffer in (self.step, self.losses, *(() if self.v is None else (self.v,))):
            buffer.zero_()


blocks: OrderedDict[_Key, _Block] = OrderedDict()


def _block(key: _Key, model: Model, y: Tensor) -> _Block:
    """The block of a key, made where there is none; those of other samples are dropped."""
    if any(kept.x is not key.x for kept in blocks):
        blocks.clear()
    if key not in blocks:
        while len(blocks) >= KEPT:
            blocks.popitem(last=False)
        blocks[key] = _Block(model, key.x, y, key)
    blocks.move_to_end(key)
    return blocks[key]


def rows_of(model: Model, width: int, chunk: int | None) -> int:
    """Rows of a block, a power of two, by what a step costs: so that they do not depend on how many rows
    there are; 0 where steps are bound by arithmetic, or memory does not hold as many.
    """
    most = min(ROWS, OPERATIONS / (6 * width * model.d))
    rows = 2 ** int(np.log2(max(1, most)))
    return rows if rows >= FEWEST and (chunk is None or KEPT * rows <= chunk) else 0


def follow(
    model: Model, x: Samples, y: Tensor, training: LocalTraining, chunk: int | None
) -> tuple[Tensor, Tensor, Tensor] | None:
    """`trials.engine.solver.Solver.follow`; None where steps are not captured: on devices that do not, of samples made
    on demand, or of large models.
    """
    if x.device.type not in CAPTURES or x.on_demand or model.architecture in faults:
        return None
    width, terms = training.plan.samples.shape[2], training.terms
    rows = rows_of(model, width, chunk)
    if not rows:
        return None
    order = np.argsort(-training.plan.steps, kind="stable")
    w, losses = torch.empty_like(training.start), training.start.new_empty(len(order))
    path = training.start.new_empty(training.snapshot_steps.size, model.d)
    for members in np.split(order, list(range(rows, len(order), rows))):
        steps = int(training.plan.steps[members[0]])
        key = _Key(
            *(x, model.architecture, model.loss, model.mixed),
            *(rows, max(WARM_UP + 1, 2 ** int(np.ceil(np.log2(steps)))), width),
            *(terms.momentum, bool(len(terms.pull.rows)), bool(len(terms.shift.rows))),
        )
        try:
            block = _block(key, model, y)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            faults[model.architecture] = str(error).splitlines()[0]
            return None
        block.fill(training, members)
        stops = snapshots_due(
            training.snapshot_steps, members, training.plan.steps[members], x.device
        )
        for step in range(1, steps + 1):
            block.replay()
            if step in stops:
                row, place = stops[step]
                path[place] = block.w[row]
        ids = to_device(members, x.device)
        w[ids], losses[ids] = block.w[: len(ids)], block.losses[: len(ids)]
    return w, losses, path.view(*training.snapshot_steps.shape, model.d)
