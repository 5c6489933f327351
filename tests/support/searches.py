"""Studies and entries made by hand, and a player that runs a sweep's search without Ray."""

import dataclasses
import json
import random
import zlib
from collections.abc import Callable
from typing import Any

import optuna
from pydantic import TypeAdapter

from suite.search.candidates import EntrySearch
from suite.search.sweep_search import SweepSearch
from suite.search.trial import TrialRequest, ValidationResult
from suite.studies.entries import Entry, make_entries
from suite.studies.study import Study
from trials.run.outcome import ENDINGS, Status
from trials.run.spec import TrialSpec
from trials.settings import Settings

BASE = {
    "algorithms": ["fedavg"],
    "datasets": ["digits"],
    "models": ["logreg"],
    "heterogeneity": ["iid"],
}
Ending = Callable[[TrialRequest], ValidationResult]


def a_study(**given: Any) -> Study:
    """FedAvg on digits, unless told otherwise."""
    return Study.model_validate({**BASE, **given})


def entries_of(**given: Any) -> list[Entry]:
    """The entries of `a_study`; no data are loaded."""
    return make_entries(a_study(**given), "test")


def a_trial(algorithm: str = "fedavg", model: str = "logreg", **given: Any) -> TrialSpec:
    """A trial on digits, with nothing searched."""
    place = {"dataset": "digits", "model": model, "heterogeneity": "iid"}
    settings = Settings(**{"rounds": 3, "clients": 8, "participation": 1.0, **given})
    return TrialSpec(algorithm=algorithm, params={}, **place, settings=settings, seed=0)


def finished(value: float) -> ValidationResult:
    """A trial that ran to its end."""
    return ValidationResult(Status.FINISHED, value, {5: value / 2, 10: value})


def surprising(request: TrialRequest) -> ValidationResult:
    """An end that looks random but depends on the trial alone: every status occurs."""
    draw = random.Random(zlib.crc32(request.trial_id.encode()))
    value = draw.random()
    (status,) = draw.choices(ENDINGS, [6, 2, 1, 1])
    if status == Status.FAILED:
        return ValidationResult(Status.FAILED, None, {})
    return ValidationResult(status, value, {1: draw.random(), 3: value})


class Player:
    """Runs a search as the driver would: at most `concurrent` at once, ending in any order.

    `log` is what the journal would hold: ("ask", Ask) and ("end", trial id, End).
    """

    def __init__(self, sweep: SweepSearch, ending: Ending = surprising) -> None:
        self.sweep, self.ending = sweep, ending
        self.log: list[tuple[Any, ...]] = []
        self.running: list[TrialRequest] = []
        self.again: list[TrialRequest] = []

    def play(
        self, draw: random.Random | None = None, concurrent: int = 1, limit: int = 10**6
    ) -> "Player":
        """Until nothing is left, or `limit` events are logged (a kill)."""
        draw = draw or random.Random(0)
        while len(self.log) < limit:
            asked = self._request() if len(self.running) < concurrent else False
            if not self.running:
                assert self.sweep.exhausted, "nothing runs, nothing is handed out, nothing is over"
                break
            if not asked or draw.random() < 0.5:
                request = self.running.pop(draw.randrange(len(self.running)))
                end = self.ending(request)
                self.log.append(("end", request.trial_id, end))
                self.sweep.end(request.trial_id, end)
        return self

    def _request(self) -> bool:
        found = self.sweep.next()
        if found is None:
            return False
        request, new = found
        self.running.append(request)
        if new:
            self.log.append(("request", request))
        else:
            self.again.append(request)
        return True

    def requests(self, kind: str | None = None) -> list[TrialRequest]:
        """All that was asked anew, in order."""
        return [e[1] for e in self.log if e[0] == "request" and kind in (None, e[1].kind)]


def by_entry(requests: list[TrialRequest]) -> dict[str, list[TrialRequest]]:
    """The requests for each entry, each replicate on its own, in order."""
    searches = sorted({a.search for a in requests})
    return {search: [a for a in requests if a.search == search] for search in searches}


def replay(sweep: SweepSearch, log: list[tuple[Any, ...]]) -> SweepSearch:
    """Rebuild a fresh search from a log that went through JSON, as a journal does."""
    requests, ends = [], {}
    for event in log:
        plain = json.loads(json.dumps(dataclasses.asdict(event[-1])))
        if event[0] == "request":
            requests.append(TypeAdapter(TrialRequest).validate_python(plain))
        elif event[0] == "end":
            plain["intermediates"] = {int(k): v for k, v in plain["intermediates"].items()}
            ends[event[1]] = ValidationResult(**{**plain, "status": Status(plain["status"])})
    sweep.replay(requests, ends)
    return sweep


def sweep_of(lag: int = 4, **given: Any) -> SweepSearch:
    """The search of `a_study`."""
    return SweepSearch(entries_of(**given), a_study(**given), lag)


def told(search: EntrySearch) -> list[optuna.trial.FrozenTrial]:
    """What Optuna knows of an entry's trials."""
    return search.proposer._optuna.get_trials(deepcopy=False)


def play_one(
    ends: dict[int, ValidationResult],
    trials: int,
    entry: Entry | None = None,
    seeds: int = 2,
    **given: Any,
) -> tuple[Player, EntrySearch]:
    """One entry whose search trial i ends with `ends[i]`, else finished(0.1); finals finish."""
    study = a_study(trials=trials, seeds=seeds, **given)
    sweep = SweepSearch([entry or entries_of(**given)[0]], study)
    default = finished(0.1)
    player = Player(sweep, lambda a: ends.get(a.index, default) if a.kind == "search" else default)
    player.play()
    return player, next(iter(sweep.entries.values()))
