"""Packs: runs in one process whose local training, gradients and evaluations are computed together.

Each run has a simulation of its own, in a greenlet. At a computation it hands its `Call` to the pack and pauses, and
the next run goes on. When all runs have paused, the pack joins similar calls into one, with one run's rows after the
other's. A row's bits must not depend on the rows beside it; `Model.exact` tests this for each model. If the test or a
joint call fails, each run computes by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet

from trials.common.plugins import contained
from trials.common.tensors import torch
from trials.engine.training import Answer, Method, Solver

KEPT = 16  # plans and initial weights that a pack keeps for runs that need the same


@dataclass(frozen=True)
class Call:
    """A run's call of a solver's method: `rows` are arguments with a row for each client, `shared` are the others."""

    solver: Solver
    method: Method
    rows: tuple[Any, ...]
    shared: tuple[Any, ...]

    @property
    def kind(self) -> Hashable:
        """Return a key that is equal for calls that can be joined. Such calls may differ in their numbers of rows and steps."""
        solver, model = self.solver, self.solver.model
        data = solver.x, solver.x.dtype, model.network, model.loss, model.mixed
        structure, shared = map(_structure, self.rows), map(_content, self.shared)
        return self.method.__name__, *data, *structure, *shared


class Pack:
    """A group of runs that take turns in one process, so that similar calls of their solvers can be computed as one."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}

    def solver(self, *arguments: Any) -> Solver:
        """Return a `Solver` with these arguments for one run of the pack. The pack computes similar calls of its runs together."""
        return PackedSolver(self, *arguments)

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return `make()`, or the result that an earlier call cached by `key`. The cache holds the latest 16 results."""
        if key not in self._made:
            if len(self._made) == KEPT:
                self._made.pop(next(iter(self._made)))
            self._made[key] = make()
        return self._made[key]

    def run(self, works: Sequence[Callable[[], None]]) -> None:
        """Run all functions to completion. They take turns, one at a time. Each must catch its exceptions: an uncaught one ends them all."""
        waiting: dict[greenlet, Call] = {}
        turns: dict[greenlet, tuple[Answer, ...]] = {greenlet(work): () for work in works}
        while turns:
            for member, answer in turns.items():
                call = member.switch(*answer)
                if not member.dead:
                    waiting[member] = call
            turns = {}
            groups: dict[Hashable, list[greenlet]] = defaultdict(list)
            # Short calls are answered first, so that more trainings can be joined.
            heavy = all(call.method is Solver.follow for call in waiting.values())
            for member, call in waiting.items():
                if heavy or call.method is not Solver.follow:
                    groups[call.kind].append(member)
            for group in groups.values():
                turns |= zip(group, _answers([*map(waiting.pop, group)]), strict=True)


class PackedSolver(Solver):
    """A solver that lets its pack join its calls with similar calls of other runs. Outside of `Pack.run` it computes alone."""

    def __init__(self, pack: Pack, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._pack = pack

    def once(self, make: Callable[..., Any], *arguments: Any) -> Any:
        key = make.__name__, self.model.network, *map(_content, arguments)
        return self._pack.once(key, lambda: make(*arguments))

    def call(self, method: Method, *rows: Any, width: int, shared: tuple[Any, ...] = ()) -> Answer:
        hub, answer = getcurrent().parent, ()
        if hub is not None and self.joins(width, slopes=method is Solver.follow):
            answer = hub.switch(Call(self, method, rows, shared))
        return answer or super().call(method, *rows, width=width, shared=shared)


def _answers(calls: list[Call]) -> Sequence[tuple[Answer, ...]]:
    """Compute similar calls of several runs as one. Return (answer,) for each call, or () for each if they cannot be joined."""
    if len(calls) == 1:
        return [()]
    first = calls[0]
    try:
        with contained():
            rows = map(_joined, zip(*map(attrgetter("rows"), calls), strict=True))
            joint = first.method(first.solver, *rows, *first.shared)
    except Exception:
        return [()] * len(calls)
    weights = [getattr(call.rows[0], "start", call.rows[0]) for call in calls]
    parts = [value.split(list(map(len, weights))) for value in joint.values()]
    return [(dict(zip(joint, part, strict=True)),) for part in zip(*parts, strict=True)]


def _content(value: Any) -> Hashable:
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


def _structure(value: Any) -> Hashable:
    """Return a hashable key that is equal for arguments that can be computed together. Arrays may differ in their numbers of
    rows. They may also differ in their numbers of columns, but one column and several do not go together.
    """
    if is_dataclass(value):
        return tuple(_structure(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, torch.Tensor | np.ndarray):
        return value.dtype, value.shape[1:2] == (1,), *value.shape[2:]
    return value


def _joined(values: Sequence[Any]) -> Any:
    """Concatenate the values that several calls pass for one argument. Pad the second axis with zeros to the length of the longest."""
    first, row = values[0], 0
    if is_dataclass(first) and not isinstance(first, type):
        parts = {}
        for field in fields(first):
            parts[field.name] = _joined([*map(attrgetter(field.name), values)])
        return replace(first, **parts)
    if not isinstance(first, torch.Tensor | np.ndarray):
        return first
    longest = map(max, zip(*(v.shape[1:2] for v in values), strict=True))
    shape = (sum(map(len, values)), *longest, *first.shape[2:])
    joint: Any = np.zeros(shape, first.dtype) if isinstance(first, np.ndarray) else None
    if isinstance(first, torch.Tensor):
        joint = first.new_zeros(shape)
    for value in values:
        rows = joint[row : row + len(value)]
        rows[(slice(None), *map(slice, value.shape[1:2]))] = value
        row += len(value)
    return joint
