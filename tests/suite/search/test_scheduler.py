"""Early stopping: one ASHA per entry, fed by hand through the driver's one place that decides; Ray is never started."""

import random
from dataclasses import dataclass, field
from math import isfinite, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from suite.execution.cluster import Cluster
from suite.execution.dispatch import Dispatch, ExecutionPlan, Hooks
from suite.execution.resources import Resources
from suite.execution.stop_signal import Control
from suite.search.schedulers import EntrySchedulers
from suite.search.trial import TrialRequest, ValidationResult
from suite.studies.entries import Entry
from tests.support.searches import entries_of
from trials.run.outcome import Status, TrialKind, TrialResult

SETTINGS = {"rounds": 50}


@dataclass
class Bench:
    """A driver that is told what trials would report, and what each reported in all."""

    entries: list[Entry]
    scheduler: str = "asha"
    requests: dict[str, TrialRequest] = field(default_factory=dict)
    outcomes: dict[str, TrialResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        source: Any = SimpleNamespace(requests=self.requests, spec=lambda request: request)
        hooks = Hooks(lambda a, new: None, lambda a, o: None, Control(Path("unused")))
        resources, memory = Resources(), {entry.id: 5 for entry in self.entries}
        where = Path("tune"), "/places", self.entries, self.scheduler
        plan = ExecutionPlan(source, {}, resources, hooks, *where, memory=memory)
        self.dispatch = Dispatch(plan, Cluster(resources))
        self.schedulers = self.dispatch.schedulers

    def add(self, entry: Entry, index: int, kind: str = "search") -> str:
        trial_id = f"{entry.id}-{kind[0]}{index:04d}"
        more = TrialKind(kind), index, "sampled", {"lr": 0.1}, 0, 0
        self.requests[trial_id] = TrialRequest(trial_id, entry.id, *more)
        self.outcomes[trial_id] = TrialResult()
        return trial_id

    def report(self, trial_id: str, at: int, value: float, status: str = "running") -> bool:
        """What a process says of its trial after a round; whether the trial is stopped."""
        scores = {at: value} if isfinite(value) else {}
        history = [] if status == "failed" else [{"round": at, "val_accuracy": value}]
        news = TrialResult(Status(status), history, {} if status == "failed" else scores)
        self.outcomes[trial_id].add(news)
        stops = self.dispatch.prunes(trial_id, news)
        if stops:
            self.outcomes[trial_id].status = Status.PRUNED
        return stops

    def replayed(self) -> EntrySchedulers:
        fresh = EntrySchedulers(self.entries, self.requests, self.scheduler)
        fresh.replay({name: ValidationResult.of(end) for name, end in self.outcomes.items()})
        return fresh


@pytest.fixture
def bench() -> Bench:
    """An easy entry and a hard one, stops at rounds 5, 15 and 45 of 50."""
    bench = Bench(entries_of(heterogeneity=["iid", "labels(2)"], settings=SETTINGS))
    assert [entry.stops for entry in bench.entries] == [(5, 15, 45)] * 2
    return bench


def reports(bench: Bench, draw: random.Random, trials: int, dying: str) -> None:
    """Trials of both entries report in turns; some are stopped, some end as `dying` on the way."""
    live = []
    for entry in bench.entries:
        for i in range(trials):
            steps = [5, 10, 15, 30, 45, 50]
            dies = draw.choice(steps) if dying and draw.random() < 0.4 else None
            live.append((bench.add(entry, i), steps, dies))
    while live:
        turn = draw.choice(live)
        trial, steps, dies = turn
        at = steps.pop(0)
        status = dying if at == dies else "finished" if at == 50 else "running"
        value = draw.choice([draw.random(), nan]) if status == "diverged" else draw.random()
        if bench.report(trial, at, value, status) or status != "running":
            live.remove(turn)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dying", ["", "diverged", "failed"])
def test_replay_rebuilds_the_rungs_and_decides_as_the_live_one(bench, dying, seed):
    """ASHA is not shown what a trial reports when it is over; what it reported before, it is."""
    draw = random.Random(seed)
    reports(bench, draw, 12, dying)
    statuses = {outcome.status for outcome in bench.outcomes.values()}
    assert statuses == {"finished", "pruned", *filter(None, [dying])}
    resumed, decisions = bench.replayed(), set()
    assert resumed.rungs == bench.schedulers.rungs
    for entry in bench.entries:
        for i in range(12, 30):
            trial, value = bench.add(entry, i), draw.random()
            both = {early.decide(trial, 5, value) for early in (resumed, bench.schedulers)}
            assert len(both) == 1
            decisions |= both
    assert decisions == {True, False}


class Named(NamedTuple):
    """A trial as far as Ray's schedulers ask for it."""

    trial_id: str


@pytest.mark.parametrize("seed", range(5))
def test_asha_is_ray_s_rule(seed):
    """The same decisions as Ray's, which is fed the same reports in the same order; some are no numbers."""
    from ray.tune.schedulers import ASHAScheduler, TrialScheduler

    (entry,) = entries_of(settings=SETTINGS)
    bench = Bench([entry])
    oracle = ASHAScheduler(
        time_attr="round",
        metric="val_score",
        mode="max",
        max_t=entry.settings.rounds,
        grace_period=entry.stops[0],
        reduction_factor=3,
        stop_last_trials=False,
    )
    draw, stopped = random.Random(seed), 0
    live = [(bench.add(entry, i), list(entry.stops)) for i in range(60)]
    for trial, _ in live:
        oracle.on_trial_add(None, Named(trial))
    while live:
        turn = draw.choice(live[:4])
        trial, stops = turn
        at, value = stops.pop(0), draw.choice([draw.random(), 0.5, draw.random(), nan])
        result = {"round": at, "val_score": value}
        expected = oracle.on_trial_result(None, Named(trial), result) == TrialScheduler.STOP
        assert bench.schedulers.decide(trial, at, value) == expected
        stopped += expected
        if expected or not stops:
            live.remove(turn)
    assert 5 < stopped < 55


def test_only_search_trials_under_a_scheduler_report_at_stops():
    """Others need not stop on the way: reports cost more than rounds."""
    (entry,) = entries_of(settings=SETTINGS)
    for scheduler, kind, stops in (
        ("asha", "search", (5, 15, 45)),
        ("asha", "final", ()),
        ("none", "search", ()),
    ):
        bench = Bench([entry], scheduler)
        trial = bench.add(entry, 0, kind)
        request = bench.requests[trial]
        config = bench.dispatch.config(request, request.spec(entry))
        assert (config.stops, config.device, config.threads) == (stops, "cpu", 1)
        assert config.need == {"CPU": 1.0}, "memory is set aside on a shared cluster only"
        assert config.checkpoint == f"/places/{trial}.pt"
