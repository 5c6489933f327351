"""Records: a real SQLite store (one for all tests), and the recorder's patience."""

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import mlflow.entities
import pytest

import suite as interface
from suite.tracking import VARIABLE, database
from suite.tracking.schema.tags import run_tags, spec_params
from suite.tracking.store import Store, open_existing
from tests.support.commands import document, fault, runs_of, suite
from trials.common.errors import UserError
from trials.run.outcome import Status
from trials.run.result import TrialResult
from trials.run.spec import TrialSpec
from trials.settings import Settings


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


def test_an_experiment_is_made_once(store):
    assert store.experiment("twice") == store.experiment("twice")
    assert store.experiment("twice") != store.experiment("other")


def test_an_experiment_that_was_deleted_is_there_again(store):
    made = store.experiment("deleted on the page")
    store.client.delete_experiment(made)
    assert store.experiment("deleted on the page") == made
    store.create(made, "name", {"kind": "search"})


def test_what_is_logged_is_found(store, experiment):
    run_id = store.create(
        experiment,
        "name",
        {
            "kind": "search",
            "seed": 3,
        },
    )
    store.log(run_id, {"lr": 0.1, "variant": "plain"}, [{"round": 5, "x": 1.5}], {"late": "yes"})
    store.set_status(run_id, "FINISHED")
    (found,) = runs_of(store, kind="search", late="yes")
    assert found == store.get(run_id)
    assert found.run_id == run_id
    assert store.client.get_run(run_id).data.params == {"lr": "0.1", "variant": "plain"}
    assert found.metrics == {"x": 1.5}
    assert {"kind": "search", "seed": "3", "late": "yes"}.items() <= found.tags.items()
    assert (found.status, found.experiment) == ("FINISHED", experiment)


def test_what_is_not_finite_is_left_out(store, experiment):
    """The rest of the same entry is kept."""
    run_id = store.create(experiment, "name", {"kind": "nan"})
    nan, inf = float("nan"), float("inf")
    history = [
        {"round": 0, "a": nan, "b": 0.25},
        {"round": 5, "a": inf, "b": -inf},
        {"round": 10, "a": 0.5, "b": 0.75},
    ]
    store.log(run_id, history=history)
    assert points(store, run_id, "a") == [(10, 0.5)]
    assert points(store, run_id, "b") == [(0, 0.25), (10, 0.75)]
    assert "round" not in store.get(run_id).metrics


def test_history_is_in_order_of_rounds(store, experiment):
    run_id = store.create(experiment, "name", {"kind": "order"})
    for r in (20, 0, 100, 5):
        store.log(run_id, history=[{"round": r, "x": r / 3}])
    assert points(store, run_id, "x") == [(r, r / 3) for r in (0, 5, 20, 100)]
    assert points(store, run_id, "never") == []


def test_numbers_come_back_to_the_last_bit(store, experiment):
    """Replay compares bits."""
    run_id = store.create(experiment, "name", {"kind": "bits"})
    values = [0.1 + 0.2, 1e-308, 123456789.123456789, 5e-324]
    store.log(run_id, history=[{"round": i, "x": v} for i, v in enumerate(values)])
    assert [repr(v) for _, v in points(store, run_id, "x")] == [repr(v) for v in values]


def test_a_long_history_is_recorded_whole(store, experiment):
    """More metrics than MLflow takes in one request (1000)."""
    run_id = store.create(experiment, "name", {"kind": "long"})
    store.log(run_id, history=[{"round": r, "x": r, "y": -r, "z": 1} for r in range(500)])
    assert points(store, run_id, "y") == [(r, -r) for r in range(500)]


def test_logging_twice_adds_nothing(store, experiment):
    run_id = store.create(experiment, "name", {"kind": "repeat"})
    for _ in range(2):
        store.log(run_id, {"lr": 0.1}, tags={"kind": "repeat"})
    assert store.client.get_run(run_id).data.params == {"lr": "0.1"}
    store.log(run_id, tags={"kind": "superseded"})
    assert runs_of(store, kind="repeat") == []


def test_find_takes_all_tags_together_oldest_first(store, experiment):
    for kind, seed, age in (("m", 1, 10), ("m", 2, 30), ("n", 1, 20), ("m", 3, 40)):
        store.create(experiment, "name", {"kind": kind, "seed": seed}, seconds=age)
    assert [r.tags["seed"] for r in runs_of(store, kind="m")] == ["3", "2", "1"]
    assert [r.tags["kind"] for r in runs_of(store, kind="m", seed="1")] == ["m"]
    assert [r.tags["seed"] for r in runs_of(store, kind="n")] == ["1"]
    assert runs_of(store, kind="n", seed="2") == []


