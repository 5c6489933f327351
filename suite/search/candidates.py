"""The search of one entry in one replicate: which configuration is next, which is best, and what repeats that.

The k-th configuration that a sampler draws blindly has the learning rate at the share

    u_k = frac(u_0 + k / golden ratio)

of its range, on the range's scale, with one u_0 for all algorithms of a scenario in a replicate: equal ranges
give equal rates, and any number of draws is spread evenly.
"""

import itertools
import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from suite.search.proposer import Proposer
from suite.search.trial import InitialConfiguration, TrialRequest, ValidationResult
from suite.studies.entry import Entry
from suite.studies.replicates import FIRST, Replicate
from suite.studies.samplers import Sampler, find_sampler, first_modelled
from suite.studies.study import Study
from trials import heterogeneity
from trials.common import randomness
from trials.run.outcome import REPEATS, Status, TrialKind, trial_id

CONFIRM_SEEDS = 1_000_000
"""Confirming runs use run seeds from study seed + this on: neither the search's nor final runs'."""
RATE = "lr"
"""The hyperparameter whose draws are shared: the one that all algorithms have."""
GOLDEN = (math.sqrt(5) - 1) / 2


def shared_draw(number: int, scenario: Sequence[str], words: Sequence[int]) -> float:
    """Return the share u_k of its range at which draw `number` of a scenario has its learning rate; `words` are the
    study's seed and those of the replicate.
    """
    first = randomness.uniform("opening", zlib.crc32("|".join(scenario).encode()), *words)[0]
    return float((first + number * GOLDEN) % 1)


def random_startup(sampler: Sampler, lag: int) -> float:
    """Return how many of an entry's first trials a sampler suggests by uniform draws, whatever their results."""
    if not sampler.uniform:
        return 0
    first = first_modelled(sampler, lag)
    return math.inf if first is None else first - 1


