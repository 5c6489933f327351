"""The search of one entry (an algorithm in a scenario): its next trial, its best configuration, and the runs that repeat it.

The k-th configuration that a sampler draws at random has the learning rate at the share

    u_k = frac(u_0 + k / golden ratio)

of its range, on the range's scale. All algorithms of a scenario have the same u_0, so equal ranges give equal rates, and
any number of draws is spread evenly.
"""

import itertools
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from suite.search.line import RATE, RateLine
from suite.search.proposer import Proposer
from suite.search.trial import InitialConfiguration, TrialRequest, ValidationResult
from suite.studies.entries import Entry
from suite.studies.replicates import FIRST, Replicate
from suite.studies.samplers import Sampler, find_sampler, first_modelled
from suite.studies.study import Study
from trials import heterogeneity
from trials.common import randomness
from trials.run.outcome import REPEATS, Status, TrialKind, trial_id

CONFIRM_SEEDS = 1_000_000
"""The distance from the seed of a search trial to those of its confirming runs. No other run uses these seeds."""
GOLDEN = (math.sqrt(5) - 1) / 2


def shared_draw(number: int, scenario: Sequence[str], seeds: Sequence[int]) -> float:
    """Return the position of random learning rate `number` in its range, as a share from 0 to 1. For number k the share is
    frac(u_0 + k / golden ratio). `scenario` and `seeds` (of study and replicate) determine u_0.
    """
    first = randomness.uniform("opening", zlib.crc32("|".join(scenario).encode()), *seeds)[0]
    return float((first + number * GOLDEN) % 1)


def random_startup(sampler: Sampler, lag: int) -> float:
    """Return how many trials start with random values, before the sampler begins to use results. A trial's result is known `lag`
    trials later. Return infinity for random search, and 0 for samplers that do not begin at random, such as grid.
    """
    first = first_modelled(sampler, lag) or math.inf
    return first - 1 if sampler.uniform else 0