@pytest.mark.parametrize(
    "value", ["bob's", 'a "quoted" name', "back\\slash", "fold · é", "x' OR '1'='1", "100%"]
)
def test_find_by_any_text(store, experiment, value):
    """A data set's path or a sweep's name may hold any character."""
    store.create(experiment, "name", {"kind": "text", "dataset": value})
    store.create(experiment, "name", {"kind": "text", "dataset": "another"})
    assert [r.tags["dataset"] for r in runs_of(store, dataset=value)] == [value]


def test_a_run_has_its_parent(store, experiment):
    parent = store.create(experiment, "parent", {"kind": "entry"})
    child = store.create(experiment, "child", {"kind": "search"}, parent)
    run = store.client.get_run(child)
    assert run.data.tags["mlflow.parentRunId"] == parent
    assert run.info.run_name == "child"


def test_a_run_lasts_as_long_as_its_trial(store, experiment):
    run_id = store.create(experiment, "name", {}, seconds=60.0)
    store.set_status(run_id, "FINISHED")
    info = store.client.get_run(run_id).info
    assert 60_000 <= info.end_time - info.start_time < 70_000


def test_status_can_go_back_to_running(store, experiment):
    run_id = store.create(experiment, "name", {"kind": "back"})
    for status in ("KILLED", "RUNNING", "FINISHED"):
        store.set_status(run_id, status)
        assert store.get(run_id).status == status


def test_a_deleted_run_is_gone_and_does_not_run(store, experiment):
    kept = store.create(experiment, "kept", {"kind": "delete"})
    store.set_status(kept, "FINISHED")
    gone = store.create(experiment, "gone", {"kind": "delete"})
    store.delete(gone)
    assert [r.run_id for r in runs_of(store, kind="delete")] == [kept]
    everything = store.client.search_runs([experiment], run_view_type=mlflow.entities.ViewType.ALL)
    assert {r.info.run_id for r in everything} == {kept, gone}
    assert not [r for r in everything if r.info.status == "RUNNING"]


def test_an_unknown_run(store):
    with pytest.raises(UserError, match=r"no run 'abc'"):
        store.get("abc")


SPEC = TrialSpec(
    algorithm="folb",
    params={"lr": 0.1, "mu": 0.01, "variant": "plain"},
    dataset="digits",
    model="logreg",
    heterogeneity="iid",
    settings=Settings(rounds=7, batch_size="full"),
    seed=3,
)


def test_an_error_is_recorded_to_its_end(store, experiment):
    """A traceback may be longer than a tag; what matters stands last."""
    outcome = TrialResult(Status.FAILED, error="x" * 20_000 + "ZeroDivisionError")
    run_id = store.create(experiment, "name", run_tags("search", SPEC, outcome))
    assert store.get(run_id).tags["error"].endswith("ZeroDivisionError")


def test_params_are_the_algorithms_fields_and_the_settings():
    found = spec_params(SPEC)
    assert {
        "lr": 0.1,
        "mu": 0.01,
        "variant": "plain",
        "rounds": 7,
        "batch_size": "full",
    }.items() <= (found.items())
    assert None not in found.values()


class Overloaded(BaseHTTPRequestHandler):
    """A tracking server that never has time; it counts how often it was asked."""

    asked = 0

    def do_POST(self) -> None:
        type(self).asked += 1
        self.send_error(503)

    def log_message(self, *_: object) -> None:
        """Not in the tests' output."""


