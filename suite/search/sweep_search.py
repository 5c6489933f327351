"""The search: which trial is next, in an order that timing cannot change.

An entry hands out its search trials first (default configuration, published and warm configurations, then the
sampler's); then, where the study confirms, its best few configurations with further search seeds;
and once all of them have ended, its best configuration again with fresh seeds: the final runs.

Suggestion i depends on the results of trials 0..i-lag only, told to the sampler in index order, and
on a seed that is a hash of (study seed, entry, i). So a sweep without early stopping is the same
whatever runs beside it. Nothing here ever sees a test metric: `end` takes validation scores and
counters.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from suite.search.candidates import EntrySearch
from suite.search.trial import InitialConfiguration, TrialRequest, ValidationResult
from suite.studies.entries import Entry
from suite.studies.samplers import LAG, find_sampler, first_modelled, searched_by
from suite.studies.study import Study
from trials.run.spec import Scenario, TrialSpec

BUDGET = 4
"""The fewest trials for each searched hyperparameter of which nobody is warned."""


class SweepSearch:
    """All entries' searches: hands out trials round robin, so that no entry waits for another.

    `entries` has them by `TrialRequest.search`: an entry's id, and of its further replicates with their name.
    `warm` are configurations to start from, by entry.
    """

    def __init__(
        self,
        entries: list[Entry],
        study: Study,
        lag: int = LAG,
        warm: Mapping[str, Sequence[InitialConfiguration]] | None = None,
    ) -> None:
        self.study, self.lag = study, lag
        self.entries: dict[str, EntrySearch] = {}
        self._rivals: dict[Scenario, list[EntrySearch]] = defaultdict(list)
        self.pressed: Callable[[], bool] | None = None
        """Asked before a scenario begins a further number of trials: whether the search ends here."""
        for replicate, entry in itertools.product(study.replicates, entries):
            starts = (warm or {}).get(entry.id, ())
            search = EntrySearch(entry, study, lag, starts, replicate)
            self.entries[search.name] = search
            self._rivals[entry.scenario].append(search)
        self.requests: dict[str, TrialRequest] = {}
        self.again: list[TrialRequest] = []
        self._turn = 0

    def replay(self, requests: list[TrialRequest], ends: Mapping[str, ValidationResult]) -> None:
        """Rebuild from a journal. Of several requests for a trial the last holds. Trials without an end are
        handed out again, as they were; but runs that repeat a search trial only if they still should, now
        that the sweep may have grown.
        """
        of_search: dict[str, list[TrialRequest]] = defaultdict(list)
        for request in requests:
            of_search[request.search].append(request)
            if request.trial_id in ends:
                self.entries[request.search].end(request.trial_id, ends[request.trial_id])
        for name, search in self.entries.items():
            search.replay(of_search[name])
        self.requests = {request.trial_id: request for request in requests}
        unfinished = [request for request in self.requests.values() if request.trial_id not in ends]
        self.again = [
            request for request in unfinished if not self.entries[request.search].forget(request)
        ]

    def next(self) -> tuple[TrialRequest, bool] | None:
        """Return the next trial and whether it is new; None when there is none now."""
        if self.again:
            return self.again.pop(0), False
        entries = list(self.entries.values())
        for step in range(len(entries)):
            search = entries[(self._turn + step) % len(entries)]
            first = len(search.requests) == self.begun(search) < search.budget
            if first and self.pressed is not None and self.pressed():
                self.cut()
            request = search.next()
            if request is not None:
                self._turn = (self._turn + step + 1) % len(entries)
                self.requests[request.trial_id] = request
                return request, True
        return None

    def end(self, trial_id: str, end: ValidationResult) -> None:
        """Take the result of a trial."""
        self.entries[self.requests[trial_id].search].end(trial_id, end)

    def begun(self, search: EntrySearch) -> int:
        """Return how many trials the entry of its scenario has begun that is furthest."""
        return max(len(rival.requests) for rival in self._rivals[search.entry.scenario])

    def cut(self) -> None:
        """Search no further: what one entry of a scenario has begun, all of them run, one trial at least."""
        for search in self.entries.values():
            search.cut(max(1, self.begun(search)))
        self.pressed = None

    @property
    def firsts(self) -> list[EntrySearch]:
        """The search of each entry's first replicate; the others are alike."""
        return [search for search in self.entries.values() if not search.replicate.name]

    @property
    def warnings(self) -> list[str]:
        """What whoever starts this search is to be warned of, in words."""
        study, entries = self.study, [search.entry for search in self.firsts]
        lines = []
        for search in self.firsts:
            if search.budget < study.trials:
                lines.append(
                    f"{search.entry.name}: the whole grid is {search.budget} configurations, fewer than the "
                    f"{study.trials} trials allowed"
                )
        blind = sum(not search.modelled for search in self.firsts)
        if blind and first_modelled(find_sampler(study.sampler), self.lag) is not None:
            count = f"{blind} of {len(entries)} entries"
            how = searched_by(study.sampler, study.trials, self.lag)
            lines.append(f"{how}: 0 modelled suggestions in {count}")
        needs = {entry.label: BUDGET * len(entry.space.searched) for entry in entries}
        thin = [name for name, least in needs.items() if study.trials < least]
        if thin and not find_sampler(study.sampler).line:
            lines.append(
                f"{study.trials} trials are fewer than {BUDGET} for each searched hyperparameter of "
                f"{', '.join(thin)} ({max(needs.values())} would be enough): how lucky a search is decides much"
            )
        outside = {entry.label: entry.outside() for entry in entries if entry.outside()}
        lines += [f"{name} is shown unranked: {reason}" for name, reason in outside.items()]
        if unscored := dict.fromkeys(entry.label for entry in entries if entry.unscored):
            lines.append(
                f"{', '.join(unscored)}: the server's model is ranked, so a hyperparameter of the clients' own models alone "
                "cannot change the score: metric=personal ranks these"
            )
        return lines

    @property
    def unmet(self) -> list[str]:
        """The entries of which no configuration keeps the constraints, in words."""
        lines = []
        for search in self.entries.values():
            results = search.results(search.best.index) if search.best else []
            if not all(end.feasible(search.entry) for end in results):
                name = " · ".join(filter(None, (search.entry.name, search.replicate.name)))
                exceeds = "no configuration keeps the constraints; the one that exceeds them least"
                lines.append(f"{name}: {exceeds} was chosen")
        return lines

    @property
    def planned_by_entry(self) -> Counter[str]:
        """How many trials there will be of each entry."""
        planned: Counter[str] = Counter()
        for search in self.entries.values():
            planned[search.entry.id] += search.planned
        return planned

    @property
    def current_finals(self) -> set[str]:
        """The final runs of what is best now, asked or not yet."""
        finals = [search.current_finals for search in self.entries.values()]
        return {request.trial_id for request in itertools.chain(*finals)}

    @property
    def exhausted(self) -> bool:
        """Whether every trial of every entry has ended."""
        return not self.again and all(entry.done for entry in self.entries.values())

    @property
    def code(self) -> set[str]:
        """The names in all entries; some may load third-party code."""
        entries = [search.entry for search in self.entries.values()]
        return {name for entry in entries for name in (entry.algorithm, *entry.scenario.code)}

    def spec(self, request: TrialRequest) -> TrialSpec:
        """Return the trial that a request runs."""
        return request.spec(self.entries[request.search].entry)
