"""An entry's early stopping, fed by hand with what trials would report."""

from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from types import SimpleNamespace

from ray.tune.utils import flatten_dict

from suite.execution import driver
from suite.execution.plan import Hooks
from suite.execution.stop_signal import Control
from suite.search.schedulers import EntrySchedulers
from suite.search.trial import TrialRequest
from suite.studies.entry import Entry
from trials.run.outcome import Status, TrialKind
from trials.run.result import TrialResult

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
    """A scheduler and the driver's callback, fed with what trials would report."""

    entries: list[Entry]
    scheduler: str = "asha"
    requests: dict[str, TrialRequest] = field(default_factory=dict)
    outcomes: dict[str, TrialResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.schedulers = EntrySchedulers(self.entries, self.requests, self.scheduler)
        self.decide = driver._Scheduler(self.schedulers)
        self.control = Control(Path("unused"))
        hooks = Hooks(lambda a, new: None, self._ended, self.control)
        search = SimpleNamespace(live=set())
        source = SimpleNamespace(requests=self.requests)
        self.callback = driver._Callback(source, search, hooks)

    def _ended(self, ask_: TrialRequest, outcome: TrialResult) -> None:
        self.outcomes[ask_.trial_id] = outcome

    def add(self, entry: Entry, index: int, kind: str = "search") -> SimpleNamespace:
        made = request(entry, index, kind)
        self.requests[made.trial_id] = made
        return SimpleNamespace(trial_id=made.trial_id, config={"checkpoint": "/nowhere/x.pt"})

    def report(self, trial, round_index: int, value: float, status: str = "running") -> str:
        """One result, as `FederatedTrial` gives it and Tune hands it around."""
        entry = {"round": round_index, "val_accuracy": value, "test_accuracy": 777.0}
        if status == "failed":
            said = TrialResult(error="ZeroDivisionError")
        else:
            scores = {round_index: value} if isfinite(value) else {}
            said = TrialResult(Status(status), [entry], scores, "abc", **RUN_AS)
        result = {**said.reported(), "training_iteration": 1}
        decision = self.decide.on_trial_result(None, trial, flatten_dict(result))
        self.callback.on_trial_result(0, [], trial, result)
        if decision == STOP or status != "running":
            self.callback.on_trial_complete(0, [], trial)
        return decision

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
