"""Who `suite ui` answers, and what of MLflow and of Optuna's dashboard it lets through."""

import asyncio
import http.client
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fastapi.routing import iter_route_contexts
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from optuna.storages import InMemoryStorage
from optuna_dashboard import wsgi

from suite.tracking.store import Store
from suite.ui import DASHBOARD_READS, MLFLOW_READS, app, reads
from tests.support.served import Served, served
from tests.support.watched import swept

LET_THROUGH = {
    "GET /": "",
    "GET /health": "",
    "GET /version": "",
    "GET /static-files/<path:path>": "",
    "GET /get-artifact": "run_uuid={run}&path=files/note.txt",
    "GET /model-versions/get-artifact": "name=model&version=1&path=note.txt",
    "GET /api/3.0/mlflow/server-info": "",
    "GET /api/2.0/mlflow/experiments/get": "experiment_id={experiment}",
    "GET /api/2.0/mlflow/experiments/get-by-name": "experiment_name=quick",
    "GET /api/2.0/mlflow/experiments/search": "max_results=5",
    "POST /api/2.0/mlflow/experiments/search": '{"max_results": 5}',
    "POST /api/2.0/mlflow/experiments/search-datasets": '{"experiment_ids": ["{experiment}"]}',
    "GET /api/2.0/mlflow/runs/get": "run_id={run}",
    "POST /api/2.0/mlflow/runs/search": '{"experiment_ids": ["{experiment}"]}',
    "GET /api/2.0/mlflow/artifacts/list": "run_id={run}",
    "GET /api/2.0/mlflow/metrics/get-history": "run_id={run}&metric_key=mean",
    "GET /api/2.0/mlflow/metrics/get-history-bulk": "run_id={run}&metric_key=mean",
    "GET /api/2.0/mlflow/metrics/get-history-bulk-interval": "run_ids={run}&metric_key=mean&max_results=5",
    "GET /api/2.0/mlflow/logged-models/<model_id>": "",
    "GET /api/2.0/mlflow/logged-models/<model_id>/artifacts/directories": "",
    "GET /api/2.0/mlflow/logged-models/<model_id>/artifacts/files": "artifact_file_path=note.txt",
    "POST /api/2.0/mlflow/logged-models/search": '{"experiment_ids": ["{experiment}"]}',
    "GET /api/2.0/mlflow/registered-models/get": "name=model",
    "GET /api/2.0/mlflow/registered-models/search": "max_results=5",
    "GET /api/2.0/mlflow/model-versions/get": "name=model&version=1",
    "GET /api/2.0/mlflow/model-versions/search": "max_results=5",
    "POST /api/3.0/mlflow/datasets/search": '{"experiment_ids": ["{experiment}"]}',
    "GET /api/3.0/mlflow/scorers/list": "experiment_id={experiment}",
    "POST /api/3.0/mlflow/traces/search": '{"locations": []}',
    "POST /api/3.0/mlflow/traces/metrics": (
        '{"experiment_ids": ["{experiment}"], "view_type": "TRACES", "metric_name": "trace_count",'
        ' "aggregations": [{"aggregation_type": "COUNT"}]}'
    ),
    "POST /graphql": '{"query": "{ mlflowGetRun(input: {runId: \\"{run}\\"}) { run { info { runName } } } }"}',
}
"""All of MLflow's that is served, with what it is asked below; what is there at `/ajax-api`, too, is listed once."""
STUDIES = (
    "GET /api/studies",
    "GET /api/studies/<study_id:int>",
    "GET /api/studies/<study_id:int>/param_importances",
    "GET /api/studies/<study_id:int>/plot/<plot_type>",
    "GET /csv/<study_id:int>",
)
DASHBOARD = {
    *STUDIES,
    "GET /api/meta",
    "GET /dashboard<:re:(/.*)?>",
    "GET /favicon.ico",
    "GET /static/<filename:path>",
}
"""All of optuna-dashboard's that is served."""


