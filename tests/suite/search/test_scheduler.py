"""Early stopping: one ASHA per entry, fed by hand; Ray is imported but never started."""

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from suite.execution.cluster import Cluster, Resources
from suite.execution.dispatch import Dispatch, ExecutionPlan, Hooks
from suite.execution.stop_signal import Control
from suite.search.sweep_search import SweepSearch
from tests.support.schedulers import (
    CONTINUE,
    LEVELS,
    NAN,
    RUN_AS,
    SETTINGS,
    STOP,
    Bench,
    replayed,
    request,
    rungs,
)
from tests.support.searches import a_study, entries_of
from trials.run.outcome import Status, TrialResult


class Named(NamedTuple):
    """A trial as far as Ray's schedulers ask for it."""

    trial_id: str


@pytest.fixture
def bench() -> Bench:
    """An easy entry and a hard one, stops at rounds 5, 15 and 45 of 50."""
    made = Bench(entries_of(heterogeneity=LEVELS, settings=SETTINGS))
    assert [c.stops for c in made.entries] == [(5, 15, 45)] * 2
    return made


def test_a_clearly_worse_trial_is_stopped_at_a_stop_round(bench):
    easy = bench.entries[0]
    assert [bench.run(bench.add(easy, i), easy, 0.9 + i / 1000) for i in range(3)] == [50] * 3
    worse = bench.add(easy, 3)
    assert bench.run(worse, easy, 0.1) == 5
    assert bench.outcomes[worse].status == "pruned"
    assert bench.outcomes[worse].intermediates == {5: 0.1}
    assert bench.run(bench.add(easy, 4), easy, 0.95) == 50, "a better one goes on"


def test_what_a_hard_cell_decides_is_what_it_decides_alone(bench):
    draw = random.Random(3)
    values = [0.1 + draw.random() / 10 for _ in range(20)]
    alone, beside = bench, Bench(bench.entries)
    hard = alone.entries[1]
    ended = [alone.run(alone.add(hard, i), hard, v) for i, v in enumerate(values)]
    easy = beside.entries[0]
    for i in range(20):
        beside.run(beside.add(easy, i), easy, 0.9)
        assert beside.run(beside.add(hard, i), hard, values[i]) == ended[i]
    assert min(ended) < 50, "some are stopped, for being worse than their own entry's"
    assert max(ended) == 50


def test_less_is_better_where_the_task_says_so():
    import dataclasses

    from trials.scoring.metrics import Task

    (entry,) = entries_of(settings=SETTINGS)
    entry = dataclasses.replace(entry, task=Task("mse", "minimize", 1e6))
    bench = Bench([entry])
    for i in range(3):
        bench.run(bench.add(entry, i), entry, 0.5)
    assert bench.run(bench.add(entry, 3), entry, 9.0) == 5
    assert bench.run(bench.add(entry, 4), entry, 0.1) == 50


@pytest.mark.parametrize("status", ["finished", "diverged", "failed"])
def test_a_trial_that_is_over_is_not_stopped(bench, status):
    easy = bench.entries[0]
    for i in range(6):
        bench.run(bench.add(easy, i), easy, 0.9)
    trial = bench.add(easy, 6)
    assert bench.report(trial, 15, 0.0, status) == CONTINUE
    assert bench.outcomes[trial].status == status


@pytest.mark.parametrize(("scheduler", "rounds"), [("none", 50), ("asha", 1)])
def test_no_scheduler_and_no_stops_stop_nothing(scheduler, rounds):
    bench = Bench(entries_of(settings={"rounds": rounds}), scheduler)
    (entry,) = bench.entries
    ended = [bench.run(bench.add(entry, i), entry, 0.9 * (i < 5)) for i in range(8)]
    assert ended == [rounds] * 8
    assert bench.schedulers.searches == {}


