"""How trials are computed on a GPU: measured once a scenario, journaled, given to every trial of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from suite.execution import autotune, driver
from suite.execution.cluster import Cluster, Resources
from suite.execution.plan import ExecutionPlan, Hooks
from suite.execution.stop_signal import Control
from suite.runs import single
from suite.search.sweep_search import SweepSearch
from suite.sweeps.journal.events import Begun, Chosen, SweepState
from suite.sweeps.journal.file import Journal
from tests.support.searches import a_study, entries_of
from trials.engine.federation import Federation
from trials.engine.training import Solver
from trials.run.scenario import Scenario
from trials.run.spec import TrialSpec, canonical
from trials.run.trial import load_dataset, partition_data
from trials.settings import Settings
from trials.sizing import calibration
from trials.sizing.calibration import fastest, with_execution, workload

ENTRY = "digits · mlp · iid · float32"


def trial(model: str = "mlp", **settings: Any) -> TrialSpec:
    place = Scenario.canonical("digits", model, "iid")
    return canonical("fedprox", {}, place, Settings(**{"rounds": 2, "clients": 4, **settings}), 0)


def test_the_execution_with_the_shortest_round_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = trial()
    data = partition_data(spec, load_dataset(spec, None))
    seconds = {"batched": [9.0, 0.3, 0.2], "sequential": [1.0, 0.1, 0.4]}
    clock: list[float] = []
    simulate = calibration.simulate

    def started(asked: TrialSpec, *given: Any, **more: Any) -> Any:
        """A clock on which the rounds of an execution take what is said above."""
        for taken in seconds[asked.settings.execution or ""]:
            start = clock[-1] if clock else 0.0
            clock.extend([start, start + taken])
        assert asked.algorithm == "fedavg"
        return simulate(asked, *given, **more)

    monkeypatch.setattr(calibration, "simulate", started)
    monkeypatch.setattr(calibration, "_now", lambda device: clock.pop(0))
    how, measured = fastest(spec, data, "cpu")
    assert how == "sequential"
    assert measured == pytest.approx({"batched": 0.2, "sequential": 0.1}), "the first is a warm-up"


def test_what_is_said_or_has_no_choice_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_seconds", lambda *given: 1 / 0)
    data = partition_data(trial(), load_dataset(trial(), None))
    assert fastest(trial(execution="batched"), data, "cpu") == ("batched", {})
    monkeypatch.setattr(calibration, "executions", lambda *given: ["sequential"])
    assert fastest(trial(), data, "cpu") == ("sequential", {})


def test_rounds_are_measured_for_real() -> None:
    data = partition_data(trial(), load_dataset(trial(), None))
    how, seconds = fastest(trial(), data, "cpu")
    assert set(seconds) == {"batched", "sequential"}
    assert seconds[how] == min(seconds.values()) > 0


def test_rounds_are_measured_in_packs_of_the_size_that_trials_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seconds are of one trial: four in a pack that take a second take a quarter each."""
    data = partition_data(trial(), load_dataset(trial(), None))
    clock, rows = iter(range(99)), []
    monkeypatch.setattr(calibration, "_now", lambda device: next(clock))
    follow = Solver.follow
    monkeypatch.setattr(
        Solver,
        "follow",
        lambda self, course: rows.append(len(course.start)) or follow(self, course),
    )
    _, seconds = fastest(trial(), data, "cpu", None, 4)
    assert seconds == {"batched": 0.25, "sequential": 0.25}
    assert rows == [8] * 3 + [2] * 12, "half of four clients"


def test_nothing_but_rounds_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does each client train the untrained model for a test of its own before them."""
    monkeypatch.setattr(Federation, "fine_tune", lambda *given: 1 / 0)
    spec = trial(fine_tune=5)
    _, seconds = fastest(spec, partition_data(spec, load_dataset(spec, None)), "cpu")
    assert len(seconds) == 2


class FaultError(Exception):
    """What a task that died raises."""


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ray's tasks in this process; what was cancelled."""
    cancelled: list[str] = []

    def remote(**amounts: Any) -> Any:
        assert amounts == {"max_retries": 0, "num_cpus": 1.0, "num_gpus": 0.25}
        return lambda function: SimpleNamespace(remote=started)

    def started(spec: Any, data: Any, share: float, memory: None, members: int) -> str:
        assert members == (16 if spec["model"] == "mlp" else 1)
        return str(spec["model"])

    def get(reference: str) -> Any:
        if reference == "logreg":
            raise FaultError("died\nof memory")
        return "sequential", {"batched": 0.002, "sequential": 0.001}

    fake = SimpleNamespace(
        remote=remote,
        wait=lambda left, timeout: (left[:1], left[1:]),
        get=get,
        cancel=lambda reference, force: cancelled.append(reference),
        exceptions=SimpleNamespace(RayError=FaultError),
    )
    monkeypatch.setattr(autotune, "ray", fake)
    return cancelled


def test_each_cell_is_measured_once(tasks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    probes = {workload(spec): spec for spec in (trial("logreg"), trial(), trial(clients=3))}
    assert list(probes) == ["digits · logreg · iid · float32", ENTRY]
    data = {spec.dataset_key: None for spec in probes.values()}
    resources = Resources(gpus_per_trial=0.25)
    assert autotune.choose(probes, data, resources, {ENTRY: 16}, lambda: False) == {
        ENTRY: "sequential"
    }
    assert not tasks
    assert capsys.readouterr().err.splitlines() == [
        "measuring which execution is the fastest of 2 scenarios",
        "digits · logreg · iid · float32 is not measured: of memory",
        f"{ENTRY} is computed sequential (a round: batched 2.0 ms, sequential 1.0 ms)",
    ]
    assert autotune.choose(probes, data, resources, {ENTRY: 16}, lambda: True) == {}
    assert tasks == ["logreg", "mlp"], "a sweep that ends does not wait"


def test_a_choice_is_in_the_spec_of_every_trial_and_in_the_journal(tmp_path: Any) -> None:
    (entry,) = entries_of()
    search = SweepSearch([entry], a_study())
    hooks = Hooks(lambda ask, new: None, lambda ask, outcome: None, Control(tmp_path))
    plan = ExecutionPlan(search, {}, Resources(), hooks, tmp_path, str(tmp_path), [entry])
    found = search.next()
    assert found is not None
    ask, _ = found
    where = workload(search.spec(ask))
    for known, execution in (({where: "sequential"}, "sequential"), ({}, None)):
        config = driver._Config(plan, Cluster(plan.resources), known).of(ask)
        assert config["trial"]["settings"]["execution"] == execution
    said = with_execution(search.spec(ask), "batched")
    assert said.settings.execution == "batched"
    path, study = tmp_path / "journal.jsonl", a_study().model_dump(mode="json")
    begun = Begun(study_name="small", study=study, lag=4, planned={}, id="id", entries={})
    Journal(path).write(begun, Chosen(executions={where: "sequential"}))
    assert SweepState().read(path).executions == {where: "sequential"}


def test_a_run_on_a_gpu_is_computed_as_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU the rule decides, which is what was measured there."""
    run = single.trial.run
    monkeypatch.setattr(single, "fastest", lambda *given: ("sequential", {}))
    monkeypatch.setattr(
        single.trial, "run", lambda spec, root, on, *rest: run(spec, root, "cpu", *rest)
    )
    for device, how in (("cuda", "sequential"), ("cpu", "batched")):
        done = single.execute(trial(), None, device, lambda entry: None)
        assert done.result.execution == how