class Owned:
    """A storage of its owner's, with a secret beside it, and `suite ui` of it."""

    def __init__(self, folder: Path) -> None:
        self.storage, self.secret = folder / "runs", folder / "secret"
        self.secret.mkdir(mode=0o700)
        (self.secret / "key").write_text("private key")
        note = folder / "note.txt"
        note.write_text("a note")
        store = Store(None, self.storage)
        self.client = store.client
        self.experiment = store.experiment("quick")
        self.run = store.create(self.experiment, "a run", {"kind": "search"})
        store.log(self.run, {"lr": 0.1}, [{"round": 0, "mean": 0.5}])
        store.client.log_artifact(self.run, str(note), "files")
        uri = self.client.get_run(self.run).info.artifact_uri
        self.client.create_registered_model("model")
        self.client.create_model_version("model", f"{uri}/files", self.run)
        self.model = self.client.create_logged_model(self.experiment, "logged").model_id
        place = urlsplit(self.client.get_logged_model(self.model).artifact_location).path
        Path(place).mkdir(parents=True)
        (Path(place) / "note.txt").write_text("a note")
        # What leads out of the storage: an experiment's place, a run's folder, a file in a run's folder.
        elsewhere = self.client.create_experiment("elsewhere", self.secret.as_uri())
        self.foreign = self.client.create_run(elsewhere).info.run_id
        (self.secret / self.foreign / "artifacts").mkdir(parents=True)
        (self.secret / self.foreign / "artifacts" / "key").write_text("private key")
        self.client.create_model_version("model", self.secret.as_uri(), self.foreign)
        self.linked = store.create(self.experiment, "linked", {"kind": "search"})
        (self.storage / "artifacts" / self.linked).mkdir()
        (self.storage / "artifacts" / self.linked / "artifacts").symlink_to(self.secret)
        (Path(urlsplit(uri).path) / "out").symlink_to(self.secret)
        (Path(urlsplit(uri).path) / "key").symlink_to(self.secret / "key")
        swept(self.storage, "night")

    def content(self) -> tuple[list[str], list[str]]:
        """Return all rows of the database, and all files."""
        with sqlite3.connect(self.storage / "mlflow.db") as database:
            rows = list(database.iterdump())
        files = [str(path) for path in self.secret.parent.rglob("*") if "report" not in path.parts]
        return rows, sorted(files)

    def filled(self, text: str) -> str:
        return text.replace("{run}", self.run).replace("{experiment}", self.experiment)


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Owned:
    return Owned(tmp_path_factory.mktemp("owned"))


@pytest.fixture(scope="module")
def pages(owned: Owned) -> Iterator[Served]:
    with served("--storage", str(owned.storage)) as found:
        assert ask(found, "GET", "/version")[0] == 200, "MLflow is loaded"
        yield found


def ask(
    pages: Served, method: str, path: str, body: str | None = None, **headers: str
) -> tuple[int, str, http.client.HTTPMessage]:
    """Send a request with the token, or with these headers instead."""
    connection = http.client.HTTPConnection("127.0.0.1", pages.port, timeout=120)
    own = headers or {"Authorization": f"Bearer {pages.token}"}
    connection.request(method, path, body, {"Content-Type": "application/json", **own})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(errors="replace"), answer.headers


def routes() -> list[tuple[str, str]]:
    """Return each method and path of MLflow's whole application, of its FastAPI part and of its Flask part."""
    from mlflow.server import app as flask
    from mlflow.server.fastapi_app import app as fastapi

    found = set()
    for context in iter_route_contexts(fastapi.routes):
        found |= {(method, context.path) for method in context.methods or ()}
    for rule in flask.url_map.iter_rules():
        found |= {(method, rule.rule) for method in rule.methods or ()}
    return sorted(found)


def routes_of_the_dashboard() -> list[tuple[str, str]]:
    """Return each method and path of optuna-dashboard's application."""
    return sorted({(route.method, route.rule) for route in wsgi(InMemoryStorage()).routes})


def filled(route: str, value: str = "x") -> str:
    """Return a path of a route with parameters: `{name}` in FastAPI, `<name>` in Flask, `<name:kind>` in Bottle."""
    route = route.replace("<:re:(/.*)?>", f"/{value}")
    return re.sub(
        r"[{<][^}>]+[}>]", lambda part: "0" if part[0].endswith(":int>") else value, route
    )


