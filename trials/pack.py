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
from typing_extensions import override

from trials.course import Course, Term, Terms
from trials.federated_data import FederatedData
from trials.plans import Plan
from trials.plugins import contained
from trials.scores import Scores
from trials.solver import Solver
from trials.tensors import Tensor, torch
from trials.transfer import sent

Array = npt.NDArray[Any]
Result = TypeVar("Result")
KEPT = 16
"""How many plans and initial weights a pack keeps for those that ask for the same."""


class Request(ABC):
    """What a run asks of its solver. `heavy` ones wait until every run of the pack has asked for one."""

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
class Follow(Request):
    """`Solver.follow`."""

    course: Course
    heavy: ClassVar[bool] = True

    @property
    @override
    def rows(self) -> int:
        return len(self.course.start)

    @property
    @override
    def kind(self) -> Hashable:
        return self.course.plan.samples.shape[2], self.course.terms.momentum

    @classmethod
    @override
    def joined(cls, requests: Sequence[Self]) -> Self:
        courses = [request.course for request in requests]
        plan = _plans([course.plan for course in courses])
        return cls(
            Course(
                torch.cat([course.start for course in courses]),
                plan,
                _marks([course.marks for course in courses]),
                _rates(courses, plan.samples.shape[1]),
                _terms(courses),
            )
        )

    @override
    def answer(self, solver: Solver) -> tuple[Tensor, ...]:
        return Solver.follow(solver, self.course)

    @override
    def own(self, part: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        w, losses, path = part
        return w, losses, path[:, : self.course.marks.shape[1]]


@dataclass(frozen=True)
class Slopes(Request):
    """`Solver.slopes`."""

    w: Tensor
    plan: Plan

    @property
    @override
    def rows(self) -> int:
        return len(self.w)

    @property
    @override
    def kind(self) -> Hashable:
        return self.plan.samples.shape[2]

    @classmethod
    @override
    def joined(cls, requests: Sequence[Self]) -> Self:
        plan = _plans([request.plan for request in requests])
        return replace(requests[0], w=torch.cat([r.w for r in requests]), plan=plan)

    @override
    def answer(self, solver: Solver) -> tuple[Tensor, ...]:
        return Solver.slopes(solver, self.w, self.plan)


@dataclass(frozen=True)
class Score(Slopes):
    """`Solver.score`."""

    scores: Scores

    @override
    def answer(self, solver: Solver) -> tuple[Tensor, ...]:
        return (Solver.score(solver, self.w, self.plan, self.scores),)


@dataclass(frozen=True)
class Rated(Request):
    """`Solver.rated`, of one row."""

    w: Tensor
    ids: Array
    scores: Scores

    @property
    @override
    def rows(self) -> int:
        return len(self.w)

    @property
    @override
    def kind(self) -> Hashable:
        return len(self.ids), self.ids.tobytes()

    @classmethod
    @override
    def joined(cls, requests: Sequence[Self]) -> Self:
        return replace(requests[0], w=torch.cat([r.w for r in requests]))

    @override
    def answer(self, solver: Solver) -> dict[str, Tensor]:
        return Solver.rated(solver, self.w, self.ids, self.scores)


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
    ) -> Plan:
        """Made once for all that want the same."""
        key = data, ids.tobytes(), steps.tobytes(), batch_size, words
        make = super().minibatches
        return self._pack.once(key, lambda: make(data, ids, steps, batch_size, words))

    def initial(self, ids: Array, seed: int) -> Array:
        """Made once for all that want the same."""
        key = *_model(self), ids.tobytes(), seed
        make = super().initial
        return self._pack.once(key, lambda: make(ids, seed))

    def follow(self, course: Course) -> tuple[Tensor, Tensor, Tensor]:
        """With the others."""
        return self._ask(Follow(course))

    def slopes(self, w: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """With the others."""
        return self._ask(Slopes(w, plan))

    def score(self, w: Tensor, plan: Plan, scores: Scores) -> Tensor:
        """With the others."""
        (found,) = self._ask(Score(w, plan, scores))
        return found

    def rated(self, w: Tensor, ids: Array, scores: Scores) -> dict[str, Tensor]:
        """With the others."""
        return self._ask(Rated(w, ids, scores))

    def _ask(self, request: Request) -> Any:
        hub = getcurrent().parent
        if hub is None or not self.by_rows:
            return request.answer(self)
        return hub.switch((self, request)) or request.answer(self)


Waiting = dict[greenlet, tuple[PackedSolver, Request]]
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


def _plans(plans: Sequence[Plan]) -> Plan:
    """One plan with the rows of all, padded to the longest."""
    longest = max(plan.samples.shape[1] for plan in plans)

    def padded(array: Array) -> Array:
        if array.shape[1] == longest:
            return array
        return np.pad(array, ((0, 0), (0, longest - array.shape[1]), (0, 0)))

    return Plan(
        np.concatenate([padded(plan.samples) for plan in plans]),
        np.concatenate([padded(plan.weight) for plan in plans]),
        np.concatenate([plan.steps for plan in plans]),
    )


def _rates(courses: Sequence[Course], steps: int) -> Tensor:
    """The rates of all rows at each of so many steps, (k, steps), or (k, 1) expanded: of courses that
    have one number each they are made on the host.
    """
    like, sizes = courses[0].start, [len(course.start) for course in courses]
    if not any(isinstance(course.lr, torch.Tensor) for course in courses):
        rates = np.repeat([float(course.lr) for course in courses], sizes)
        return sent(rates, like.device, like.dtype).unsqueeze(1).expand(-1, steps)
    found = like.new_zeros(sum(sizes), steps)
    for course, rows in zip(courses, found.split(sizes), strict=True):
        if isinstance(course.lr, torch.Tensor):
            rows[:, : course.lr.shape[1]] = course.lr
        else:
            rows.fill_(course.lr)
    return found


def _marks(all_marks: Sequence[Array]) -> Array:
    """The marks of all rows, with 0 where others have more."""
    most = max(marks.shape[1] for marks in all_marks)
    return np.concatenate(
        [np.pad(marks, ((0, 0), (0, most - marks.shape[1]))) for marks in all_marks]
    )


def _terms(courses: Sequence[Course]) -> Terms:
    """The terms of all rows."""
    terms, counts = [c.terms for c in courses], [len(c.start) for c in courses]
    return Terms(
        terms[0].momentum,
        torch.cat([own.scale for own in terms]),
        Term.joined([own.pull for own in terms], counts),
        Term.joined([own.shift for own in terms], counts),
    )