class EntrySearch:
    """The search of one entry in one replicate. Trial i is suggested from the results of trials 0 to i - lag.

    `requests` has the search trials by number, `repeats` the confirming and final runs by id, and `ends` the results of
    all runs by id. `starts` are the first configurations: the default one, published ones, then `warm` ones.
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
        self._finalists = study.confirm.best if study.confirm else 1
        self._confirm_seeds = study.confirm.seeds if study.confirm else 0
        seeds = (study.seed, int(entry.id, 16), *replicate.words)
        self.starts: list[InitialConfiguration] = []
        self._add(self._first())
        self.line: RateLine | None = None
        if self.sampler.line:
            self._settings = [*warm] or self.starts[:1]
            self.line = RateLine(entry.space, [each.params for each in self._settings], self.budget)
            self._add(map(self._of_line, self.line.opening()))
        else:
            self.starts += warm
        if self.sampler.grid:
            points = entry.space.grid(study.grid_points)
            # Shuffled, so that a budget below the grid's size samples the whole grid and not one corner.
            order = np.argsort(randomness.bits("grid", *seeds, np.arange(len(points))))
            seen = [start.params for start in self.starts]  # grid points differ from each other
            shuffled = [points[i] for i in order if points[i] not in seen]
            self.starts += [InitialConfiguration("sampled", point) for point in shuffled]
            self.budget = min(study.trials, len(self.starts))
        self.proposer = Proposer(self.sampler, entry.space, entry.task.direction, seeds)
        self._told = 0
        self._chosen: tuple[list[int], int | None] | None = None

    def _first(self) -> Iterator[InitialConfiguration]:
        """Yield the default configuration, then the published ones if the scenario has the study's first heterogeneity level."""
        space = self.entry.space
        yield InitialConfiguration("default", space.default(self.entry.implied))
        first_level = heterogeneity.parse(self.study.heterogeneity[0]).name
        if self.entry.scenario.heterogeneity == first_level:
            for stated in self.entry.known:
                yield InitialConfiguration("published", space.default(stated.params))

    def _add(self, starts: Iterable[InitialConfiguration]) -> None:
        """Append configurations to `self.starts`, and skip those that are already there."""
        for start in starts:
            if start.params not in (other.params for other in self.starts):
                self.starts.append(start)

    def _configuration(self, index: int) -> InitialConfiguration:
        """Return configuration number `index`: one of `starts`, the line search's next one, or the sampler's suggestion.
        Algorithms of the same scenario get the same random learning rates if their ranges are equal.
        """
        if index < len(self.starts):
            self.proposer.add(index, self.starts[index].params)
            return self.starts[index]
        if self.line is not None:
            return self._of_line(self.line.next([*map(self._ended, self.requests)]))
        rate, opening = self.entry.space.searched.get(RATE), {}
        if rate is not None and index < random_startup(self.sampler, self.lag):
            seeds = (self.study.seed, *self.replicate.words)
            share = shared_draw(index - len(self.starts), self.entry.scenario, seeds)
            opening = {RATE: rate.at(share)}
        return InitialConfiguration("sampled", self.proposer.suggest(index, opening))

    def _of_line(self, params: dict[str, Any]) -> InitialConfiguration:
        """Return `params` as a configuration. Its origin is "warm" if a warm start has the same values, learning rates aside."""
        assert self.line is not None
        others = self.line.others
        for setting in self._settings:
            if setting.origin == "warm" and others(setting.params) == others(params):
                return InitialConfiguration("warm", params, setting.source)
        return InitialConfiguration("sampled", params)

    def _ended(self, request: TrialRequest) -> tuple[dict[str, Any], float | None]:
        """Return a trial's configuration and score (larger is better; None if the trial failed, diverged or broke a constraint)."""
        end = self.ends[request.trial_id]
        lost = end.status in (Status.FAILED, Status.DIVERGED) or not end.feasible(self.entry)
        return request.params, None if lost else self.entry.task.sign * self._value(end)

    @property
    def name(self) -> str:
        """The search's id: the entry's id, then the replicate's name unless it is the first replicate."""
        return "-".join(filter(None, (self.entry.id, self.replicate.name)))

    @property
    def searching(self) -> bool:
        """Whether search trials are still running or yet to start."""
        return len(self.requests) < self.budget or self.open > 0

    @property
    def open(self) -> int:
        """The number of search trials that are running."""
        # The sampler knows the results of all trials before `_told`.
        return sum(request.trial_id not in self.ends for request in self.requests[self._told :])

    @property
    def planned(self) -> int:
        """The total number of search trials, confirming runs and final runs of the search."""
        confirms = min(self._finalists, self.budget) * self._confirm_seeds
        return self.budget + confirms + self.study.seeds

    @property
    def modelled(self) -> int:
        """An upper bound on the number of search trials whose configurations are chosen from earlier results."""
        if self.line is not None:
            return max(0, self.budget - len(self.starts))
        first = first_modelled(self.sampler, self.lag)
        return 0 if first is None else max(0, self.budget - max(first - 1, len(self.starts)))

    @property
    def done(self) -> bool:
        """Whether all search trials, confirming runs and final runs have ended."""
        return not self.searching and all(request.trial_id in self.ends for request in self._due())

    def cut(self, budget: int) -> None:
        """Lower the number of search trials to `budget`, unless it is smaller already."""
        self.budget = min(self.budget, budget)

    def next(self) -> TrialRequest | None:
        """Return the next run, or None if it must wait for results or all runs were requested."""
        index = len(self.requests)
        if index < self.budget:
            # After its opening, each step of a line needs the results of all earlier trials.
            lag = 1 if self.line is not None and index >= len(self.starts) else self.lag
            if not self._tell(index - lag):
                return None
            configuration = self._configuration(index)
            request = TrialRequest(
                trial_id=self._trial_id(TrialKind.SEARCH, index),
                entry_id=self.entry.id,
                kind=TrialKind.SEARCH,
                index=index,
                seed=self.study.seed + self.replicate.seed,
                partition_seed=self.entry.settings.partition_seed + self.replicate.partition,
                replicate=self.replicate.name,
                **vars(configuration),
            )
            self.requests.append(request)
            return request
        for request in () if self.searching else self._due():
            if request.trial_id not in self.repeats:
                self.repeats[request.trial_id] = request
                return request
        return None

    def end(self, trial_id: str, end: ValidationResult) -> None:
        """Store the result of a run. The sampler gets results later, in the order of trial numbers."""
        self.ends[trial_id] = end
        self._chosen = None

    def replay(self, requests: Iterable[TrialRequest]) -> None:
        """Restore the search from a journal's `requests`. The results must be in `ends` already. The sampler gets them in the
        order of trial numbers, up to the first trial without a result.
        """
        for request in requests:
            if request.kind in REPEATS:
                self.repeats[request.trial_id] = request
                continue
            index = len(self.requests)
            self._tell(index - self.lag)
            self.requests.append(request)
            self.proposer.add(index, request.params)

    def forget(self, request: TrialRequest) -> bool:
        """Drop a confirming or final run that is not needed any more, and return whether the run was dropped."""
        if request.kind not in REPEATS or (not self.searching and request in self._due()):
            return False
        del self.repeats[request.trial_id]
        return True

    @property
    def best(self) -> TrialRequest | None:
        """The search trial with the winning configuration, or None if no trial can be ranked yet."""
        _, chosen = self._choose()
        return None if chosen is None else self.requests[chosen]

    @property
    def current_finals(self) -> list[TrialRequest]:
        """The final runs of the best configuration, whether they were requested or not."""
        best, seeds = self.best, range(self.study.seeds)
        return [self._repeat(TrialKind.FINAL, best, i, 1 + i) for i in seeds] if best else []

    def results(self, index: int) -> list[ValidationResult]:
        """Return the results so far of configuration `index`, from its search trial and its confirming runs."""
        numbers = range(self._confirm_seeds)
        confirms = [self._trial_id(TrialKind.CONFIRM, index, number) for number in numbers]
        ids = [self.requests[index].trial_id, *confirms]
        return [self.ends[trial_id] for trial_id in ids if trial_id in self.ends]

    def _due(self) -> list[TrialRequest]:
        """Return the runs due after the search: repeats of the best trials (other seeds) and, once these have ended, final runs."""
        finalists = [self.requests[index] for index in self._choose()[0]]
        confirms = [
            self._repeat(TrialKind.CONFIRM, finalist, number, CONFIRM_SEEDS + number)
            for finalist, number in itertools.product(finalists, range(self._confirm_seeds))
        ]
        confirmed = all(request.trial_id in self.ends for request in confirms)
        return confirms + self.current_finals if confirmed else confirms

    def _choose(self) -> tuple[list[int], int | None]:
        """Return the indices of the best search trials, and the winner's index. The winner is the one of these trials with the
        best results, its confirming runs included. Its index is None until a search trial has finished or diverged.
        """
        if self._chosen is None:
            ends = [self.ends.get(request.trial_id) for request in self.requests]
            searched = {index: [end] for index, end in enumerate(ends) if end is not None}
            finalists = self._ranked(searched)[: self._finalists]
            confirmed = self._ranked({index: self.results(index) for index in finalists})
            self._chosen = finalists, next(iter([*confirmed, *finalists]), None)
        return self._chosen

    def _ranked(self, results: dict[int, list[ValidationResult]]) -> list[int]:
        """Return the indices of configurations whose runs all finished or diverged, best first. Diverged configurations come
        last. The others are sorted by the largest excess over a constraint, then by mean score.
        """
        keys: list[tuple[bool, float, float, int]] = []
        for index, ends in results.items():
            statuses = {end.status for end in ends}
            if not statuses <= {Status.FINISHED, Status.DIVERGED}:
                continue
            diverged = Status.DIVERGED in statuses
            excess = [0.0]
            for end in ends:
                excess += end.exceeded(self.entry).values()
            score = self.entry.task.sign * fmean(map(self._value, ends))
            keys.append((diverged, max(excess), -score, index))
        return [index for *_, index in sorted(keys)]

    def _value(self, end: ValidationResult) -> float:
        """Return a run's validation score, or the task's worst score if the run diverged or has none."""
        if end.status == Status.DIVERGED or end.value is None:
            return self.entry.task.worst
        return end.value

    def _tell(self, last: int) -> bool:
        """Give the sampler the results of trials up to number `last`, in order. Stop and return False at an unfinished trial."""
        while self._told <= last:
            end = self.ends.get(self.requests[self._told].trial_id)
            if end is None:
                return False
            self.proposer.tell(self._told, end, self._value(end), end.exceeded(self.entry))
            self._told += 1
        return True

    def _trial_id(self, kind: TrialKind, index: int, number: int | None = None) -> str:
        return trial_id(self.name, kind, index, number)

    def _repeat(
        self, kind: TrialKind, searched: TrialRequest, number: int, seed: int
    ) -> TrialRequest:
        """Return the request for run `number` of this kind. It repeats the trial `searched` with `seed` added to the run seed."""
        return replace(
            searched,
            trial_id=self._trial_id(kind, searched.index, number),
            kind=kind,
            index=number,
            seed=searched.seed + seed,
            source=searched.trial_id,
        )