def test_the_routes_of_the_dashboard_that_are_served() -> None:
    assert len(routes_of_the_dashboard()) > 30
    assert {method for method, _ in routes_of_the_dashboard()} == {"GET", "POST", "PUT", "DELETE"}
    passed = {
        f"{method} {route}"
        for method, route in routes_of_the_dashboard()
        if any(reads(DASHBOARD_READS, method, filled(route, value)) for value in ("x", "a/b"))
    }
    assert passed == DASHBOARD


def test_the_dashboard_reads_and_writes_nothing(pages: Served, owned: Owned) -> None:
    """What only reads is answered; all else is refused, whatever the method, and no study changes."""
    before = owned.content(), ask(pages, "GET", "/api/studies/0")[1]
    real = {"/static/x": "/static/bundle.js", "/dashboard/x": "/dashboard/studies/0"}
    for _, route in routes_of_the_dashboard():
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            if route == "/":
                continue  # the first page is ours
            path = real.get(filled(route), filled(route))
            served_here = f"{method} {route}" in DASHBOARD
            if "/plot/" in route and served_here:
                continue  # needs plotly, which is the person's
            status, answer, _ = ask(pages, method, path, None if served_here else '{"name": "new"}')
            assert status == (200 if served_here else 403), (method, route, answer)
    assert (owned.content(), ask(pages, "GET", "/api/studies/0")[1]) == before
    assert len(json.loads(ask(pages, "GET", "/api/studies")[1])["study_summaries"]) == 2
    for path in ("/static/../index.html", "/static/%2e%2e/index.html", "/static/..%2f_app.py"):
        status, answer, _ = ask(pages, "GET", path)
        assert status in (403, 404), path
        assert "import" not in answer


def test_the_routes_of_mlflow_that_are_served() -> None:
    """A route that a version of MLflow adds is not served until it is listed here and in `READS`."""
    assert len(routes()) > 400
    passed = [
        f"{method} {route.replace('/ajax-api/', '/api/')}"
        for method, route in routes()
        if any(
            reads(MLFLOW_READS, method, filled(route, value)) for value in ("x", "search", "a/b")
        )
    ]
    assert sorted(set(passed)) == sorted(LET_THROUGH)


def test_what_is_served_answers_and_writes_nothing(pages: Served, owned: Owned) -> None:
    parts = {"<model_id>": owned.model, "<path:path>": "manifest.json"}
    before = owned.content()
    for method, route in routes():
        if reads(MLFLOW_READS, method, filled(route)):
            asked = owned.filled(LET_THROUGH[f"{method} {route.replace('/ajax-api/', '/api/')}"])
            path = re.sub("<.*?>", lambda part: parts[part[0]], f"/mlflow{route}")
            query, body = (f"?{asked}", None) if method == "GET" else ("", asked)
            status, answer, _ = ask(pages, method, path + query, body)
            assert status == 200, (method, route, answer)
    assert owned.content() == before


def test_all_the_rest_of_mlflow_is_refused_and_writes_nothing(pages: Served, owned: Owned) -> None:
    before = owned.content()
    body = json.dumps({"name": "new", "experiment_id": owned.experiment, "run_id": owned.run})
    for method, route in routes():
        if not reads(MLFLOW_READS, method, filled(route)):
            for below in ("", "/mlflow")[route == "/" :]:  # the first page is ours
                status = ask(pages, method, below + filled(route), body)[0]
                assert status == 403, (method, below, route)
    assert owned.content() == before


def test_graphql_has_no_mutations(pages: Served) -> None:
    for said, done in (("query", "a"), ("mutation", None)):
        name = "test" if said == "query" else "testMutation"
        document = f'{said} {{ {name}(inputString: "a") {{ output }} }}'
        answer = json.loads(ask(pages, "POST", "/graphql", json.dumps({"query": document}))[1])
        assert answer["data"] == (done and {name: {"output": done}})
        assert bool(answer["errors"]) == (done is None)


