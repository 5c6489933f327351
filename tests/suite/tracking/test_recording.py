"""Records in a real SQLite store (one for all tests), and stores that are none."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

import suite as interface
from suite.tracking import VARIABLE
from suite.tracking.store import Store, open_existing
from suite.tracking.tags import leaderboard_page
from tests.support.commands import fault, runs_of, suite_here
from trials.common.errors import UserError


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Making a store takes seconds: each test has an experiment of its own in this one."""
    return Store(None, tmp_path_factory.mktemp("a räu me"))


@pytest.fixture
def experiment(store: Store, request: pytest.FixtureRequest) -> str:
    return store.experiment(request.node.name)


def test_two_processes_may_make_a_store_at_once(tmp_path: Path) -> None:
    text = "from pathlib import Path; from suite.tracking.store import Store; Store(None, Path())"
    both = [subprocess.Popen([sys.executable, "-c", text], cwd=tmp_path) for _ in range(2)]
    assert [process.wait(120) for process in both] == [0, 0]
    assert (tmp_path / "mlflow.db").is_file()
    assert runs_of(open_existing(None, tmp_path)) == []


def test_what_is_logged_is_there(
    store: Store, experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a person's environment says of when it is written."""
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_LOGGING", "true")
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
    assert 60_000 <= run.info.end_time - run.info.start_time < 90_000, "as long as its trial"
    with pytest.raises(UserError, match="no run 'abc-'"):
        store.get("abc-")


def test_a_history_keeps_its_bits_in_order_of_rounds_without_what_is_not_finite(
    store: Store, experiment: str
) -> None:
    run_id = store.create(experiment, "name", {"kind": "order"})
    history = [{"round": 7, "a": 5e-324}, {"round": 10, "a": 0.1 + 0.2}, {"round": 20, "a": 20 / 3}]
    for entry in (
        *history[::-1],
        {"round": 0, "a": float("nan")},
        {"round": 3, "a": -float("inf")},
    ):
        store.log(run_id, history=[entry])
    # More metrics than MLflow takes in one request (1000).
    store.log(run_id, history=[{"round": r, "x": r, "y": -r, "z": 1} for r in range(500)])
    assert store.curve(store.get(run_id), ["a"]) == history
    assert store.curve(store.get(run_id), ["y"]) == [{"round": r, "y": -r} for r in range(500)]
    assert "round" not in store.get(run_id).metrics


@pytest.mark.parametrize("name", ["bob's", 'a "quoted" name', "back\\slash", "fold · é", "100%"])
def test_a_sweep_is_found_by_any_name(store: Store, experiment: str, name: str) -> None:
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
    quote = "%22" if "'" in name else "%27"
    assert quote in leaderboard_page(experiment, name)
    for _ in range(2):  # once more changes nothing
        store.delete(sweep)
    assert store.sweeps(name) == []


def test_a_text_that_is_too_long_for_mlflow_is_left_out(store: Store, experiment: str) -> None:
    """The table of its sweep has it."""
    run_id = store.create(experiment, "name", {"spec": "x" * 9000, "seed": 3})
    store.log(run_id, {"layers": "y" * 9000})
    assert store.get(run_id).tags.keys() == {"format", "seed"}
    assert len(store.client.get_run(run_id).data.params["layers"]) == 5000


def test_a_damaged_database_is_refused_as_it_is(store: Store, tmp_path: Path) -> None:
    database = tmp_path / "runs" / "mlflow.db"
    database.parent.mkdir()
    content = Path(store.uri.removeprefix("sqlite:///")).read_bytes()
    database.write_bytes(content[: len(content) // 2])
    before = database.read_bytes()
    assert "runs/mlflow.db" in fault(suite_here("replay", "x", cwd=tmp_path, code=2))
    assert database.read_bytes() == before


def test_mlflow_s_own_variable_names_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of commands and of Python alike; an option, and an empty variable, go before it."""
    theirs, option = (f"sqlite:///{tmp_path / name}" for name in ("theirs.db", "option.db"))
    monkeypatch.setenv(VARIABLE, theirs)
    monkeypatch.chdir(tmp_path)
    run = interface.run(settings={"rounds": 1, "clients": 2})
    for uri, place in ((None, theirs), (option, option)):
        run_id = run.record(tracking_uri=uri)
        assert [own.run_id for own in runs_of(Store(place, tmp_path), kind="run")] == [run_id]
    assert "holds no sweep" in fault(suite_here("leaderboard", cwd=tmp_path, code=2))
    monkeypatch.setenv(VARIABLE, "")
    assert "no sweep in runs yet" in fault(suite_here("leaderboard", cwd=tmp_path, code=2))
    assert not (tmp_path / "runs").exists()


def test_sqlite_knows_how_many_runs_there_are_once_a_table_is_kept(tmp_path: Path) -> None:
    """Else a search that MLflow sorts by a metric takes it half a minute for 30,000 runs."""
    store = Store(None, tmp_path)
    run_id = store.create(store.experiment("mine"), "name", {"kind": "sweep"})
    (tmp_path / "trials.parquet").write_bytes(b"a table")
    store.keep_table(run_id, tmp_path / "trials.parquet")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as opened:
        assert opened.execute("select stat from sqlite_stat1 where tbl = 'runs'").fetchall()


def test_runs_are_found_beside_more_than_a_thousand_experiments(tmp_path: Path) -> None:
    store = Store(None, tmp_path)
    mine = store.create(store.experiment("mine"), "name", {"kind": "sweep", "sweep": "mine"})
    ahead = 10**15
    rows = [(1000 + i, f"e{i}", "active", ahead + i, ahead + i) for i in range(1001)]
    names = "experiment_id, name, lifecycle_stage, creation_time, last_update_time"
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as opened, opened:
        opened.executemany(f"insert into experiments ({names}) values (?, ?, ?, ?, ?)", rows)
    assert [run.run_id for run in store.sweeps("mine")] == [mine]


def test_a_network_file_system_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = SimpleNamespace(stdout="nfs\n")
    monkeypatch.setattr("suite.tracking.store.subprocess.run", lambda *_, **__: said)
    with pytest.raises(UserError, match=r"network file system \(nfs\).*--tracking-uri"):
        Store(None, tmp_path / "runs")
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_was_written_anew_is_fetched_anew(
    store: Store, experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sweep, path = store.create(experiment, "sweep", {"kind": "sweep"}), tmp_path / "trials.parquet"
    for text in ("first", "first", "longer"):
        path.write_text(text)
        store.keep_table(sweep, path)
        assert store.table(store.get(sweep)).read_text() == text
