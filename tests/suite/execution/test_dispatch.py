"""Which trials begin together, and what becomes of those whose processes die."""

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import cloudpickle
from ray.exceptions import RayActorError, RayTaskError
from ray.tune.search import Searcher

from suite.execution import dispatch, driver
from suite.execution.cluster import Cluster
from suite.execution.dispatch import DEATHS, LONGEST, Dispatch, ExecutionPlan, Hooks
from suite.execution.resources import Resources
from suite.execution.stop_signal import Control, HaltedError
from suite.search.trial import TrialRequest
from suite.sweeps.journal.events import outcomes
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from tests.support.searches import a_study, a_trial
from tests.support.simulations import timeless
from trials.run.outcome import Status, TrialKind, TrialResult
from trials.run.trial import RunningPack, partition_data


class Source:
    """Trials of two entries in turns; retries come first, as a sweep's do."""

    code = ()

    def __init__(self, count: int) -> None:
        self.models, self.algorithms = ("logreg", "mlp"), ("fedavg", "fedavg")
        self.requests: dict[str, TrialRequest] = {}
        self.again: list[TrialRequest] = []
        self.left = [
            TrialRequest(f"{i % 2}-s{i:04d}", str(i % 2), TrialKind.SEARCH, i, "sampled", {}, 0, 0)
            for i in range(count)
        ]
        self.open = {request.trial_id for request in self.left}

    def next(self) -> tuple[TrialRequest, bool] | None:
        if self.again:
            return self.again.pop(0), False
        if not self.left:
            return None
        request = self.left.pop(0)
        self.requests[request.trial_id] = request
        return request, True

    def spec(self, request: TrialRequest) -> Any:
        entry = int(request.entry_id)
        return a_trial(self.algorithms[entry], self.models[entry])

    @property
    def exhausted(self) -> bool:
        return not self.open


