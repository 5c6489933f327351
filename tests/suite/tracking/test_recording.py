"""Records in a real SQLite store (one for all tests), and stores that are none."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import mlflow.entities
import pytest

import suite as interface
from suite.tracking import VARIABLE
from suite.tracking import store as stores
from suite.tracking.schema.tags import run_tags, spec_params, versions
from suite.tracking.store import Store, open_existing
from tests.support.commands import document, fault, runs_of, suite, suite_here
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialResult
from trials.run.spec import TrialSpec
from trials.settings import Settings

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("a räu me")


@pytest.fixture(scope="module")
def store(folder) -> Store:
    """Making a store takes seconds: each test has an experiment of its own in this one."""
    return Store(None, folder)


@pytest.fixture
def experiment(store, request) -> str:
    return store.experiment(request.node.name)


def points(store: Store, run_id: str, metric: str) -> list[tuple[int, float]]:
    entries = store.curve(store.get(run_id), [metric])
    return [(int(entry["round"]), entry[metric]) for entry in entries]


def test_the_store_is_one_file_under_the_storage(store, folder):
    assert (folder / "mlflow.db").is_file()
    assert store.uri == f"sqlite:///{folder}/mlflow.db"
    assert open_existing(None, folder).uri == store.uri


def test_two_processes_may_make_a_store_at_once(tmp_path):
    text = "from pathlib import Path; from suite.tracking.store import Store; Store(None, Path())"
    made = [subprocess.Popen([sys.executable, "-c", text], cwd=tmp_path) for _ in range(2)]
    assert [process.wait(120) for process in made] == [0, 0]
    assert runs_of(Store(None, tmp_path)) == []


def test_an_experiment_is_made_once_and_is_there_again_when_it_was_deleted(store):
    made = store.experiment("twice")
    store.client.delete_experiment(made)
    assert store.experiment("twice") == made != store.experiment("other")


def test_what_is_logged_is_there(store, experiment):
    parent = store.create(experiment, "parent", {"kind": "sweep"})
    run_id = store.create(experiment, "name", {"kind": "search", "seed": 3}, parent, seconds=60.0)
    for _ in range(2):  # once more adds nothing
        store.log(run_id, {"lr": 0.1}, [{"round": 5, "x": 1.5}], {"late": "yes"})
    for status in ("KILLED", "RUNNING", "FINISHED"):
        store.set_status(run_id, status)
        assert store.get(run_id).status == status
    (record,) = runs_of(store, kind="search", late="yes")
    assert record == store.get(run_id) == store.get(run_id[:20])
    assert record.metrics == {"x": 1.5}
    assert {"kind": "search", "seed": "3", "late": "yes"}.items() <= record.tags.items()
    run = store.client.get_run(run_id)
    assert run.data.params == {"lr": "0.1"}
    assert run.data.tags["mlflow.parentRunId"] == parent
    assert (run.info.run_name, run.info.experiment_id) == ("name", experiment)
    with pytest.raises(UserError, match="no run 'abc-'"):
        store.get("abc-")
    assert 60_000 <= run.info.end_time - run.info.start_time < 90_000, "as long as its trial"


def test_a_history_keeps_its_bits_in_order_of_rounds_without_what_is_not_finite(store, experiment):
    run_id = store.create(experiment, "name", {"kind": "order"})
    for entry in (
        {"round": 20, "a": 20 / 3, "b": 0.75},
        {"round": 0, "a": float("nan"), "b": 0.25},
        {"round": 10, "a": 0.1 + 0.2, "b": -float("inf")},
        {"round": 7, "a": 5e-324},
    ):
        store.log(run_id, history=[entry])
    assert points(store, run_id, "a") == [(7, 5e-324), (10, 0.1 + 0.2), (20, 20 / 3)]
    assert points(store, run_id, "b") == [(0, 0.25), (20, 0.75)]
    assert "round" not in store.get(run_id).metrics
    # More metrics than MLflow takes in one request (1000).
    store.log(run_id, history=[{"round": r, "x": r, "y": -r, "z": 1} for r in range(500)])
    assert points(store, run_id, "y") == [(r, -r) for r in range(500)]


@pytest.mark.parametrize("name", ["bob's", 'a "quoted" name', "back\\slash", "fold · é", "100%"])
def test_a_sweep_is_found_by_any_name(store, experiment, name):
    """Only those of its runs that a session which was killed left RUNNING."""
    sweep = store.create(experiment, "sweep", {"kind": "sweep", "sweep": name})
    half, whole = (
        store.create(experiment, "trial", {"kind": "search", "sweep": name}) for _ in "ab"
    )
    store.create(experiment, "sweep", {"kind": "sweep", "sweep": f"{name}2"})
    store.create(experiment, "trial", {"kind": "search", "sweep": f"{name}2"})
    store.set_status(whole, "FINISHED")
    assert [run.run_id for run in store.sweeps(name)] == [sweep]
    assert store.running(name) == [half]


def test_a_deleted_run_is_gone_and_does_not_run(store, experiment):
    kept, gone = (store.create(experiment, name, {"kind": "delete"}) for name in ("a", "b"))
    store.set_status(kept, "FINISHED")
    for _ in range(2):  # once more changes nothing
        store.delete(gone)
    assert [run.run_id for run in runs_of(store, kind="delete")] == [kept]
    everything = store.client.search_runs([experiment], run_view_type=mlflow.entities.ViewType.ALL)
    assert {run.info.run_id for run in everything} == {kept, gone}
    assert not [run for run in everything if run.info.status == "RUNNING"]


def test_a_text_that_is_too_long_for_mlflow_is_left_out(store, experiment):
    """The table of its sweep has it. Of a traceback the end is kept, where what matters stands."""
    names = {"dataset": "digits", "model": "logreg", "heterogeneity": "iid"}
    spec = TrialSpec(algorithm="folb", params={"lr": 0.1}, settings=Settings(), seed=3, **names)
    outcome = TrialResult(Status.FAILED, error="x" * 20_000 + "ZeroDivisionError")
    tags = run_tags("search", spec, outcome) | {"spec": "x" * 9000}
    run_id = store.create(experiment, "name", tags)
    store.log(run_id, spec_params(spec) | {"layers": "y" * 9000})
    record = store.get(run_id)
    assert "spec" not in record.tags
    assert record.tags["error"].endswith("ZeroDivisionError")
    logged = store.client.get_run(run_id).data.params
    assert len(logged.pop("layers")) == 5000
    assert logged["lr"] == "0.1"
    assert "None" not in logged.values()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the tests lie in no repository")
def test_a_checkout_of_the_suite_records_its_commit():
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    assert versions()["git_commit"] == subprocess.check_output(command, text=True).strip()


def test_a_network_file_system_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(stores.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="nfs\n"))
    with pytest.raises(UserError, match=r"network file system \(nfs\).*--tracking-uri"):
        Store(None, tmp_path / "runs")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["none", "half", "other"])
def test_a_database_that_is_none_of_mlflow_s_is_refused_as_it_is(store, tmp_path, content):
    database = tmp_path / "runs" / "mlflow.db"
    database.parent.mkdir()
    if content == "other":
        with closing(sqlite3.connect(database)) as opened:
            opened.execute("create table bookmarks (place text)")
    else:
        whole = Path(store.uri.removeprefix("sqlite:///")).read_bytes()
        database.write_bytes(whole[: len(whole) // 2] if content == "half" else b"hello" * 1000)
    before = database.read_bytes()
    assert "runs/mlflow.db" in fault(suite_here("replay", "x", cwd=tmp_path, code=2))
    assert database.read_bytes() == before


def test_mlflow_s_own_variable_names_the_store(tmp_path, monkeypatch):
    """Of commands and of Python alike; an option, and an empty variable, go before it."""
    theirs, given = (f"sqlite:///{tmp_path / name}" for name in ("theirs.db", "given.db"))
    words = ("run", "--set", "rounds=1", "--set", "clients=2", "--json")
    ran = document(suite(*words, cwd=tmp_path, env={VARIABLE: theirs}))
    assert [run.run_id for run in runs_of(Store(theirs, tmp_path), kind="run")] == [ran["run_id"]]
    monkeypatch.setenv(VARIABLE, theirs)
    monkeypatch.chdir(tmp_path)
    run = interface.run(settings={"rounds": 1, "clients": 2})
    for uri, option in ((theirs, None), (given, given)):
        run_id = run.record(tracking_uri=option)
        assert run_id in [own.run_id for own in runs_of(Store(uri, tmp_path), kind="run")]
        with pytest.raises(UserError, match="holds no sweep"):
            interface.leaderboard(tracking_uri=option)
    monkeypatch.setenv(VARIABLE, "./mlruns")
    assert VARIABLE in fault(suite_here("leaderboard", cwd=tmp_path, code=2))
    monkeypatch.setenv(VARIABLE, "")
    assert "no sweep in runs yet" in fault(suite_here("leaderboard", cwd=tmp_path, code=2))
    assert not (tmp_path / "runs").exists()


def test_runs_are_found_beside_more_than_a_thousand_experiments(tmp_path):
    store = Store(None, tmp_path)
    mine = store.create(store.experiment("mine"), "name", {"kind": "sweep", "sweep": "mine"})
    ahead = 10**15
    rows = [(1000 + i, f"e{i}", "active", ahead + i, ahead + i) for i in range(1001)]
    names = "experiment_id, name, lifecycle_stage, creation_time, last_update_time"
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as opened, opened:
        opened.executemany(f"insert into experiments ({names}) values (?, ?, ?, ?, ?)", rows)
    assert [run.run_id for run in Store(None, tmp_path).sweeps("mine")] == [mine]