def test_nobody_answers(monkeypatch):
    for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    with pytest.raises(UserError, match=r"http://127\.0\.0\.1:9 does not answer"):
        Store("http://127.0.0.1:9", Path("unused"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Overloaded) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        uri = f"http://127.0.0.1:{server.server_port}"
        with pytest.raises(UserError, match=f"{uri} does not answer"):
            Store(uri, Path("unused"))
        server.shutdown()
    assert Overloaded.asked == 2, "once, and once again"
    assert dict(os.environ) == before, "the short patience is for the first question only"
    assert not Path("unused").exists()


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "lustre"])
def test_a_network_file_system_is_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(database, "_file_system", lambda path: kind)
    with pytest.raises(UserError, match=rf"network file system \({kind}\).*--tracking-uri"):
        Store(None, tmp_path)
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/x", "ext4"),
        ("/home/x/net/deep/er", "nfs4"),
        ("/home/x/network", "ext4"),
        ("/data", "xfs"),
        ("/data/over", "cifs"),
        ("/my disk/runs", "nfs"),
        ("/tmp", "overlay"),
    ],
)
def test_the_file_system_of_a_path(monkeypatch, path, kind):
    """The innermost mount counts, of two at one place the later; blanks are written as \\040."""
    mounts = (
        "overlay / overlay rw 0 0\n"
        "/dev/sda1 /home ext4 rw 0 0\n"
        "server:/x /home/x/net nfs4 rw 0 0\n"
        "/dev/sdb1 /data xfs rw 0 0\n"
        "/dev/sdc1 /data/over ext4 rw 0 0\n"
        "//server/x /data/over cifs rw 0 0\n"
        "server:/y /my\\040disk nfs rw 0 0\n"
    )
    monkeypatch.setattr(Path, "read_text", lambda self: mounts)
    assert database._file_system(Path(path)) == kind


def test_a_store_that_is_not_there_yet(tmp_path):
    with pytest.raises(UserError, match="suite sweep quickstart"):
        open_existing(None, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_mlflow_s_own_variable_names_the_store(tmp_path):
    """Of commands and of Python alike; an option, and an empty variable, go before it."""
    uri = f"sqlite:///{tmp_path / 'theirs.db'}"
    words = ("run", "--set", "rounds=1", "--set", "clients=2", "--json")
    ran = document(suite(*words, cwd=tmp_path, env={VARIABLE: uri}))
    assert not (tmp_path / "runs").exists()
    store = Store(uri, tmp_path / "runs")
    assert [run.run_id for run in runs_of(store, kind="run")] == [ran["run_id"]]
    refused = suite("leaderboard", cwd=tmp_path, env={VARIABLE: "./mlruns"}, code=2)
    assert f"tracking store ./mlruns of {VARIABLE} does not answer" in fault(refused)
    refused = suite("leaderboard", cwd=tmp_path, env={VARIABLE: ""}, code=2)
    assert "there is no sweep in runs yet" in fault(refused)


def test_python_goes_by_it_too(tmp_path, monkeypatch):
    theirs, given = (f"sqlite:///{tmp_path / name}" for name in ("theirs.db", "given.db"))
    monkeypatch.setenv(VARIABLE, theirs)
    monkeypatch.chdir(tmp_path)
    run = interface.run(settings={"rounds": 1, "clients": 2})
    for uri, told in ((theirs, None), (given, given)):
        run_id = run.record(tracking_uri=told)
        assert [one.run_id for one in runs_of(Store(uri, tmp_path), kind="run")] == [run_id]
        with pytest.raises(UserError, match="holds no sweep"):
            interface.leaderboard(tracking_uri=told)
    assert not (tmp_path / "runs").exists()


def test_a_text_that_is_too_long_for_mlflow_is_left_out(store, experiment):
    """The table of its sweep has it."""
    run_id = store.create(experiment, "name", {"kind": "texts", "spec": "x" * 9000})
    store.log(run_id, {"layers": "y" * 9000})
    assert "spec" not in store.get(run_id).tags
    assert len(store.client.get_run(run_id).data.params["layers"]) == 5000
    store.set_status(run_id, "FINISHED")


def test_runs_are_found_beside_more_than_a_thousand_experiments(tmp_path):
    store = Store(None, tmp_path)
    mine = store.create(store.experiment("mine"), "name", {"kind": "sweep", "sweep": "mine"})
    _experiments(tmp_path / "mlflow.db", 1001)
    store = Store(None, tmp_path)
    assert [run.run_id for run in runs_of(store, sweep="mine")] == [mine]
    assert store.get(mine).run_id == mine


def _experiments(database: Path, number: int) -> None:
    """Put so many newer experiments into a store."""
    ahead = 10**15
    rows = [(1000 + i, f"e{i}", "active", ahead + i, ahead + i) for i in range(number)]
    names = "experiment_id, name, lifecycle_stage, creation_time, last_update_time"
    with closing(sqlite3.connect(database)) as made, made:
        made.executemany(f"insert into experiments ({names}) values (?, ?, ?, ?, ?)", rows)
