"""The server of the live pages: what it answers, to whom, and how it is asked to stop a sweep."""

import asyncio
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from suite.tracking import pages_at
from suite.watch.server import app, bind, ours
from tests.support.commands import SUITE, study_file, suite_here
from trials.errors import UserError

LONG = """
algorithms: [fedavg, fedprox]
datasets: [digits]
models: [logreg]
heterogeneity: [iid]
trials: 2
seeds: 2
sampler: random
settings: {rounds: 2, clients: 4, participation: 1.0, execution: batched}
"""


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep."""
    folder = tmp_path_factory.mktemp("watched")
    suite_here("sweep", study_file(folder, LONG), "--name", "night", cwd=folder)
    return folder / "runs"


@pytest.fixture(scope="module")
def port(storage: Path) -> Iterator[int]:
    """The port of `suite watch`, which ends when it is told to, and leaves its noise in a file."""
    command = [SUITE, "watch", "night", "--storage", str(storage)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = process.stderr.readline()
    found = re.fullmatch(r"Watch: http://127\.0\.0\.1:(\d+)/sweeps/night\n", said)
    assert found, said
    yield int(found[1])
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) in (0, -signal.SIGTERM)
    assert process.stderr.read() == ""
    assert "Started server process" in (storage / "watch.log").read_text()


def ask(
    port: int, path: str, method: str = "GET", host: str | None = None, **headers: str
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{port}", **given})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def test_a_finished_sweep_has_its_leaderboard(port: int) -> None:
    deadline = time.monotonic() + 120
    while "<h2>Leaderboard</h2>" not in (page := ask(port, "/sweeps/night/parts")[1]):
        assert time.monotonic() < deadline, page
        time.sleep(0.2)
    assert "8 of 8 trials" in page
    assert "interim, validation only" not in page, "no cell is open any more"
    assert 'data-ask="stop"' not in page, "nothing runs"
    address = r"http://127\.0\.0\.1:5000/#/experiments/1/runs\?workflowType=machine_learning"
    assert re.search(rf'<a href="{address}">MLflow</a>', page)


def test_what_has_not_changed_is_not_sent_again(port: int) -> None:
    status, _, headers = ask(port, "/sweeps/night/parts")
    assert (status, float(headers["X-Seconds"]) >= 0) == (200, True)
    assert ask(port, "/sweeps/night/parts", If_None_Match=headers["ETag"])[:2] == (304, "")


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/sweeps/nigth", "GET", 404),
        ("/sweeps/nigth/parts", "GET", 404),
        ("/sweeps/..%2f..%2fetc", "GET", 404),
        ("/sweeps/night/burn", "POST", 404),
        ("/sweeps/night/stop", "GET", 405),
    ],
)
def test_what_is_not_there(port: int, path: str, method: str, status: int) -> None:
    assert ask(port, path, method)[0] == status


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example"])
def test_another_host_is_refused(port: int, host: str) -> None:
    for path in ("/", "/sweeps/night", "/vega.js"):
        assert ask(port, path, host=host)[:2] == (403, "this host is not served here")


@pytest.mark.parametrize(
    ("host", "served"),
    [("localhost:5", True), ("127.0.0.1", True), ("[::1]:7", True), ("10.1.2.3:80", True),
     ("", False), ("a.b", False), ("localhost.evil", False)],
)  # fmt: skip
def test_whose_names_are_ours(host: str, served: bool) -> None:
    assert ours(host) is served


def test_only_a_page_of_ours_may_stop_a_sweep(port: int, storage: Path) -> None:
    own = f"http://127.0.0.1:{port}"
    page = ask(port, "/sweeps/night")[1]
    (token,) = re.findall(r'<meta name="token" content="([^"]+)">', page)
    refused = (403, "only a page of this server may ask that")
    for headers in (
        {},
        {"Origin": own},
        {"X_Token": token},
        {"Origin": "http://evil.example", "X_Token": token},
        {"Origin": "null", "X_Token": token},
        {"Origin": own, "X_Token": token[:-1]},
    ):
        assert ask(port, "/sweeps/night/stop", "POST", **headers)[:2] == refused, headers
        assert not (storage / "night" / "control").exists()
    said = ask(port, "/sweeps/night/stop", "POST", Origin=own, X_Token=token)[:2]
    assert said == (200, "Asked night to stop; no process of this machine runs it.")
    assert (storage / "night" / "control").read_text() == "stop"


def test_no_other_page_shows_them_in_a_frame(port: int) -> None:
    for path in ("/", "/sweeps/night", "/sweeps/night/parts"):
        headers = ask(port, path)[2]
        assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
        assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/sweeps/%2e%2e",
        "/sweeps/%00",
        "/sweeps/" + "a" * 5000,
        "/sweeps/%ff",
        "/sweeps/a%2fb%2fc",
        "/x",
    ],
)
def test_names_of_no_sweep(port: int, path: str) -> None:
    status, said, _ = ask(port, path)
    assert status == 404
    assert "Traceback" not in said


def test_a_token_that_no_page_has(port: int) -> None:
    own, token = f"http://127.0.0.1:{port}", "\xe9"
    assert ask(port, "/sweeps/night/stop", "POST", Origin=own, X_Token=token)[0] == 403


def test_who_is_slow_or_sends_much_keeps_nobody_waiting(port: int) -> None:
    """Half a request, a header without an end, a body of a gigabyte to come."""
    said = [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 10**6,
        b"POST /sweeps/night/stop HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\n",
    ]
    with ExitStack() as held:
        slow = [
            held.enter_context(socket.create_connection(("127.0.0.1", port)))
            for _ in range(30)
            for _ in said
        ]
        for one, text in zip(slow, said * 30, strict=True):
            with suppress(OSError):  # who sends too much may be cut off
                one.sendall(text)
        assert ask(port, "/sweeps/night/parts")[0] == 200


def through(path: str, method: str, **headers: str) -> int:
    """The status of a request to an application that answers 200 to all, behind our guard."""
    guarded = app(
        [Mount("/mlflow", PlainTextResponse("done")), Mount("/", PlainTextResponse("done"))]
    )
    given = {"host": "127.0.0.1:5000", **headers}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(guarded(scope, receive, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize("below", ["", "/mlflow"])
def test_no_page_elsewhere_changes_records(below: str) -> None:
    """MLflow's own guard takes pages of any local port for its own."""
    path = f"{below}/ajax-api/2.0/mlflow/runs/delete"
    for origin in ("http://evil.example", "http://127.0.0.1:3000", "null", "", "http://[1"):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert through(path, method, origin=origin) == 403, (origin, method)
    own = "http://127.0.0.1:5000"
    assert through(path, "POST", origin=own) == 200
    assert through(path, "POST") == 200, "a program, not a page"
    assert through(path, "GET", origin="http://evil.example") == 200
    assert through(path, "POST", host="evil.example", origin="http://evil.example") == 403


def test_a_port_that_is_taken() -> None:
    with bind("127.0.0.1", None, 0) as there:
        port = there.getsockname()[1]
        with bind("127.0.0.1", None, port) as other:
            assert other.getsockname()[1] != port, "the usual one is taken: any other"
        with pytest.raises(UserError, match=f"--port {port}: 127.0.0.1:{port} is not to be had"):
            bind("127.0.0.1", port, port)


@pytest.mark.parametrize(
    ("given", "tracking", "found"),
    [
        (None, None, "http://127.0.0.1:5000"),
        (None, "sqlite:///a.db", "http://127.0.0.1:5000"),
        (None, "https://mlflow.example/", "https://mlflow.example"),
        ("http://localhost:5000/mlflow", "https://mlflow.example", "http://localhost:5000/mlflow"),
    ],
)
def test_where_mlflow_s_pages_are(given: str | None, tracking: str | None, found: str) -> None:
    assert pages_at(given, tracking) == found


def test_no_torch_is_loaded(storage: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from suite.watch.views import Views; "
        f"import suite.watch.server; Views(Path({str(storage)!r}), None, '').sweep('night'); "
        "print(*{'torch', 'ray'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ
    )
    assert (done.stdout, done.returncode) == ("\n", 0), done.stderr
