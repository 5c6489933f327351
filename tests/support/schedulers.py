"""An entry's early stopping, fed by hand with what trials would report."""

from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from suite.execution.cluster import Cluster
from suite.execution.dispatch import Dispatch, ExecutionPlan, Hooks, Trial
from suite.execution.resources import Resources
from suite.execution.stop_signal import Control
from suite.search.schedulers import EntrySchedulers
from suite.search.trial import TrialRequest
from suite.studies.entry import Entry
from trials.run.outcome import Status, TrialKind, TrialResult

STOP, CONTINUE, NAN = "STOP", "CONTINUE", float("nan")
LEVELS = ["iid", "labels(2)"]
SETTINGS = {"rounds": 50}
RUN_AS = {"execution": "batched", "chunk": 4}
"""How a trial says it was computed."""


def request(entry: Entry, index: int, kind: str = "search") -> TrialRequest:
    trial_id = f"{entry.id}-{kind[0]}{index:04d}"
    return TrialRequest(trial_id, entry.id, TrialKind(kind), index, "sampled", {"lr": 0.1}, 0, 0)


@dataclass
class Bench:
    """The driver's one place that decides, told what trials would report: each is alone in a process of its name."""

    entries: list[Entry]
    scheduler: str = "asha"
    requests: dict[str, TrialRequest] = field(default_factory=dict)
    outcomes: dict[str, TrialResult] = field(default_factory=dict)
    died: list[tuple[str, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.control = Control(Path("unused"))
        hooks = Hooks(lambda a, new: None, self._ended, self.control, self._died)
        source: Any = SimpleNamespace(requests=self.requests, next=lambda: None, exhausted=False)
        nowhere = Path("nowhere")
        resources = Resources(max_concurrent=4)
        plan = ExecutionPlan(
            source, {}, resources, hooks, nowhere, "/nowhere", self.entries, self.scheduler
        )
        self.dispatch = Dispatch(plan, Cluster(resources))
        self.schedulers = self.dispatch.schedulers

    def _ended(self, ask_: TrialRequest, outcome: TrialResult) -> None:
        self.outcomes[ask_.trial_id] = outcome

    def _died(self, ask_: TrialRequest, outcome: TrialResult, again: bool) -> None:
        self.died.append((outcome.error, again))

    def add(self, entry: Entry, index: int, kind: str = "search") -> str:
        """The id of a trial whose process has begun."""
        made = request(entry, index, kind)
        self.requests[made.trial_id] = made
        self.begin(made.trial_id)
        return made.trial_id

    def begin(self, trial_id: str) -> None:
        """A process begins with a trial, for the first time or again."""
        trial = self.dispatch._trials.setdefault(trial_id, Trial(self.requests[trial_id]))
        trial.outcome = TrialResult()
        self.dispatch.packs[trial_id] = [trial_id]
        self.dispatch.began(trial_id)

    def report(self, trial_id: str, round_index: int, value: float, status: str = "running") -> str:
        """What a process says of its trial, handed around as Tune does it."""
        entry = {"round": round_index, "val_accuracy": value, "test_accuracy": 777.0}
        if status == "failed":
            news = TrialResult(error="ZeroDivisionError")
        else:
            scores = {round_index: value} if isfinite(value) else {}
            news = TrialResult(Status(status), [entry], scores, "abc", **RUN_AS)
        return self.take(trial_id, news)

    def take(self, trial_id: str, news: TrialResult) -> str:
        """One report."""
        stops = self.dispatch.prunes(trial_id, news)
        self.dispatch.reported(trial_id, {trial_id: news})
        if stops or news.status != Status.RUNNING:
            self.dispatch.stopped(trial_id)
        return STOP if stops else CONTINUE

    def run(self, trial, entry: Entry, value: float) -> int:
        """A trial that always scores `value`; the round at which it ended."""
        for stop in entry.stops:
            if self.report(trial, stop, value) == STOP:
                return stop
        self.report(trial, entry.settings.rounds, value, "finished")
        return entry.settings.rounds

    def rungs(self) -> dict[str, list]:
        """What each entry's ASHA remembers: (round, score of each trial)."""
        return rungs(self.schedulers)


def rungs(schedulers: EntrySchedulers) -> dict[str, list]:
    return {
        search: [(at, dict(scores)) for at, scores in halving.rungs.items()]
        for search, halving in schedulers.searches.items()
    }


def replayed(bench: Bench) -> EntrySchedulers:
    fresh = EntrySchedulers(bench.entries, bench.requests, bench.scheduler)
    fresh.replay(bench.outcomes)
    return fresh