def test_a_score_that_is_no_number_is_no_reason_to_stop_and_raises_nothing(bench):
    easy = bench.entries[0]
    first = bench.add(easy, 0)
    assert [bench.report(first, stop, NAN) for stop in easy.stops] == [CONTINUE] * 3
    for i in range(1, 4):
        bench.run(bench.add(easy, i), easy, 0.9)
    trial = bench.add(easy, 4)
    assert bench.report(trial, 5, NAN) == CONTINUE
    assert bench.report(trial, 15, -float("inf")) == CONTINUE
    assert bench.run(bench.add(easy, 5), easy, 0.1) == 5, "the rungs still work"
    assert bench.dispatch._trials[trial].outcome.intermediates == {}


def reports(bench: Bench, draw: random.Random, trials: int, dying: str = "") -> None:
    """Trials of both entries report in turns; some are stopped, some end as `dying` on the way.

    A diverged trial's last score may be a number or not; a failed one reports none.
    """
    live = []
    for entry in bench.entries:
        for i in range(trials):
            steps = [5, 10, 15, 30, 45, 50]
            dies = draw.choice(steps) if dying and draw.random() < 0.4 else None
            live.append((bench.add(entry, i), steps, dies))
    while live:
        said = draw.choice(live)
        trial, steps, dies = said
        at = steps.pop(0)
        status = dying if at == dies else "finished" if at == 50 else "running"
        value = draw.choice([draw.random(), NAN]) if status == "diverged" else draw.random()
        decision = bench.report(trial, at, value, status)
        if decision == STOP or status != "running":
            live.remove(said)


def deciding(found: dict[str, list], rounds: int) -> dict[str, list]:
    """The rungs below the last round: those at which a trial can be stopped."""
    return {
        entry: [(at, scores) for at, scores in rungs_ if at < rounds]
        for entry, rungs_ in found.items()
    }


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dying", ["", "diverged", "failed"])
def test_replay_rebuilds_the_rungs(bench, dying, seed):
    """ASHA is not shown what a trial reports when it is over; what it reported before, it is."""
    reports(bench, random.Random(seed), 12, dying)
    statuses = {outcome.status for outcome in bench.outcomes.values()}
    assert statuses == {"finished", "pruned", *filter(None, [dying])}
    assert deciding(rungs(replayed(bench)), 50) == deciding(bench.rungs(), 50)


def test_a_resumed_scheduler_decides_as_the_live_one(bench):
    live = bench
    draw = random.Random(4)
    for entry in live.entries:
        for i in range(15):
            live.run(live.add(entry, i), entry, draw.random())
    resumed = replayed(live)
    decisions = set()
    for entry in live.entries:
        for i in range(15, 40):
            value = draw.random()
            trial = live.add(entry, i)
            for at in entry.stops:
                decision = live.schedulers.decide(trial, at, value)
                assert resumed.decide(trial, at, value) == decision
                decisions.add(decision)
                if decision:
                    break
    assert decisions == {True, False}


@pytest.mark.parametrize("seed", range(5))
def test_asha_is_ray_s_rule(seed):
    """The same decisions as Ray's, which is fed the same reports in the same order; some are no numbers."""
    from ray.tune.schedulers import ASHAScheduler, TrialScheduler

    (entry,) = entries_of(settings=SETTINGS)
    bench = Bench([entry], "asha")
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
        said = draw.choice(live[:4])
        trial, stops = said
        at, value = stops.pop(0), draw.choice([draw.random(), 0.5, draw.random(), float("nan")])
        result = {"round": at, "val_score": value}
        expected = oracle.on_trial_result(None, Named(trial), result) == TrialScheduler.STOP
        assert bench.schedulers.decide(trial, at, value) == expected
        stopped += expected
        if expected or not stops:
            live.remove(said)
    assert 5 < stopped < 55


