"""Packs: runs in one process whose local training, gradients and evaluations are computed together.

Each run keeps a simulation of its own, in a greenlet. Where it would compute, it asks the pack, and
the next run goes on until it asks too. When all have asked, what is alike is computed in one call, its
rows one run's after the other's, and each run gets its rows back. No algorithm knows of it.

A row's numbers do not depend on the rows beside it, so a run has the numbers that it has alone: up to
rounding, and to the bit on a CPU where the model says so (`Architecture.exact_rows`). What is not sure to
be so, or is not computed in rows at all, is computed for each run by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
from greenlet import getcurrent, greenlet

from trials.common.plugins import contained
from trials.common.tensors import Tensor, torch
from trials.common.transfer import to_device
from trials.engine.local_training import LocalTraining, Term, Terms
from trials.engine.plans import BatchPlan
from trials.engine.solver import Solver
from trials.federated_data import FederatedData
from trials.scoring.scores import Scores

Array = npt.NDArray[Any]
Result = TypeVar("Result")
KEPT = 16
"""How many plans and initial weights a pack keeps for those that ask for the same."""


class PackRequest(ABC):
    """What a run requests for its solver. `heavy` ones wait until every run of the pack has asked for one."""

    heavy: ClassVar[bool] = False

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many rows its answer has."""

    @property
    @abstractmethod
    def kind(self) -> Hashable:
        """What requests have in common that can be joined, besides the solver's own."""

    @classmethod
    @abstractmethod
    def joined(cls, requests: Sequence[Self]) -> Self:
        """All of them as one, with the rows of one after the other's."""

    @abstractmethod
    def answer(self, solver: Solver) -> Any:
        """What the solver makes of it: tensors with its rows first."""

    def own(self, part: Any) -> Any:
        """Of its rows of a joint answer what it asked for."""
        return part


