"""The search of one entry in one replicate: asks, results, and when what is due."""

from collections.abc import Iterable

from suite.search.candidates import Candidates
from suite.search.trial import InitialConfiguration, TrialRequest, ValidationResult
from trials.run.outcome import TrialKind
from trials.run.trial_id import REPEATS

CONFIRM_SEEDS = 1_000_000
"""Confirming runs use run seeds from study seed + this on: neither the search's nor final runs'."""


class EntrySearch:
    """The search of one entry in one replicate: asks, results, and when what is due.

    `candidates` are its configurations; `seed` is its run seed, which those of what repeats its trials
    are counted from.
    """

    def __init__(self, candidates: Candidates) -> None:
        self.candidates, self.entry, self.study = candidates, candidates.entry, candidates.study
        self.ends, self.replicate = candidates.ends, candidates.replicate
        self.seed = self.study.seed + self.replicate.seed
        self.partition_seed = self.entry.settings.partition_seed + self.replicate.partition
        self.requests: list[TrialRequest] = []
        self.repeats: dict[str, TrialRequest] = {}
        self._over = False

    @property
    def name(self) -> str:
        """Its `TrialRequest.search`."""
        return "-".join(filter(None, (self.entry.id, self.replicate.name)))

    @property
    def label(self) -> str:
        """Readable: the entry's name, and the replicate of those that are not the first."""
        return " · ".join(filter(None, (self.entry.name, self.replicate.name)))

    @property
    def searching(self) -> bool:
        """Whether search trials are still to be asked or to end."""
        return self.candidates.searching

    @property
    def open(self) -> int:
        """How many search trials run: some of the last, for each waits for the results of those long before it."""
        last = self.requests[-self.candidates.lag :]
        return sum(request.trial_id not in self.ends for request in last)

    @property
    def planned(self) -> int:
        """How many trials there will be."""
        study = self.study
        confirms = 0
        if study.confirm:
            confirms = min(study.confirm.best, self.candidates.budget) * study.confirm.seeds
        return self.candidates.budget + confirms + study.seeds

    @property
    def done(self) -> bool:
        """Whether every search trial and every run that repeats one has ended. A finished search is skipped."""
        self._over = self._over or (
            not self.searching
            and self.candidates.confirmed
            and all(request.trial_id in self.ends for request in self._due())
        )
        return self._over

    @property
    def best(self) -> TrialRequest | None:
        """The search trial whose configuration is chosen; None while there is none."""
        chosen = self.candidates.chosen
        return None if chosen is None or chosen >= len(self.requests) else self.requests[chosen]

    @property
    def current_confirms(self) -> list[TrialRequest]:
        """The runs that confirm the best few configurations, asked or not yet."""
        if self.study.confirm is None:
            return []
        seeds = range(self.study.confirm.seeds)
        return [
            self._repeat(TrialKind.CONFIRM, index, i, CONFIRM_SEEDS + i)
            for index in self.candidates.finalists
            for i in seeds
        ]

    @property
    def current_finals(self) -> list[TrialRequest]:
        """The final runs of the best configuration, asked or not yet."""
        chosen = self.candidates.chosen
        if chosen is None:
            return []
        return [self._repeat(TrialKind.FINAL, chosen, i, 1 + i) for i in range(self.study.seeds)]

    def next(self) -> TrialRequest | None:
        """The next trial, or None when there is none now: wait for results, or all is asked."""
        if len(self.requests) < self.candidates.budget:
            return self._next_search()
        if self.done or self.searching:
            return None
        request = next((a for a in self._due() if a.trial_id not in self.repeats), None)
        if request is not None:
            self.repeats[request.trial_id] = request
        return request

    def end(self, trial_id: str, end: ValidationResult) -> None:
        """Take the result of a trial. The sampler is told later, in index order."""
        self._over = False
        self.candidates.end(trial_id, end)

    def replay(self, requests: Iterable[TrialRequest]) -> None:
        """Take over the requests for a journal, whose `ends` are known already."""
        self._over = False
        for request in requests:
            if request.kind in REPEATS:
                self.repeats[request.trial_id] = request
            else:
                self.candidates.restore(
                    request.index,
                    InitialConfiguration(request.origin, request.params, request.source),
                )
                self.requests.append(request)

    def forget(self, request: TrialRequest) -> bool:
        """Drop an unfinished run that repeats what is not, or not yet again, to be repeated; whether
        it was one.
        """
        if request.kind not in REPEATS or (not self.searching and request in self._due()):
            return False
        del self.repeats[request.trial_id]
        return True

    def _due(self) -> list[TrialRequest]:
        """The runs that repeat search trials, as far as it is known which: first those that confirm."""
        finals = self.current_finals if self.candidates.confirmed else []
        return self.current_confirms + finals

    def _next_search(self) -> TrialRequest | None:
        i = len(self.requests)
        made = self.candidates.at(i)
        if made is None:
            return None
        self.requests.append(
            TrialRequest(
                trial_id=self.candidates.trial_id(TrialKind.SEARCH, i),
                entry_id=self.entry.id,
                kind=TrialKind.SEARCH,
                index=i,
                origin=made.origin,
                params=made.params,
                seed=self.seed,
                partition_seed=self.partition_seed,
                source=made.source,
                replicate=self.replicate.name,
            )
        )
        return self.requests[-1]

    def _repeat(self, kind: TrialKind, index: int, number: int, seed: int) -> TrialRequest:
        """The run that repeats search trial `index` with a seed that far from the search's."""
        made = self.candidates.proposer.made[index]
        varies = self.study.vary_partition and kind != TrialKind.CONFIRM
        return TrialRequest(
            trial_id=self.candidates.trial_id(kind, index, number),
            entry_id=self.entry.id,
            kind=kind,
            index=number,
            origin=made.origin,
            params=made.params,
            seed=self.seed + seed,
            partition_seed=self.partition_seed + seed * varies,
            source=self.candidates.trial_id(TrialKind.SEARCH, index),
            replicate=self.replicate.name,
        )
