"""Early stopping: one ASHA per entry, fed by hand through the driver's one place that decides; Ray is never started."""

import random
from dataclasses import dataclass, field, replace
from math import inf, isfinite, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from suite.execution.cluster import Cluster
from suite.execution.dispatch import Dispatch, Trial
from suite.execution.plan import ExecutionPlan, Hooks
from suite.execution.resources import Resources
from suite.execution.stop_signal import Control
from suite.search.schedulers import EntrySchedulers
from suite.search.sweep_search import SweepSearch
from suite.search.trial import TrialRequest
from suite.studies.entry import Entry
from tests.support.searches import a_study, entries_of
from trials.run.outcome import Status, TrialKind
from trials.run.result import TrialResult
from trials.scoring.metrics import Task

SETTINGS = {"rounds": 50}
RUN_AS = {"execution": "batched", "chunk": 4}
"""How a trial says it was computed."""


@dataclass
class Bench:
    """A driver that is told what trials would report: each is alone in a process of its name."""

    entries: list[Entry]
    scheduler: str = "asha"
    source: Any = None
    requests: dict[str, TrialRequest] = field(default_factory=dict)
    outcomes: dict[str, TrialResult] = field(default_factory=dict)
    died: list[tuple[str, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        def ended(request: TrialRequest, outcome: TrialResult) -> None:
            self.outcomes[request.trial_id] = outcome

        def died(request: TrialRequest, outcome: TrialResult, again: bool) -> None:
            self.died.append((outcome.error, again))

        self.control = Control(Path("unused"))
        hooks = Hooks(lambda a, new: None, ended, self.control, died)
        nothing = SimpleNamespace(requests=self.requests, next=lambda: None, exhausted=False)
        resources, memory = Resources(max_concurrent=4), {entry.id: 5 for entry in self.entries}
        plan = ExecutionPlan(
            self.source or nothing,
            {},
            resources,
            hooks,
            Path("tune"),
            "/places",
            self.entries,
            self.scheduler,
            memory=memory,
        )
        self.dispatch = Dispatch(plan, Cluster(resources))
        self.schedulers = self.dispatch.schedulers

    def add(self, entry: Entry, index: int, kind: str = "search") -> str:
        """The id of a trial whose process has begun."""
        trial_id = f"{entry.id}-{kind[0]}{index:04d}"
        more = TrialKind(kind), index, "sampled", {"lr": 0.1}, 0, 0
        self.requests[trial_id] = TrialRequest(trial_id, entry.id, *more)
        self.begin(trial_id)
        return trial_id

    def begin(self, trial_id: str) -> None:
        """A process begins with a trial, for the first time or again."""
        trial = self.dispatch._trials.setdefault(trial_id, Trial(self.requests[trial_id]))
        trial.outcome = TrialResult()
        self.dispatch.packs[trial_id] = [trial_id]
        self.dispatch.began(trial_id)

    def report(self, trial_id: str, at: int, value: float, status: str = "running") -> bool:
        """What a process says of its trial after a round; whether the trial is stopped."""
        entry = {"round": at, "val_accuracy": value, "test_accuracy": 777.0}
        scores = {at: value} if isfinite(value) else {}
        news = TrialResult(Status(status), [entry], scores, "abc", **RUN_AS)
        if status == "failed":
            news = TrialResult(error="ZeroDivisionError")
        return self.take(trial_id, news)

    def take(self, trial_id: str, news: TrialResult) -> bool:
        stops = self.dispatch.prunes(trial_id, news)
        self.dispatch.reported(trial_id, {trial_id: news})
        if stops or news.status != Status.RUNNING:
            self.dispatch.stopped(trial_id)
        return stops

    def run(self, entry: Entry, index: int, value: float, kind: str = "search") -> int:
        """A trial that always scores `value`; the round at which it ended."""
        trial = self.add(entry, index, kind)
        for stop in entry.stops:
            if self.report(trial, stop, value):
                return stop
        self.report(trial, entry.settings.rounds, value, "finished")
        return entry.settings.rounds

    def replayed(self) -> EntrySchedulers:
        fresh = EntrySchedulers(self.entries, self.requests, self.scheduler)
        fresh.replay(self.outcomes)
        return fresh


@pytest.fixture
def bench() -> Bench:
    """An easy entry and a hard one, stops at rounds 5, 15 and 45 of 50."""
    bench = Bench(entries_of(heterogeneity=["iid", "labels(2)"], settings=SETTINGS))
    assert [entry.stops for entry in bench.entries] == [(5, 15, 45)] * 2
    return bench


@pytest.mark.parametrize(("sign", "kind"), [(1, "final"), (-1, "confirm")])
def test_a_clearly_worse_trial_is_stopped_at_a_stop_round(bench, sign, kind):
    """Less is better where the task says so; runs that repeat a trial are left alone."""
    (easy, _), worse = bench.entries, 0.5 - sign * 0.4
    if sign < 0:
        easy = replace(easy, task=Task("mse", "minimize", 1e6))
        bench = Bench([easy])
    assert [bench.run(easy, i, 0.5) for i in range(3)] == [50] * 3
    assert bench.run(easy, 3, worse) == 5
    (stopped,) = (o for o in bench.outcomes.values() if o.status == "pruned")
    assert stopped.intermediates == {5: worse}
    assert bench.run(easy, 4, 0.5 + sign * 0.4) == 50, "a better one goes on"
    before = repr(bench.schedulers.rungs)
    assert bench.run(easy, 0, worse, kind) == 50
    assert repr(bench.schedulers.rungs) == before


def test_what_a_hard_cell_decides_is_what_it_decides_alone(bench):
    draw = random.Random(3)
    values = [0.1 + draw.random() / 10 for _ in range(20)]
    alone, (easy, hard) = Bench(bench.entries), bench.entries
    ended = [alone.run(hard, i, v) for i, v in enumerate(values)]
    for i in range(20):
        bench.run(easy, i, 0.9)
        assert bench.run(hard, i, values[i]) == ended[i]
    assert min(ended) < max(ended) == 50, "some are stopped, for being worse than their own entry's"


@pytest.mark.parametrize("status", ["finished", "diverged", "failed"])
def test_a_trial_that_is_over_is_not_stopped(bench, status):
    easy = bench.entries[0]
    for i in range(6):
        bench.run(easy, i, 0.9)
    trial = bench.add(easy, 6)
    assert not bench.report(trial, 15, 0.0, status)
    outcome = bench.outcomes[trial]
    assert outcome.status == status
    assert (outcome.error, outcome.value) == (
        ("ZeroDivisionError", None) if status == "failed" else ("", 0.0)
    )


@pytest.mark.parametrize(("scheduler", "rounds"), [("none", 50), ("asha", 1)])
def test_no_scheduler_and_no_stops_stop_nothing(scheduler, rounds):
    (entry,) = entries_of(settings={"rounds": rounds})
    bench = Bench([entry], scheduler)
    assert [bench.run(entry, i, 0.9 * (i < 5)) for i in range(8)] == [rounds] * 8
    assert bench.schedulers.rungs == {}


def test_a_score_that_is_no_number_is_no_reason_to_stop(bench):
    easy = bench.entries[0]
    first = bench.add(easy, 0)
    assert not any(bench.report(first, stop, nan) for stop in easy.stops)
    for i in range(1, 4):
        bench.run(easy, i, 0.9)
    trial = bench.add(easy, 4)
    assert not bench.report(trial, 5, nan)
    assert not bench.report(trial, 15, -inf)
    assert bench.run(easy, 5, 0.1) == 5, "the rungs still work"
    assert bench.dispatch._trials[trial].outcome.intermediates == {}


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
    source = SweepSearch([entry], a_study(settings=SETTINGS))
    for scheduler, kind, stops in (
        ("asha", "search", (5, 15, 45)),
        ("asha", "final", ()),
        ("none", "search", ()),
    ):
        bench = Bench([entry], scheduler, source)
        trial = bench.add(entry, 0, kind)
        config = bench.dispatch.config(bench.requests[trial])
        assert (config.stops, config.trial.params) == (stops, {"lr": 0.1})
        assert (config.device, config.threads) == ("cpu", 1)
        assert config.need == {"CPU": 1.0}, "memory is set aside on a shared cluster only"
        assert config.checkpoint == f"/places/{trial}.pt"


def test_a_trial_s_reports_add_up_to_its_outcome_also_from_its_checkpoint(bench):
    """What it reported before is decided on again only where the rungs do not know it."""
    easy = bench.entries[0]
    for i in range(3):
        bench.run(easy, i, 0.5)
    trial = bench.add(easy, 3)
    bench.report(trial, 5, 0.6)
    bench.dispatch.died(trial, "oom")
    assert bench.died == [("the trial's process died: oom", True)]
    bench.begin(trial)
    scores, history = {5: 0.6, 10: 0.1, 15: 0.7}, [{"round": 0}, {"round": 15}]
    assert not bench.take(trial, TrialResult(Status.RUNNING, history, scores, "abc", **RUN_AS))
    rungs = bench.schedulers.rungs[easy.id]
    assert (rungs[5][trial], rungs[15][trial]) == (0.6, 0.7)
    bench.report(trial, 50, 0.8, "finished")
    outcome = bench.outcomes[trial]
    assert [entry["round"] for entry in outcome.history] == [0, 15, 50]
    assert outcome.intermediates == {**scores, 50: 0.8}
    assert (outcome.status, outcome.value, outcome.fingerprint) == ("finished", 0.8, "abc")


def test_a_fault_of_the_storage_or_an_interruption_ends_the_sweep_and_not_the_trial(bench):
    """It is handed out again when the sweep is resumed; it was not pruned."""
    first, second, third = (bench.add(bench.entries[0], i) for i in range(3))
    bench.report(first, 5, 0.5)
    assert not bench.take(first, TrialResult(Status.HALTED, error="disk full"))
    assert (bench.control.ending, bench.control.fault) == ("halted", "disk full")
    bench.control.end("cancelled")
    bench.dispatch.stopped(second)
    bench.dispatch.died(third, "killed")
    assert (bench.outcomes, bench.died) == ({}, [])
