"""The server of the pages: what it answers, and to whom."""

import asyncio
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from suite.ui import AT_ONCE, REFUSED, Mounted, app, bind
from tests.support.commands import study_file, suite_here
from tests.support.served import served
from trials.common.errors import UserError

TOKENS: dict[int, str] = {}
"""Of what is served, by its port."""
LONG = """
{algorithms: [fedavg, fedprox], datasets: [digits], models: [logreg], heterogeneity: [iid],
trials: 2, seeds: 2, sampler: random, settings: {rounds: 2, clients: 4, participation: 1.0, execution: batched}}
"""


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep."""
    folder = tmp_path_factory.mktemp("watched")
    suite_here("sweep", study_file(folder, LONG), "--name", "night", cwd=folder)
    return folder / "runs"


@pytest.fixture(scope="module")
def port(storage: Path) -> Iterator[int]:
    """The port of `suite ui`, which ends when it is told to."""
    with served("night", "--storage", str(storage)) as pages:
        assert pages.path == "/sweeps/night"
        TOKENS[pages.port] = pages.token
        yield pages.port
    assert pages.rest == ["Ctrl-C ends the server.\n"]


def ask(
    port: int, path: str, method: str = "GET", host: str | None = None, **headers: str
) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    given |= {"Host": host or f"127.0.0.1:{port}", "Authorization": f"Bearer {TOKENS[port]}"}
    connection.request(method, path, headers=given)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def test_a_finished_sweep_has_its_leaderboard(port: int) -> None:
    for path in ("/", "/sweeps/night"):
        page = ask(port, path)[1]
        assert "<h2>Leaderboard</h2>" in page
        assert "8 of 8" in page
        assert "what runs now" not in page
        assert "interim, validation only" not in page, "no scenario is open any more"


def test_a_search_leads_to_the_dashboard(port: int) -> None:
    entries = [text[:8] for text in ask(port, "/sweeps/night")[1].split("/studies/")[1:]]
    assert len(entries) == 2
    for entry in entries:
        status, _, headers = ask(port, f"/sweeps/night/studies/{entry}")
        assert (status, headers["Location"][:19]) == (307, "/dashboard/studies/")
        study = json.loads(ask(port, headers["Location"].replace("/dashboard", "/api"))[1])
        assert study["name"].startswith("night: fed")
        assert [trial["state"] for trial in study["trials"]] == ["Complete"] * 2
        assert study["has_intermediate_values"]
    assert ask(port, "/sweeps/night/studies/x")[2]["Location"] == "/dashboard"


def test_links_lead_to_the_view_of_mlflow_that_shows_runs(port: int, storage: Path) -> None:
    """By itself it opens that of language models. A report's links are whole addresses, since it is a file, too."""
    made = suite_here(
        "report", "night", "--storage", storage, "--output", storage / "o", cwd=storage
    )
    pages = [Path(made.stdout.strip()).read_text()]
    pages += [ask(port, path)[1] for path in ("/", "/sweeps/night", "/sweeps/night/report.html")]
    for page in pages:
        links = re.findall(r'href="([^"]*/#/[^"]*|[^"]*:5000/*|/mlflow/*)"', page)
        assert links
        assert all("?workflowType=machine_learning" in link for link in links), links
    assert f'href="http://127.0.0.1:{port}/mlflow/#/' in pages[-1]
    assert "searchFilter=" in pages[1]
    assert (storage / "report" / "night" / "report.html").read_text() == pages[-1]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example"])
def test_another_host_is_refused(port: int, host: str) -> None:
    for path in ("/", "/sweeps/night", "/dashboard"):
        assert ask(port, path, host=host)[:2] == (403, "this host is not served here")


def test_where_nothing_was_run_yet(tmp_path: Path) -> None:
    """A page that says so; nothing is made in the folder."""
    with served("--storage", str(tmp_path / "runs")) as pages:
        TOKENS[pages.port] = pages.token
        status, page, _ = ask(pages.port, "/")
    assert (status, "<code>suite sweep quickstart</code> starts one" in page) == (200, True)
    assert list(tmp_path.iterdir()) == []


def test_every_page_has_a_policy(port: int) -> None:
    """Ours let run what has the nonce of the one answer; others load nothing from elsewhere."""
    policies = [ask(port, "/")[2]["Content-Security-Policy"] for _ in range(2)]
    assert len({re.findall("script-src 'nonce-([^']+)'", policy)[0] for policy in policies}) == 2
    assert policies[0].startswith("default-src 'none'; ")
    assert "frame-ancestors 'none'" in policies[0]
    assert "unsafe" not in policies[0]
    for path in ("/mlflow/", "/dashboard", "/api/studies", "/mlflow/version"):
        assert "default-src 'self'" in ask(port, path)[2]["Content-Security-Policy"], path
    report = ask(port, "/sweeps/night/report.html")[2]
    assert "sandbox allow-scripts" in report["Content-Security-Policy"]


def through(path: str, method: str, **headers: str) -> int:
    """The status of a request to an application that answers 200 to all, behind our guard; with its token."""
    guarded = app(
        [Mount("/mlflow", PlainTextResponse("done")), Mount("/", PlainTextResponse("done"))],
        "token",
    )
    given = {"host": "127.0.0.1:5000", "authorization": "Bearer token", **headers}
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
    for origin in ("http://evil.example", "http://127.0.0.1:3000", "null", ""):
        for method in ("GET", "POST"):
            assert through(path, method, origin=origin) == 403, (origin, method)
    own = "http://127.0.0.1:5000"
    assert through(path, "POST", origin=own) == 200
    assert through(path, "POST") == 200, "a program, not a page"
    assert through(path, "POST", authorization="") == 401
    assert through(path, "POST", host="evil.example", origin="http://evil.example") == 403


def test_all_of_many_requests_at_once_are_answered_a_few_at_a_time() -> None:
    running = most = answered = 0

    async def slow(*request: Any) -> None:
        nonlocal running, most, answered
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running, answered = running - 1, answered + 1

    async def ask_all() -> None:
        mounted = Mounted({"GET": ["/"]}, lambda: slow, REFUSED)
        scope = {"type": "http", "method": "GET", "path": "/", "root_path": ""}
        await asyncio.gather(*(mounted(scope, None, None) for _ in range(50)))

    asyncio.run(ask_all())
    assert (most, answered) == (AT_ONCE, 50)


def test_a_port_that_is_taken() -> None:
    with bind("127.0.0.1", None, 0) as there:
        port = there.getsockname()[1]
        with bind("127.0.0.1", None, port) as other:
            assert other.getsockname()[1] != port, "the usual one is taken: any other"
        with pytest.raises(UserError, match=f"cannot serve pages at 127.0.0.1:{port}"):
            bind("127.0.0.1", port, port)


def test_no_torch_is_loaded(storage: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from suite.ui import Dashboard; "
        f"Dashboard(Path({str(storage)!r})).refresh(); print(*{{'torch', 'ray'}} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ
    )
    assert (done.stdout, done.returncode) == ("\n", 0), done.stderr