@pytest.mark.parametrize("run", ["foreign", "linked"])
def test_artifacts_elsewhere_are_not_served(pages: Served, owned: Owned, run: str) -> None:
    """Of an experiment that names another folder, and of a run whose own folder is a link to one."""
    run_id = getattr(owned, run)
    said = f"only artifacts below {owned.storage / 'artifacts'} are served"
    for path in (
        f"/get-artifact?path=key&run_uuid={run_id}",
        f"/ajax-api/2.0/mlflow/artifacts/list?run_id={run_id}",
        "/model-versions/get-artifact?path=key&name=model&version=2",
    ):
        status, answer, _ = ask(pages, "GET", path)
        assert (status, said in answer) == (403, True), answer
    document = f'{{ mlflowListArtifacts(input: {{runId: "{run_id}"}}) {{ files {{ path }} }} }}'
    answer = ask(pages, "POST", "/graphql", json.dumps({"query": document}))[1]
    assert said in answer
    assert "key" not in answer.replace(said, "")


@pytest.mark.parametrize("path", ["key", "out/key", "out", "../../../mlflow.db", "%2e%2e/a"])
def test_a_link_in_a_run_s_folder_leads_nowhere(pages: Served, owned: Owned, path: str) -> None:
    status, answer, _ = ask(pages, "GET", f"/get-artifact?path={path}&run_uuid={owned.run}")
    assert status in (400, 403, 404), answer
    assert "private key" not in answer
    listed = ask(
        pages, "GET", f"/ajax-api/2.0/mlflow/artifacts/list?run_id={owned.run}&path={path}"
    )
    assert "out/key" not in listed[1]


def test_nobody_without_the_token_is_answered_or_reads_the_folder(
    pages: Served, owned: Owned
) -> None:
    own = ["/", "/x", "/sweeps/night", "/sweeps/night/report.html", "/mlflow/", "/?token=x"]
    own += [f"/get-artifact?path=files/note.txt&run_uuid={owned.run}"]
    asked = [("GET", path) for path in own] + routes_of_the_dashboard()
    for method, route in asked:
        status, said, _ = ask(pages, method, filled(route), None, Accept="*/*")
        assert status == 401, (method, route, said)
    assert owned.storage.stat().st_mode & 0o77 == 0


def test_the_printed_address_leaves_a_cookie_of_its_port(pages: Served) -> None:
    path = pages.door.removeprefix(pages.address)
    status, _, headers = ask(
        pages, "GET", f"/sweeps/night{path[1:]}&a=night&b=", None, Accept="*/*"
    )
    assert (status, headers["Location"]) == (303, f"{pages.address}/sweeps/night?a=night&b=")
    name, _, rest = headers["Set-Cookie"].partition("=")
    value, *attributes = rest.split("; ")
    assert (name, value) == (f"suite-ui-{pages.port}", pages.token)
    assert {a.lower() for a in attributes} == {"httponly", "path=/", "samesite=lax"}
    for cookie, found in (
        (f"{name}={value}", 200),
        (f"other=1; {name}={value}", 200),
        (f"suite-ui-1={value}", 401),
        (f"{name}={value[:-1]}", 401),
        (f"{name}=", 401),
    ):
        assert ask(pages, "GET", "/health", None, Cookie=cookie)[0] == found, cookie
    assert ask(pages, "POST", path, "{}", Accept="*/*")[0] == 401, "a form elsewhere has no token"
    for bearer in ("", "Bearer ", f"Basic {pages.token}"):
        assert ask(pages, "GET", "/health", None, Authorization=bearer)[0] == 401, bearer


def test_a_client_reads_with_the_token_and_does_not_write(
    pages: Served, owned: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", pages.token)
    client = MlflowClient(pages.address)
    assert client.get_run(owned.run).data.metrics == {"mean": 0.5}
    assert [m.value for m in client.get_metric_history(owned.run, "mean")] == [0.5]
    with pytest.raises(MlflowException, match="can only be read"):
        client.set_tag(owned.run, "a", "b")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "another")
    with pytest.raises(MlflowException, match="these pages need a token"):
        client.get_run(owned.run)


def test_only_http_passes() -> None:
    sent: list[Any] = []

    async def answer(*given: Any) -> None:
        sent.append(given)

    for kind in ("websocket", "lifespan"):
        asyncio.run(app([], "token")({"type": kind, "headers": [], "path": "/"}, answer, answer))
    assert sent == []