def test_only_search_trials_under_a_scheduler_report_at_stops():
    """Others need not stop on the way: reports cost more than rounds."""
    (entry,) = entries_of(settings=SETTINGS)
    sweep = SweepSearch([entry], a_study(settings=SETTINGS))
    for scheduler, kind, stops in (
        ("asha", "search", (5, 15, 45)),
        ("asha", "final", ()),
        ("none", "search", ()),
    ):
        cluster = Cluster(Resources())
        plan = ExecutionPlan(
            sweep,
            {},
            cluster.resources,
            Hooks(lambda a, new: None, lambda a, o: None, Control(Path("nowhere"))),
            Path("tune"),
            "/places",
            [entry],
            scheduler,
            memory={entry.id: 5},
        )
        made = Dispatch(plan, cluster).config(request(entry, 0, kind))
        assert made.stops == stops
        assert made.trial.params == {"lr": 0.1}
        assert (made.device, made.threads) == ("cpu", 1)
        assert made.need == {"CPU": 1.0}, "memory is set aside on a shared cluster only"
        assert made.checkpoint == f"/places/{entry.id}-{kind[0]}0000.pt"


def test_a_trial_s_reports_add_up_to_its_outcome(bench):
    trial = bench.add(bench.entries[0], 0)
    history = [{"round": 0, "test_accuracy": 0.1}, {"round": 5, "test_accuracy": 0.5}]
    bench.take(trial, TrialResult(Status.RUNNING, history, {5: 0.5}, "abc", **RUN_AS))
    bench.take(trial, TrialResult(Status.FINISHED, [{"round": 50}], {50: 0.7}, "abc", **RUN_AS))
    outcome = bench.outcomes[trial]
    assert [entry["round"] for entry in outcome.history] == [0, 5, 50]
    assert outcome.intermediates == {5: 0.5, 50: 0.7}
    assert (outcome.status, outcome.value, outcome.fingerprint) == ("finished", 0.7, "abc")


def test_a_failed_trial_keeps_its_error(bench):
    trial = bench.add(bench.entries[0], 0)
    bench.report(trial, 5, 0.0, "failed")
    outcome = bench.outcomes[trial]
    assert (outcome.status, outcome.error, outcome.value) == ("failed", "ZeroDivisionError", None)


def test_a_trial_that_goes_on_from_its_checkpoint_is_one_trial_to_the_rungs(bench):
    """What it reported before is decided on again only where the rungs do not know it."""
    easy = bench.entries[0]
    for i in range(3):
        bench.run(bench.add(easy, i), easy, 0.5)
    trial = bench.add(easy, 3)
    bench.report(trial, 5, 0.6)
    bench.dispatch.died(trial, "oom")
    assert bench.died == [("the trial's process died: oom", True)]
    bench.begin(trial)
    scores = {5: 0.6, 10: 0.1, 15: 0.7}
    history = [{"round": 0}, {"round": 15}]
    assert bench.take(trial, TrialResult(Status.RUNNING, history, scores)) == CONTINUE
    known = dict(bench.rungs()[easy.id])
    assert known[5][trial] == 0.6
    assert known[15][trial] == 0.7
    bench.report(trial, 50, 0.7, "finished")
    assert bench.outcomes[trial].intermediates == {**scores, 50: 0.7}


def test_a_fault_of_the_storage_ends_the_sweep_and_not_the_trial(bench):
    trial = bench.add(bench.entries[0], 0)
    bench.report(trial, 5, 0.5)
    assert bench.take(trial, TrialResult(Status.HALTED, error="disk full")) == CONTINUE
    assert bench.outcomes == {}
    assert (bench.control.ending, bench.control.fault) == ("halted", "disk full")


def test_an_interrupted_trial_has_not_ended(bench):
    """It is handed out again when the sweep is resumed; it was not pruned."""
    trials = [bench.add(bench.entries[0], i) for i in range(2)]
    bench.report(trials[0], 5, 0.5)
    bench.control.end("cancelled")
    bench.dispatch.stopped(trials[0])
    bench.dispatch.died(trials[1], "killed")
    assert (bench.outcomes, bench.died) == ({}, [])


@pytest.mark.parametrize("kind", ["final", "confirm"])
def test_runs_that_repeat_a_trial_are_never_stopped(bench, kind):
    easy = bench.entries[0]
    for i in range(6):
        bench.run(bench.add(easy, i), easy, 0.9)
    before = bench.rungs()
    assert bench.run(bench.add(easy, 0, kind), easy, 0.0) == 50
    assert bench.rungs() == before
    assert deciding(rungs(replayed(bench)), 50) == deciding(before, 50)
