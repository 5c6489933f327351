"""A tracking server that is away, refuses, keeps no files, or is given a password."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, TEMPORARILY_UNAVAILABLE

from suite.results.table import FILE, read
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from suite.tracking import StoreError, without_user
from suite.tracking import store as stores
from suite.tracking.store import Store
from tests.support.commands import runs_of, suite_here
from tests.support.faults import Server
from tests.support.foreign import little, play
from trials.common.errors import UserError

BUSY = MlflowException("(psycopg2.OperationalError) no connection", TEMPORARILY_UNAVAILABLE)
INVALID = MlflowException("Invalid value for 'metrics[0].name'", INVALID_PARAMETER_VALUE)
REFUSED = StoreError("sqlite:///here", INVALID)


@contextmanager
def server(status: int, text: str = "", empty: bool = True) -> Iterator[tuple[str, list[str]]]:
    """A stand-in of a tracking server, which answers so; its address, and what it was asked. One that is `empty` has no experiments."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            asked.append(self.path)
            first = empty and self.path.endswith("experiments/search")
            self.send_response(200 if first else status)
            self.end_headers()
            self.wfile.write(b'{"experiments": []}' if first else text.encode())

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Not in the tests' output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}", asked
        listening.shutdown()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


PASS, REFUSE = (408, 429, 500, 502, 503), (400, 401, 403, 404, 405, 413, 501)


@pytest.mark.parametrize("status", PASS + REFUSE)
def test_what_a_server_answers_passes_or_is_a_refusal(tmp_path: Path, status: int) -> None:
    """One that is gone passes, and so does a database that is locked."""
    with server(status, "<p>no\nmore") as (uri, _):
        store = Store(uri, tmp_path)
        with pytest.raises(StoreError) as refused:
            store.client.delete_run("a")
    assert refused.value.passes == (status in PASS)
    assert str(refused.value).startswith(f"tracking store {uri} ")
    assert "\n" not in str(refused.value)
    with pytest.raises(StoreError) as gone:
        store.experiment("study")
    assert gone.value.passes
    assert StoreError("postgresql://there/db", BUSY).passes
    assert not StoreError("postgresql://there/db", ModuleNotFoundError("psycopg2")).passes


def test_a_refused_name_costs_a_sweep_the_records_that_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Store.log

    def refuse(self: Store, run_id: str, params: Any = None, *more: Any, **named: Any) -> None:
        if params and params.get("mu") is not None:
            raise REFUSED
        log(self, run_id, params, *more, **named)

    monkeypatch.setattr(Store, "log", refuse)
    study, place = little(algorithms=["fedavg", "fedprox"]), SweepPaths(tmp_path / "runs", "s")
    result = play(Sweep("s", study, place, resume=False))
    assert [row.algorithm for row in result.leaderboard.rows] == ["fedavg", "fedprox"]
    (note,) = [note for note in result.leaderboard.notes if "metrics[0].name" in note]
    assert note.startswith(f"4 times: {REFUSED}")
    rows = read(place.folder / FILE).columns(["algorithm", "run_id"])
    assert set(rows[rows["run_id"] == ""]["algorithm"]) == {"fedprox"}
    assert len(rows) == 6
    store = Store(None, tmp_path / "runs")
    assert {run.status for run in runs_of(store)} == {"FINISHED"}
    monkeypatch.undo()
    play(Sweep("s", study, place, resume=True))
    assert len(runs_of(store, kind="search")) == 2, "no session tries them again"


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES")
    monkeypatch.setenv("no_proxy", "127.0.0.1")  # else the first store adds it
    before = dict(os.environ)
    with pytest.raises(UserError, match=r"http://127\.0\.0\.1:9 does not answer"):
        Store("http://127.0.0.1:9", tmp_path / "unused")
    with server(503, empty=False) as (uri, asked), pytest.raises(UserError, match=uri):
        Store(uri, tmp_path / "unused")
    assert len(asked) == 2, "once, and once again"
    assert dict(os.environ) == before, "the short patience is for the first question only"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("asked", [None, "60"])
def test_a_person_s_patience_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str | None
) -> None:
    name, seen = "MLFLOW_HTTP_REQUEST_TIMEOUT", []

    def client(uri: str) -> Any:
        seen.append(os.environ[name])
        return SimpleNamespace(search_experiments=lambda max_results: None)

    monkeypatch.setattr(stores, "MlflowClient", client)
    if asked:
        monkeypatch.setenv(name, asked)
    Store("http://there", tmp_path)
    assert (seen, os.environ.get(name)) == ([asked or "5"], asked)


def test_a_proxy_is_not_asked_for_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("http_proxy", "http://127.0.0.1:9"), ("no_proxy", ""), ("NO_PROXY", "")):
        monkeypatch.setenv(name, value)
    with server(200) as (uri, asked):
        Store(uri, tmp_path)
    assert asked


def test_a_server_that_keeps_no_files_is_warned_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its folder is on another machine, where a client would write to one of this."""
    place = str(tmp_path / "theirs" / "mlruns" / "7")
    theirs = {"experiment": {"experiment_id": "7", "artifact_location": place}}
    with server(200, json.dumps(theirs)) as (uri, _):
        store = Store(uri, tmp_path)
        assert [store.experiment("study") for _ in range(2)] == ["7", "7"]
    store.keep_table("a run", tmp_path / "trials.parquet")
    (warning,) = capsys.readouterr().err.splitlines()
    assert {uri, place} <= {word.strip(",") for word in warning.split()}
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql+psycopg2://me:s3@cret@there/db", "postgresql+psycopg2://there/db"),
        ("to https://s3cret@a/b and http://c/d@e", "to https://a/b and http://c/d@e"),
        ("sqlite:////home/me@there/mlflow.db", "sqlite:////home/me@there/mlflow.db"),
    ],
)
def test_a_text_has_no_user(text: str, shown: str) -> None:
    assert without_user(text) == shown


@pytest.mark.slow("an MLflow server")
def test_a_password_is_nowhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in what commands print nor in any file: journal, table, pages, logs, the server's store."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    theirs = tmp_path / "server"
    theirs.mkdir()
    server = Server(theirs)
    uri = server.uri.replace("http://", "http://me:s3cret@")
    try:
        place = SweepPaths(tmp_path / "runs", "s", uri)
        play(Sweep("s", little(), place, resume=False), most=1)
        result = play(Sweep("s", little(), place, resume=True))
        print(repr(result), result.summary, result.leaderboard.as_dict())
        (final,) = runs_of(Store(uri, tmp_path), kind="final")
        at = ("--tracking-uri", uri, "--storage", tmp_path / "runs")
        words = (
            "run --set rounds=1 --set clients=2",
            f"replay {final.run_id}",
            "tuned list",
            "report",
        )
        told = [suite_here(*command.split(), *at, cwd=tmp_path) for command in words]
        told += [suite_here("leaderboard", "--json", *at[:2], cwd=tmp_path)]
        told += [suite_here("replay", "x", *at, cwd=tmp_path, code=2)]
    finally:
        server.kill()
    told += [suite_here("leaderboard", *at, cwd=tmp_path, code=2)]
    with pytest.raises(UserError) as gone:
        Store(uri, tmp_path)
    texts = [str(gone.value), *capfd.readouterr(), *(str(each) for each in told)]
    assert server.uri in str(gone.value)
    assert not [text for text in texts if "s3cret" in text]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"journal.jsonl", FILE, "report.html", "server.db"} <= {path.name for path in files}
    assert not [path for path in files if b"s3cret" in path.read_bytes()]