@dataclass(frozen=True)
class Follow(PackRequest):
    """`Solver.follow`."""

    training: LocalTraining
    heavy: ClassVar[bool] = True

    @property
    def rows(self) -> int:
        return len(self.training.start)

    @property
    def kind(self) -> Hashable:
        return self.training.plan.samples.shape[2], self.training.terms.momentum

    @classmethod
    def joined(cls, requests: Sequence[Self]) -> Self:
        trainings = [request.training for request in requests]
        plan = _plans([training.plan for training in trainings])
        return cls(
            LocalTraining(
                torch.cat([training.start for training in trainings]),
                plan,
                _snapshot_steps([training.snapshot_steps for training in trainings]),
                _rates(trainings, plan.samples.shape[1]),
                _terms(trainings),
            )
        )

    def answer(self, solver: Solver) -> tuple[Tensor, ...]:
        return Solver.follow(solver, self.training)

    def own(self, part: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        w, losses, path = part
        return w, losses, path[:, : self.training.snapshot_steps.shape[1]]


@dataclass(frozen=True)
class Slopes(PackRequest):
    """`Solver.slopes`."""

    w: Tensor
    plan: BatchPlan

    @property
    def rows(self) -> int:
        return len(self.w)

    @property
    def kind(self) -> Hashable:
        return self.plan.samples.shape[2]

    @classmethod
    def joined(cls, requests: Sequence[Self]) -> Self:
        plan = _plans([request.plan for request in requests])
        return replace(requests[0], w=torch.cat([r.w for r in requests]), plan=plan)

    def answer(self, solver: Solver) -> tuple[Tensor, ...]:
        return Solver.gradients(solver, self.w, self.plan)


@dataclass(frozen=True)
class Score(Slopes):
    """`Solver.score`."""

    scores: Scores

    def answer(self, solver: Solver) -> tuple[Tensor, ...]:
        return (Solver.score(solver, self.w, self.plan, self.scores),)


@dataclass(frozen=True)
class Rated(PackRequest):
    """`Solver.rated`, of one row."""

    w: Tensor
    ids: Array
    scores: Scores

    @property
    def rows(self) -> int:
        return len(self.w)

    @property
    def kind(self) -> Hashable:
        return len(self.ids), self.ids.tobytes()

    @classmethod
    def joined(cls, requests: Sequence[Self]) -> Self:
        return replace(requests[0], w=torch.cat([r.w for r in requests]))

    def answer(self, solver: Solver) -> dict[str, Tensor]:
        return Solver.scores_of_rows(solver, self.w, self.ids, self.scores)


class Pack:
    """Runs that go on side by side: `run` their works, whose solvers are made by `solver`.

    Plans and initial weights that several runs ask for are made once; they are not to be changed.
    """

    def __init__(self) -> None:
        self._made: OrderedDict[Hashable, Any] = OrderedDict()

    def solver(self, *given: Any) -> Solver:
        """A solver that lets this pack compute; made as `Solver` is."""
        return PackedSolver(self, *given)

    def once(self, key: Hashable, make: Callable[[], Result]) -> Result:
        """What `make` gives for a key, from the last few that were made."""
        if key not in self._made:
            self._made[key] = make()
            if len(self._made) > KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        found: Result = self._made[key]
        return found

    def run(self, works: Sequence[Callable[[], Result]]) -> list[Result]:
        """The results of all works. One that raises ends them all, so works catch what is their own."""
        members = [greenlet(work) for work in works]
        results: dict[greenlet, Result] = {}
        waiting: Waiting = {}
        turns: Turns = dict.fromkeys(members, ())
        while turns:
            for member, answer in turns.items():
                said = member.switch(*answer)
                if member.dead:
                    results[member] = said
                else:
                    waiting[member] = said
            turns = {}
            for group in _alike(waiting):
                turns |= _answers({member: waiting.pop(member) for member in group})
        return [results[member] for member in members]


class PackedSolver(Solver):
    """The solver of a run of a pack; outside of `Pack.run`, a solver like any other."""

    def __init__(self, pack: Pack, *given: Any) -> None:
        super().__init__(*given)
        self._pack = pack

    def minibatches(
        self,
        data: FederatedData,
        ids: Array,
        steps: Array,
        batch_size: int | str,
        words: tuple[int, ...],
    ) -> BatchPlan:
        """Made once for all that want the same."""
        key = data, ids.tobytes(), steps.tobytes(), batch_size, words
        make = super().minibatches
        return self._pack.once(key, lambda: make(data, ids, steps, batch_size, words))

    def initial(self, ids: Array, seed: int) -> Array:
        """Made once for all that want the same."""
        key = *_model(self), ids.tobytes(), seed
        make = super().initial
        return self._pack.once(key, lambda: make(ids, seed))

    def follow(self, training: LocalTraining) -> tuple[Tensor, Tensor, Tensor]:
        """With the others."""
        return self._ask(Follow(training))

    def gradients(self, w: Tensor, plan: BatchPlan) -> tuple[Tensor, Tensor]:
        """With the others."""
        return self._ask(Slopes(w, plan))

    def score(self, w: Tensor, plan: BatchPlan, scores: Scores) -> Tensor:
        """With the others."""
        (found,) = self._ask(Score(w, plan, scores))
        return found

    def scores_of_rows(self, w: Tensor, ids: Array, scores: Scores) -> dict[str, Tensor]:
        """With the others."""
        return self._ask(Rated(w, ids, scores))

    def _ask(self, request: PackRequest) -> Any:
        hub = getcurrent().parent
        if hub is None or not self.by_rows:
            return request.answer(self)
        return hub.switch((self, request)) or request.answer(self)


Waiting = dict[greenlet, tuple[PackedSolver, PackRequest]]
Turns = dict[greenlet, tuple[Any, ...]]
"""The members that go on, with an answer (answer,), or () to begin, or to compute it by themselves."""


def _alike(waiting: Waiting) -> list[list[greenlet]]:
    """The members that are answered now, grouped by what can be joined: those with light requests,
    and only when there are none those with heavy ones, so that these find each other.
    """
    light = {m: asked for m, asked in waiting.items() if not asked[1].heavy}
    groups: dict[Hashable, list[greenlet]] = defaultdict(list)
    for member, (solver, request) in (light or waiting).items():
        of = solver.x, solver.x.dtype, *_model(solver)
        groups[type(request), *of, request.kind].append(member)
    return list(groups.values())


def _answers(asked: Waiting) -> Turns:
    """How each member goes on: with its answer, if they can be computed together. Who is alone computes its
    own, as all do where memory, or code of others that makes samples, fails: who fails then fails alone.
    """
    if len(asked) == 1:
        return dict.fromkeys(asked, ())
    solver, first = next(iter(asked.values()))
    requests = [request for _, request in asked.values()]
    try:
        with contained():
            found = type(first).joined(requests).answer(solver)
    except Exception:
        return dict.fromkeys(asked, ())
    parts = _parts(found, [request.rows for request in requests])
    answers = [request.own(part) for request, part in zip(requests, parts, strict=True)]
    return {member: (answer,) for member, answer in zip(asked, answers, strict=True)}


def _parts(found: Any, sizes: list[int]) -> list[Any]:
    """Each member's rows of an answer."""
    if isinstance(found, dict):
        parts = _parts(tuple(found.values()), sizes)
        return [dict(zip(found, part, strict=True)) for part in parts]
    split = [whole.split(sizes) for whole in found]
    return list(zip(*split, strict=True))


def _model(solver: Solver) -> tuple[Hashable, ...]:
    """What makes two models the same."""
    model = solver.model
    return model.architecture, model.shape, model.d, model.loss, model.mixed


def _plans(plans: Sequence[BatchPlan]) -> BatchPlan:
    """One plan with the rows of all, padded to the longest."""
    longest = max(plan.samples.shape[1] for plan in plans)

    def padded(array: Array) -> Array:
        if array.shape[1] == longest:
            return array
        return np.pad(array, ((0, 0), (0, longest - array.shape[1]), (0, 0)))

    return BatchPlan(
        np.concatenate([padded(plan.samples) for plan in plans]),
        np.concatenate([padded(plan.weight) for plan in plans]),
        np.concatenate([plan.steps for plan in plans]),
    )


def _rates(trainings: Sequence[LocalTraining], steps: int) -> Tensor:
    """The rates of all rows at each of so many steps, (k, steps), or (k, 1) expanded: of courses that
    have one number each they are made on the host.
    """
    like, sizes = trainings[0].start, [len(training.start) for training in trainings]
    if not any(isinstance(training.lr, torch.Tensor) for training in trainings):
        rates = np.repeat([float(training.lr) for training in trainings], sizes)
        return to_device(rates, like.device, like.dtype).unsqueeze(1).expand(-1, steps)
    found = like.new_zeros(sum(sizes), steps)
    for training, rows in zip(trainings, found.split(sizes), strict=True):
        if isinstance(training.lr, torch.Tensor):
            rows[:, : training.lr.shape[1]] = training.lr
        else:
            rows.fill_(training.lr)
    return found


def _snapshot_steps(all_marks: Sequence[Array]) -> Array:
    """The marks of all rows, with 0 where others have more."""
    most = max(snapshot_steps.shape[1] for snapshot_steps in all_marks)
    return np.concatenate(
        [
            np.pad(snapshot_steps, ((0, 0), (0, most - snapshot_steps.shape[1])))
            for snapshot_steps in all_marks
        ]
    )


def _terms(trainings: Sequence[LocalTraining]) -> Terms:
    """The terms of all rows."""
    terms, counts = [c.terms for c in trainings], [len(c.start) for c in trainings]
    return Terms(
        terms[0].momentum,
        torch.cat([own.scale for own in terms]),
        Term.joined([own.pull for own in terms], counts),
        Term.joined([own.shift for own in terms], counts),
    )