class EntrySearch:
    """The search of one entry in one replicate.

    Search trial i waits for the results of 0..i-lag. `ends` are the results of all runs by id, `requests` the search
    trials by number, and `repeats` the runs that were asked to repeat one of them. `warm` are configurations to start
    from, after the default one and the published ones.
    """

    def __init__(
        self,
        entry: Entry,
        study: Study,
        lag: int,
        warm: Iterable[InitialConfiguration],
        replicate: Replicate = FIRST,
    ) -> None:
        self.entry, self.study, self.lag, self.replicate = entry, study, lag, replicate
        self.requests: list[TrialRequest] = []
        self.repeats: dict[str, TrialRequest] = {}
        self.ends: dict[str, ValidationResult] = {}
        self.sampler = find_sampler(study.sampler)
        self.budget = study.trials
        self._finalists, self._confirm_seeds = 1, 0
        if study.confirm:
            self._finalists, self._confirm_seeds = study.confirm.best, study.confirm.seeds
        words = (study.seed, int(entry.id, 16), *replicate.words)
        starts = [*self._first(), *warm]
        if self.sampler.grid:
            points = entry.space.grid(study.grid_points)
            # Shuffled, a budget that is smaller than the grid sees all of it thinly instead of a corner.
            order = np.argsort(randomness.bits("grid", *words, np.arange(len(points))))
            seen = [start.params for start in starts]
            shuffled = [points[i] for i in order if points[i] not in seen]
            starts += [InitialConfiguration("sampled", point) for point in shuffled]
            self.budget = min(study.trials, len(starts))
        direction = entry.task.direction
        self.proposer = Proposer(self.sampler, entry.space, starts, direction, words, self._opens)
        self._told = 0
        self._chosen: tuple[list[int], int | None] | None = None
        self._over = False

    def _first(self) -> list[InitialConfiguration]:
        """Return the default configuration and, at the study's first level, the published ones, each once."""
        space = self.entry.space
        configurations = [InitialConfiguration("default", space.default(self.entry.implied))]
        first_level = heterogeneity.parse(self.study.heterogeneity[0]).name
        if self.entry.scenario.heterogeneity == first_level:
            for stated in self.entry.known:
                params = space.default(stated.params)
                if params not in [start.params for start in configurations]:
                    configurations.append(InitialConfiguration("published", params))
        return configurations

    def _opens(self, index: int) -> dict[str, Any]:
        """Return the learning rate that all algorithms of the scenario share, of a configuration drawn blindly."""
        rate = self.entry.space.searched.get(RATE)
        if rate is None or index >= random_startup(self.sampler, self.lag):
            return {}
        drawn, words = index - len(self.proposer.known), (self.study.seed, *self.replicate.words)
        return {RATE: rate.at(shared_draw(drawn, self.entry.scenario, words))}

    @property
    def name(self) -> str:
        """Its `TrialRequest.search`."""
        return "-".join(filter(None, (self.entry.id, self.replicate.name)))

    @property
    def searching(self) -> bool:
        """Whether search trials are still to be asked or to end."""
        return len(self.requests) < self.budget or self.open > 0

    @property
    def open(self) -> int:
        """How many search trials run: some of the last, of which the sampler was not told yet."""
        return sum(request.trial_id not in self.ends for request in self.requests[self._told :])

    @property
    def planned(self) -> int:
        """How many runs there will be."""
        confirms = min(self._finalists, self.budget) * self._confirm_seeds
        return self.budget + confirms + self.study.seeds

    @property
    def modelled(self) -> int:
        """How many of the configurations can be the sampler's from results, at most."""
        first = first_modelled(self.sampler, self.lag)
        if first is None:
            return 0
        return max(0, self.budget - max(first - 1, len(self.proposer.known)))

    @property
    def done(self) -> bool:
        """Whether every search trial and every run that repeats one has ended. A finished search is skipped."""
        # Kept until a result comes: of a sweep with many entries Tune asks each of them thrice a step.
        if not self._over and not self.searching:
            self._over = all(request.trial_id in self.ends for request in self._due())
        return self._over

    def cut(self, budget: int) -> None:
        """Make no more search trials than that."""
        self.budget = min(self.budget, budget)

    def next(self) -> TrialRequest | None:
        """Return the next run, or None when there is none now: wait for results, or all is asked."""
        index = len(self.requests)
        if index < self.budget:
            if not self._tell(index - self.lag):
                return None
            configuration = self.proposer.propose(index)
            request = TrialRequest(
                trial_id=self._trial_id(TrialKind.SEARCH, index),
                entry_id=self.entry.id,
                kind=TrialKind.SEARCH,
                index=index,
                origin=configuration.origin,
                params=configuration.params,
                seed=self.study.seed + self.replicate.seed,
                partition_seed=self.entry.settings.partition_seed + self.replicate.partition,
                source=configuration.source,
                replicate=self.replicate.name,
            )
            self.requests.append(request)
            return request
        for request in () if self.done or self.searching else self._due():
            if request.trial_id not in self.repeats:
                self.repeats[request.trial_id] = request
                return request
        return None

    def end(self, trial_id: str, end: ValidationResult) -> None:
        """Take the result of a run. The sampler is told later, in index order."""
        self.ends[trial_id] = end
        self._chosen, self._over = None, False

    def replay(self, requests: Iterable[TrialRequest]) -> None:
        """Take over the requests of a journal, whose `ends` are known already. It may lack one that a person
        deleted: that trial runs again, and the sampler is told it and what follows then.
        """
        self._over = False
        for request in requests:
            if request.kind in REPEATS:
                self.repeats[request.trial_id] = request
                continue
            index = len(self.requests)
            self._tell(index - self.lag)
            self.requests.append(request)
            self.proposer.add(index, request.params)

    def forget(self, request: TrialRequest) -> bool:
        """Drop an unfinished run that repeats what is not, or not yet again, to be repeated; return whether
        it was one.
        """
        if request.kind not in REPEATS or (not self.searching and request in self._due()):
            return False
        del self.repeats[request.trial_id]
        return True

    @property
    def best(self) -> TrialRequest | None:
        """The search trial whose configuration is chosen; None while there is none."""
        chosen = self._choose()[1]
        return None if chosen is None else self.requests[chosen]

    @property
    def current_finals(self) -> list[TrialRequest]:
        """The final runs of the best configuration, asked or not yet."""
        chosen = self._choose()[1]
        seeds = range(0 if chosen is None else self.study.seeds)
        return [self._repeat(TrialKind.FINAL, chosen or 0, i, 1 + i) for i in seeds]

    def results(self, index: int) -> list[ValidationResult]:
        """Return the results of a configuration: its search trial's, and its confirming runs'."""
        kind = TrialKind.CONFIRM
        ids = [self._trial_id(kind, index, number) for number in range(self._confirm_seeds)]
        return self._searched(index) + [self.ends[i] for i in ids if i in self.ends]

    def _due(self) -> list[TrialRequest]:
        """Return the runs that repeat search trials, as far as it is known which: first those that confirm."""
        pairs = itertools.product(self._choose()[0], range(self._confirm_seeds))
        confirms = [self._repeat(TrialKind.CONFIRM, i, n, CONFIRM_SEEDS + n) for i, n in pairs]
        confirmed = all(request.trial_id in self.ends for request in confirms)
        return confirms + self.current_finals if confirmed else confirms

    def _choose(self) -> tuple[list[int], int | None]:
        """Return the best few search trials, which are confirmed where the study says so, and of these the one that is
        chosen by all its results.
        """
        if self._chosen is None:
            ranked = self._ranked({i: self._searched(i) for i in range(len(self.requests))})
            finalists = ranked[: self._finalists]
            confirmed = self._ranked({i: self.results(i) for i in finalists})
            self._chosen = finalists, next(iter([*confirmed, *finalists]), None)
        return self._chosen

    def _ranked(self, results: dict[int, list[ValidationResult]]) -> list[int]:
        """Return the configurations that ran to their end, best first: those that finished before those that diverged,
        then by how far constraints are exceeded, then by the mean score over seeds. Of equal ones the earliest is first.
        """
        keys: list[tuple[bool, float, float, int]] = []
        for index, ends in results.items():
            statuses = {end.status for end in ends}
            if not statuses or not statuses <= {Status.FINISHED, Status.DIVERGED}:
                continue
            excess = [0.0]
            for end in ends:
                excess += end.exceeded(self.entry, self.study.target).values()
            score = self.entry.task.sign * fmean(map(self._value, ends))
            keys.append((Status.DIVERGED in statuses, max(excess), -score, index))
        return [index for *_, index in sorted(keys)]

    def _value(self, end: ValidationResult) -> float:
        """Return a trial's score; the task's worst of one that diverged."""
        if end.status == Status.DIVERGED or end.value is None:
            return self.entry.task.worst
        return end.value

    def _tell(self, last: int) -> bool:
        """Tell the sampler the results of trials up to `last`, each once, in index order; return whether all have ended."""
        while self._told <= last:
            ends = self._searched(self._told)
            if not ends:
                return False
            (end,), excess = ends, ends[0].exceeded(self.entry, self.study.target)
            self.proposer.tell(self._told, end.status, self._value(end), end.intermediates, excess)
            self._told += 1
        return True

    def _searched(self, index: int) -> list[ValidationResult]:
        end = self.ends.get(self._trial_id(TrialKind.SEARCH, index))
        return [] if end is None else [end]

    def _trial_id(self, kind: TrialKind, index: int, number: int | None = None) -> str:
        return trial_id(self.name, kind, index, number)

    def _repeat(self, kind: TrialKind, index: int, number: int, seed: int) -> TrialRequest:
        """Return the run that repeats search trial `index` with a seed that far from the search's."""
        searched = self.requests[index]
        varies = self.study.vary_partition and kind == TrialKind.FINAL
        return replace(
            searched,
            trial_id=self._trial_id(kind, index, number),
            kind=kind,
            index=number,
            seed=searched.seed + seed,
            partition_seed=searched.partition_seed + seed * varies,
            source=searched.trial_id,
        )