class Told:
    """A driver's hooks, what they were told, and what they raise."""

    def __init__(self, folder: Path, source: Source) -> None:
        self.source, self.control = source, Control(folder)
        self.ends: list[tuple[str, Status]] = []
        self.deaths: list[tuple[str, bool]] = []
        self.raises: Exception | None = None
        self.hooks = Hooks(lambda request, new: None, self.ended, self.control, self.died)

    def ended(self, request: TrialRequest, outcome: TrialResult) -> None:
        if self.raises:
            raise self.raises
        self.ends.append((request.trial_id, outcome.status))
        self.source.open.discard(request.trial_id)

    def died(self, request: TrialRequest, outcome: TrialResult, again: bool) -> None:
        self.deaths.append((request.trial_id, again))
        if not again:
            self.source.open.discard(request.trial_id)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which tests set."""
    now = [1000.0]
    monkeypatch.setattr(dispatch.time, "monotonic", lambda: now[0])
    return now


def made(folder: Path, count: int = 8, slots: int = 2, pack: int = 3) -> tuple[Dispatch, Told]:
    source = Source(count)
    told = Told(folder, source)
    resources = Resources(max_concurrent=slots)
    packs = {"0": pack, "1": pack}
    plan = ExecutionPlan(source, {}, resources, told.hooks, folder, str(folder), packs=packs)
    return Dispatch(plan, Cluster(resources)), told


DONE = TrialResult(Status.FINISHED, [{"round": 3}])


def test_a_free_place_takes_its_part_of_those_that_are_alike(tmp_path: Path) -> None:
    desk, _ = made(tmp_path)
    assert list(desk.next("a")) == ["0-s0000", "0-s0002", "0-s0004"], "of one model"
    assert list(desk.next("b")) == ["1-s0001", "1-s0003", "1-s0005"]
    assert desk.next("c") == {}, "two places"
    desk.reported("a", dict.fromkeys(desk.packs["a"], DONE))
    desk.stopped("a")
    assert list(desk.next("c")) == ["0-s0006"]


@pytest.mark.parametrize("ending", ["stopped", "halted"])
def test_nothing_begins_once_all_is_to_end(tmp_path: Path, ending: str) -> None:
    desk, told = made(tmp_path)
    desk.next("a")
    told.control.end(ending)
    assert desk.next("b") == {}
    assert not desk.over, "what runs may end"
    desk.stopped("a")
    assert (desk.over, bool(told.ends)) == (True, ending == "stopped")


def test_who_raised_starts_again_alone(tmp_path: Path) -> None:
    desk, told = made(tmp_path)
    first, *_ = desk.next("a")
    desk.reported("a", {first: TrialResult(error="ZeroDivisionError")})
    assert told.ends == [(first, Status.FAILED)]
    told.source.again.append(told.source.requests[first])
    desk.stopped("a")
    begun = []
    for name in "bcde":
        begun += [list(desk.next(name))]
        desk.stopped(name)
    assert [first] in begun


def test_members_of_a_pack_whose_process_dies_begin_again_alone_after_a_pause(
    tmp_path: Path, clock: list[float]
) -> None:
    desk, told = made(tmp_path, count=6, slots=1)
    told.source.models = ("logreg", "logreg")
    members = list(desk.next("a"))
    desk.began("a")
    desk.reported("a", {members[0]: DONE})
    desk.died("a", "killed by signal 9")
    assert told.deaths == [(members[1], True), (members[2], True)]
    assert list(desk.next("b")) == ["1-s0003", "0-s0004", "1-s0005"], "others meanwhile"
    desk.stopped("b")
    clock[0] += 1.0
    begun = []
    for name in "cd":
        begun += [list(desk.next(name))]
        desk.stopped(name)
    assert sorted(begun) == sorted([name] for name in members[1:])


def test_deaths_without_getting_further_set_a_trial_aside(
    tmp_path: Path, clock: list[float]
) -> None:
    """It has no end, so that a resumed sweep has it again; one that gets further begins a new count."""
    desk, told = made(tmp_path, count=1)
    (trial,) = desk.next("a")
    for number in range(3 + DEATHS):
        desk.began("a")
        at = [{"round": min(number, 3)}]
        desk.reported("a", {trial: TrialResult(Status.RUNNING, at)})
        desk.died("a", "killed by signal 9")
        assert desk.next("a") == {}
        clock[0] += LONGEST
        assert bool(desk.next("a")) == (number < 2 + DEATHS)
    assert [again for _, again in told.deaths] == [True] * (2 + DEATHS) + [False]
    assert told.ends == []
    assert desk.over


def test_a_process_that_never_ran_counts_for_nothing(tmp_path: Path, clock: list[float]) -> None:
    desk, told = made(tmp_path, count=1)
    desk.next("a")
    desk.died("a", "its node is gone")
    clock[0] += LONGEST
    assert (len(desk.next("a")), told.deaths) == (1, [])


@pytest.mark.parametrize("error", [HaltedError("disk full"), ValueError("a bug")])
def test_a_hook_that_raises_ends_the_run_and_nothing_else(tmp_path: Path, error: Exception) -> None:
    desk, told = made(tmp_path)
    first, *_ = desk.next("a")
    told.raises = error
    desk.reported("a", {first: DONE})
    assert (told.control.ending, told.control.fault) == ("halted", str(error))
    assert desk.fault is (None if isinstance(error, HaltedError) else error)


# What Tune asks


def test_the_searcher_ends_when_all_that_it_handed_out_has_ended(tmp_path: Path) -> None:
    desk, told = made(tmp_path, count=2, slots=1)
    told.source.models = ("logreg", "logreg")
    searcher = driver.PackSearcher(desk)
    (text,) = searcher.suggest("a").values()
    assert isinstance(text, str), "which Tune need not look into"
    assert searcher.suggest("b") is None, "what runs may be asked for again"
    callback, trial = driver.PackCallback(desk), SimpleNamespace(trial_id="a")
    callback.on_trial_start(0, [], trial)
    result = {driver.REPORTS: dict.fromkeys(desk.packs["a"], DONE), "done": True}
    assert not driver.PackStopper(desk)("a", result)
    callback.on_trial_result(0, [], trial, result)
    assert result == {"done": True}, "what Tune keeps"
    callback.on_trial_complete(0, [], trial)
    assert searcher.suggest("c") == Searcher.FINISHED
    assert pickle.loads(pickle.dumps(searcher)).__dict__ == {}


@pytest.mark.parametrize("of_code", [True, False])
def test_an_exception_is_told_from_a_death(tmp_path: Path, of_code: bool) -> None:
    desk, told = made(tmp_path, count=1)
    (trial_id,) = desk.next("a")
    desk.began("a")
    error = RayTaskError("step", "ZeroDivisionError", ValueError()) if of_code else RayActorError()
    (tmp_path / "error.pkl").write_bytes(cloudpickle.dumps(error))
    trial: Any = SimpleNamespace(trial_id="a", pickled_error_file=str(tmp_path / "error.pkl"))
    driver.PackCallback(desk).on_trial_error(0, [], trial)
    assert told.ends == ([(trial_id, Status.FAILED)] if of_code else [])
    assert told.deaths == ([] if of_code else [(trial_id, True)])


# Sweeps whose trials' processes are killed


def swept(
    folder: Path, kills: int, monkeypatch: pytest.MonkeyPatch, resume: bool = False
) -> tuple[dict[str, Any], int]:
    """The ends of a sweep's trials, and how many died; the process of the second trial is killed so many times."""
    left, paths = [kills], SweepPaths(folder, "s")

    def drive(plan: ExecutionPlan) -> None:
        one = Dispatch(plan, Cluster(plan.resources))
        while not one.over:
            if not (configs := one.next("a")):
                continue
            one.began("a")
            pack = RunningPack(
                configs, lambda spec: partition_data(spec, plan.data[spec.dataset_key])
            )
            if left[0] and any(name.endswith("s0001") for name in configs):
                left[0] -= 1
                one.reported("a", pack.step())
                one.died("a", "killed by signal 9")
                continue
            while pack.trials:
                one.reported("a", pack.step())
            one.stopped("a")

    monkeypatch.setattr(driver, "drive", drive)
    monkeypatch.setattr("trials.run.trial.REPORT_SECONDS", 0.0)
    monkeypatch.setattr(dispatch, "PAUSE", 0.0)
    given = {"trials": 8, "seeds": 1, "sampler": "tpe", "pack": 1, "retries": 0}
    settings = {"rounds": 4, "clients": 4, "eval_every": 1, "execution": "batched"}
    study = a_study(**given, settings=settings)
    summary = Sweep("s", study, paths, resume=resume).run(Resources(max_concurrent=1)).summary
    state = paths.state()
    assert summary.trials_failed == len(state.requests) - len(state.ended)
    ended = outcomes(paths.journal, state.ended.keys())
    return {name: timeless(outcome.history) for name, outcome in ended}, state.kills


def test_kills_change_no_number_and_one_that_is_set_aside_is_had_again_by_who_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = swept(tmp_path / "whole", 0, monkeypatch)
    assert swept(tmp_path / "three", 3, monkeypatch) == (whole, 3)
    ends, kills = swept(tmp_path / "many", DEATHS, monkeypatch)
    missing = f"{next(iter(ends))[:8]}-s0001"
    assert (kills, missing in ends) == (DEATHS, False)
    again, _ = swept(tmp_path / "many", 0, monkeypatch, resume=True)
    assert missing in again
    assert {name: again[name] for name in ends} == ends
