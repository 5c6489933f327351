"""The configurations that an entry tries, and which is best."""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from suite.search.proposer import Observation, Proposer, grid
from suite.search.trial import InitialConfiguration, ValidationResult
from suite.studies.entry import Entry
from suite.studies.initial_design import RATE, random_startup, shared_draw
from suite.studies.replicates import FIRST, Replicate
from suite.studies.samplers import find_sampler, first_modelled
from suite.studies.study import Study
from trials import heterogeneity
from trials.run.outcome import Status, TrialKind
from trials.run.trial_id import TrialId

Ends = Callable[[int], Sequence[ValidationResult]]
"""The results of a configuration: its search trial's, and its confirming runs'."""


class Candidates:
    """Configurations of an entry by number, from their results.

    They are those of one replicate, and open as `suite.studies.initial_design` says. `ends` are the results of all
    their trials by id. Number i waits for the results of 0..i-lag.
    """

    def __init__(
        self,
        entry: Entry,
        study: Study,
        lag: int,
        warm: Iterable[InitialConfiguration],
        replicate: Replicate = FIRST,
    ) -> None:
        self.entry, self.study, self.replicate = entry, study, replicate
        self.lag = lag
        self.ends: dict[str, ValidationResult] = {}
        words = (study.seed, int(entry.id, 16), *replicate.words)
        known = [*self._known(), *warm]
        self.budget = study.trials
        self.sampler = find_sampler(study.sampler)
        if self.sampler.grid:
            seen = [one.params for one in known]
            points = grid(entry.space, study.grid_points, words)
            known += [
                InitialConfiguration("sampled", point) for point in points if point not in seen
            ]
            self.budget = min(study.trials, len(known))
        self.proposer = Proposer(
            self.sampler, entry.space, known, entry.task.direction, words, self._opens
        )
        self._told = self._ended = 0
        self._chosen: tuple[list[int], int | None] | None = None

    def _known(self) -> list[InitialConfiguration]:
        """The default configuration and the published configurations, each once."""
        entry = self.entry
        default = entry.space.default(entry.implied)
        first = heterogeneity.parse(self.study.heterogeneity[0]).name
        known = entry.known if entry.scenario.heterogeneity == first else ()
        given = [default, *(entry.space.default(p.params) for p in known)]
        published = [one for i, one in enumerate(given) if one not in given[:i]][1:]
        return [
            InitialConfiguration("default", default),
            *(InitialConfiguration("published", one) for one in published),
        ]

    def _opens(self, index: int) -> dict[str, Any]:
        """The learning rate that all algorithms of the scenario share, of a configuration drawn blindly."""
        rate = self.entry.space.searched.get(RATE)
        blindly = index < random_startup(self.sampler, self.lag)
        if rate is None or not blindly:
            return {}
        drawn = index - len(self.proposer.known)
        words = (self.study.seed, *self.replicate.words)
        return {RATE: rate.at(shared_draw(drawn, self.entry.scenario, words))}

    def at(self, index: int) -> InitialConfiguration | None:
        """Configuration `index`; None while it waits for results."""
        if index < len(self.proposer.made):
            return self.proposer.made[index]
        due = index - self.lag
        if not self._all_ended(due):
            return None
        self._tell(due)
        return self.proposer.propose(index)

    def restore(self, index: int, made: InitialConfiguration) -> None:
        """Take over configuration `index` from a journal, whose results are known already. A journal may
        lack one that a person deleted: that trial runs again, and the sampler is told it and what follows then.
        """
        if index == len(self.proposer.made):
            due = index - self.lag
            self._tell(due if self._all_ended(due) else self._ended - 1)
            self.proposer.restore(index, made)

    def cut(self, budget: int) -> None:
        """Make no more configurations than that."""
        self.budget = min(self.budget, budget)

    def trial_id(self, kind: TrialKind, index: int, number: int | None = None) -> str:
        """The id of a trial of this entry and replicate."""
        return str(TrialId(self.entry.id, kind, index, number, self.replicate.name))

    def end(self, trial_id: str, end: ValidationResult) -> None:
        """Take the result of a trial."""
        self.ends[trial_id] = end
        self._chosen = None

    @property
    def searching(self) -> bool:
        """Whether search trials are still to be made or to end."""
        return len(self.proposer.made) < self.budget or not self._all_ended(
            len(self.proposer.made) - 1
        )

    @property
    def published(self) -> int:
        """How many of the configurations are published ones."""
        return sum(one.origin == "published" for one in self.proposer.known)

    @property
    def modelled(self) -> int:
        """How many of the configurations can be the sampler's from results, at most."""
        first = first_modelled(self.sampler, self.lag)
        if first is None:
            return 0
        return max(0, self.budget - max(first - 1, len(self.proposer.known)))

    @property
    def finalists(self) -> list[int]:
        """The best few, which are confirmed where the study says so; best first."""
        return self._choose()[0]

    @property
    def chosen(self) -> int | None:
        """The best configuration: of those that finished the one that keeps the constraints, or exceeds
        them least, and scores best; a diverged one only when all are. Of equal ones the earliest.
        """
        return self._choose()[1]

    @property
    def confirmed(self) -> bool:
        """Whether the finalists' confirming runs have all ended."""
        wanted = 1 + (self.study.confirm.seeds if self.study.confirm else 0)
        return all(len(self.results(i)) == wanted for i in self.finalists)

    def _choose(self) -> tuple[list[int], int | None]:
        if self._chosen is None:
            ranked = self._ranked(range(len(self.proposer.made)), self._searched)
            finalists = ranked[: self.study.confirm.best] if self.study.confirm else ranked[:1]
            best = [*self._ranked(finalists, self.results), *finalists]
            self._chosen = finalists, best[0] if best else None
        return self._chosen

    def _ranked(self, indices: Iterable[int], ends: Ends) -> list[int]:
        """The configurations that finished or diverged, best first."""
        usable = [i for i in indices if self._status(i, ends).ran_to_its_end]

        def key(i: int) -> tuple[bool, float, float, int]:
            finished = self._status(i, ends) == Status.FINISHED
            return not finished, self._excess(i, ends), -self._score(i, ends), i

        return sorted(usable, key=key)

    def _score(self, index: int, ends: Ends) -> float:
        """What a configuration is ranked by, more is better: its mean score over seeds."""
        return self.entry.task.sign * fmean(self._value(end) for end in ends(index))

    def _status(self, index: int, ends: Ends) -> Status:
        """The worst status over seeds; failed while results are missing."""
        order = (Status.FAILED, Status.PRUNED, Status.DIVERGED, Status.FINISHED)
        statuses = (end.status for end in ends(index))
        return min(statuses, key=order.index, default=Status.FAILED)

    def _excess(self, index: int, ends: Ends) -> float:
        """By how much constraints are exceeded, as shares of what is allowed, over seeds."""
        shares = (share for end in ends(index) for share in self._exceeded(end).values())
        return max([0.0, *shares])

    def _exceeded(self, end: ValidationResult) -> dict[str, float]:
        """The excess of each constraint, cost / bound - 1: at most 0 where it is kept."""
        bounds = self.entry.constraints
        return {name: self.cost(end, name) / bound - 1 for name, bound in bounds.items()}

    def feasible(self, end: ValidationResult) -> bool:
        """Whether a run keeps the constraints."""
        return all(share <= 0 for share in self._exceeded(end).values())

    def cost(self, end: ValidationResult, name: str) -> float:
        """The cost of a run over all rounds; of one that ended before, in proportion."""
        rounds, sign = self.entry.settings.rounds, self.entry.task.sign
        if name == "rounds_to_target":
            target = self.study.target
            assert target is not None
            hits = (r for r, v in sorted(end.curve.items()) if sign * (v - target) >= 0)
            return next((r for r in hits if r > 0), rounds + 1)
        return end.spent.get(name, 0.0) * rounds / end.at if end.at else 0.0

    def _searched(self, index: int) -> list[ValidationResult]:
        end = self.ends.get(self.trial_id(TrialKind.SEARCH, index))
        return [] if end is None else [end]

    def results(self, index: int) -> list[ValidationResult]:
        """The results of a configuration: its search trial's, and its confirming runs'."""
        seeds = self.study.confirm.seeds if self.study.confirm else 0
        ids = [self.trial_id(TrialKind.CONFIRM, index, i) for i in range(seeds)]
        return self._searched(index) + [self.ends[i] for i in ids if i in self.ends]

    def _all_ended(self, last: int) -> bool:
        """Whether trials 0..last have ended."""
        while self._ended <= last and self._searched(self._ended):
            self._ended += 1
        return self._ended > last

    def _tell(self, last: int) -> None:
        """Tell the results of trials up to `last`: each once, in index order."""
        while self._told <= last:
            index, self._told = self._told, self._told + 1
            (end,) = self._searched(index)
            value, excess = self._value(end), self._exceeded(end)
            self.proposer.tell(index, Observation(end.status, value, end.intermediates, excess))

    def _value(self, end: ValidationResult) -> float:
        """A trial's score; the task's worst of one that diverged."""
        if end.status == Status.DIVERGED or end.value is None:
            return self.entry.task.worst
        return end.value
