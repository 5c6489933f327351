"""The search of a whole sweep: which trial is next, in an order that timing cannot change.

An entry (an algorithm in a scenario) first has its search trials: the default configuration, published and warm ones, then
those of the sampler. If the study confirms, the best few configurations run again with further search seeds. Once all
of these have ended, the best configuration runs again with fresh seeds: the final runs.

Trial i is suggested only from the results of trials 0 to i - lag, and with a seed that is a hash of (study seed, entry, i).
A sweep without early stopping is therefore the same whatever runs beside it. The search sees validation scores and
counters, and never a test metric.
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
"""With fewer trials for each searched hyperparameter, a person is warned."""


class SweepSearch:
    """The searches of all entries, whose trials are handed out in turn, so that no entry waits for another.

    `entries` has the searches by `TrialRequest.search`. `warm` are configurations to start from, by entry id. `lag` is how
    many trials of a search may run at once.
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
        """A check for lack of time, called before the first trial of a new number in a scenario. True ends the search there."""
        for replicate, entry in itertools.product(study.replicates, entries):
            starts = (warm or {}).get(entry.id, ())
            search = EntrySearch(entry, study, lag, starts, replicate)
            self.entries[search.name] = search
            self._rivals[entry.scenario].append(search)
        self.requests: dict[str, TrialRequest] = {}
        self.again: list[TrialRequest] = []
        self._turn = 0

    def replay(self, requests: list[TrialRequest], ends: Mapping[str, ValidationResult]) -> None:
        """Restore the search from the requests and results of a journal. Unfinished trials run again, except confirming and
        final runs that an extended sweep no longer needs.
        """
        by_search: dict[str, list[TrialRequest]] = defaultdict(list)
        for request in requests:
            by_search[request.search].append(request)
            if request.trial_id in ends:
                self.entries[request.search].end(request.trial_id, ends[request.trial_id])
        for name, search in self.entries.items():
            search.replay(by_search[name])
        self.requests = {request.trial_id: request for request in requests}
        unfinished = [request for request in self.requests.values() if request.trial_id not in ends]
        self.again = [
            request for request in unfinished if not self.entries[request.search].forget(request)
        ]

    def next(self) -> tuple[TrialRequest, bool] | None:
        """Return the next trial, and whether it starts for the first time. Return None if every search has ended or waits for results."""
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
        """Store the result of a trial in its search."""
        self.entries[self.requests[trial_id].search].end(trial_id, end)

    def begun(self, search: EntrySearch) -> int:
        """Return the number of trials begun by the search that is furthest ahead in the scenario of `search`."""
        return max(len(rival.requests) for rival in self._rivals[search.entry.scenario])

    def cut(self) -> None:
        """End the search early. Each search still gets as many trials as the furthest one in its scenario, but at least one."""
        for search in self.entries.values():
            search.cut(max(1, self.begun(search)))
        self.pressed = None

    @property
    def firsts(self) -> list[EntrySearch]:
        """Return the searches of the first replicate, one for each entry."""
        return [search for search in self.entries.values() if not search.replicate.name]

    @property
    def warnings(self) -> list[str]:
        """Return warnings for the person who starts this sweep, one line each."""
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
                f"{', '.join(thin)} ({max(needs.values())} would be enough): the winner depends much on luck"
            )
        outside = {entry.label: entry.outside() for entry in entries if entry.outside()}
        lines += [f"{name} is shown unranked: {reason}" for name, reason in outside.items()]
        if unscored := dict.fromkeys(entry.label for entry in entries if entry.unscored):
            lines.append(
                f"{', '.join(unscored)}: the server's model is ranked, so hyperparameters that affect only personal models "
                "cannot change the score: metric=personal ranks personal models"
            )
        return lines

    @property
    def unmet(self) -> list[str]:
        """Return a line of text for each search whose winner breaks a constraint."""
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
        """Return how many runs each entry will have in all its replicates together, by entry id."""
        planned: Counter[str] = Counter()
        for search in self.entries.values():
            planned[search.entry.id] += search.planned
        return planned

    @property
    def current_finals(self) -> set[str]:
        """Return the trial ids of the current winners' final runs, including runs that are not requested yet."""
        finals = [search.current_finals for search in self.entries.values()]
        return {request.trial_id for request in itertools.chain(*finals)}

    @property
    def exhausted(self) -> bool:
        """Return whether all runs of all searches have ended."""
        return not self.again and all(entry.done for entry in self.entries.values())

    @property
    def code(self) -> set[str]:
        """Return the names that may stand for third-party code: those of all algorithms, data sets, models and levels."""
        entries = [search.entry for search in self.entries.values()]
        return {name for entry in entries for name in (entry.algorithm, *entry.scenario.code)}

    def spec(self, request: TrialRequest) -> TrialSpec:
        """Return the specification of a requested trial."""
        return request.spec(self.entries[request.search].entry)
