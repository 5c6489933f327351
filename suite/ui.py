"""The server of `suite ui`: read-only pages of sweeps, their reports, Optuna's dashboard and MLflow, at one address.

Every account of the machine can reach the port, so each request must carry the token that `suite ui` printed. Another
site can make a browser send its cookie here, so requests for another host (DNS rebinding) or from another site are refused.
"""

import asyncio
import ipaddress
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hmac import compare_digest
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvicorn
from optuna.storages import InMemoryStorage
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Imported before any thread starts: some libraries break when two threads import them at once.
from reports.leaderboard.board import ReportData
from reports.leaderboard.names import without_paths
from reports.page.home import home_page
from suite.results.leaderboards import Query, read_leaderboard
from suite.results.report import write
from suite.results.study import refresh
from suite.results.table import TableFacts
from suite.sweeps.status import status, sweeps
from suite.sweeps.tables import open_tables
from suite.tracking import is_server, pages_at
from suite.tracking.store import open_existing
from suite.tracking.tags import experiments_page, leaderboard_page
from trials.common.errors import UserError

API = r"/(ajax-)?api/[23]\.0/mlflow"
MLFLOW_READS = {
    "GET": (
        "/|/health|/version|/static-files/.+|(/model-versions)?/get-artifact",
        f"{API}/(server-info|runs/get|artifacts/list|scorers/list)",
        f"{API}/(experiments/(get|get-by-name|search)|metrics/get-history(-bulk(-interval)?)?)",
        f"{API}/(registered-models|model-versions)/(get|search)",
        rf"{API}/logged-models/[^/]+(/artifacts/(directories|files))?",
    ),
    "POST": (
        "/graphql",
        f"{API}/experiments/(search|search-datasets)",
        f"{API}/((runs|logged-models|datasets|traces)/search|traces/metrics)",
    ),
}
"""The requests that MLflow gets: patterns of whole paths, by method. Its other paths write, run jobs or call other servers."""
STUDIES = r"/api/studies|/api/studies/\d+(/param_importances|/plot/\w+)?|/csv/\d+"
DASHBOARD_READS = {"GET": (r"/dashboard(/.*)?|/api/meta|/static/.+|/favicon\.ico", STUDIES)}
"""The requests that optuna-dashboard gets. Its pages use absolute paths, so it is mounted at the root."""
POLICY = "Content-Security-Policy"
OWN_POLICY = (
    "default-src 'none'; style-src 'nonce-{0}'; script-src 'nonce-{0}'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'none'; "
    "sandbox allow-scripts allow-downloads allow-popups allow-popups-to-escape-sandbox"
)
"""The policy of reports, whose chart library needs `eval`: a sandbox without access to any server or to these pages."""
OTHERS_POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; base-uri 'self'; "
    "frame-ancestors 'self'"
)
NAMES = {"localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
"""The host names that a request may use for this machine. Every IP address is allowed, too."""
REFUSED = PlainTextResponse(
    "unknown page, or a request that changes something: MLflow and Optuna are read-only here", 403
)
UNKNOWN = (
    "these pages are for whoever started them: open the address that `suite ui` printed, or send its token "
    "(Authorization: Bearer TOKEN, which MLflow's clients do with MLFLOW_TRACKING_TOKEN)"
)
SECONDS, REST = 2.0, 50
"""A page is computed again at the earliest after this many seconds, and after this many times its processor time."""
AT_ONCE = 4
"""The most requests that a mounted application gets at once. MLflow fails beyond its 15 database connections."""


def ui(storage: Path, tracking_uri: str | None, door: socket.socket, token: str) -> None:
    """Serve all pages on the socket `door` to requests with the token, until SIGINT or SIGTERM. MLflow gets all paths that
    no other page uses, since its clients expect it at the root. With MLflow on a tracking server, the pages only link to it.
    """
    elsewhere = pages_at(tracking_uri) if is_server(tracking_uri or "") else ""
    dashboard = Dashboard(storage)
    pages = Pages(storage, elsewhere or "/mlflow")
    routes: list[BaseRoute] = [
        Route("/", pages.home),
        Route("/sweeps/{name}", pages.home),
        Route("/sweeps/{name}/report.html", pages.report),
        Route("/sweeps/{name}/studies/{entry}", dashboard.page),
    ]
    rest: ASGIApp = REFUSED
    if not elsewhere:
        rest = Mounted(MLFLOW_READS, partial(mlflow, storage, tracking_uri), REFUSED)
        routes.append(Mount("/mlflow", rest))
    routes.append(Mount("/", Mounted(DASHBOARD_READS, dashboard.load, rest)))
    os.nice(10)  # leaves the processor to a running sweep
    config = uvicorn.Config(app(routes, token), log_level="warning", timeout_graceful_shutdown=2)
    uvicorn.Server(config).run(sockets=[door])


def app(routes: list[BaseRoute], token: str) -> ASGIApp:
    """Return a web application with these routes. The application answers only requests with the token."""
    handlers = {UserError: lambda request, error: PlainTextResponse(without_paths(str(error)), 404)}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), token)


class Guard:
    """The access control of all pages. An address with the token sets a cookie. Other requests need this cookie or the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403 to requests for another host or from another site, and 401 to those without the token or its cookie. Pass on the rest."""

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault(POLICY, OTHERS_POLICY)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
            await send(message)

        if scope["type"] != "http":
            return  # no page uses WebSockets, and there is no start-up to wait for
        request = Request(scope)
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        name, _, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "80")
        # The port is in the name because browsers share cookies between all ports of a host.
        cookie = f"suite-ui-{port}"
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        answer: ASGIApp = self.app
        if not is_ours(name):
            answer = PlainTextResponse("this host is not served here", 403)
        elif origin is not None and origin.partition("://")[2] != host:
            answer = PlainTextResponse("only a page of this server may send this request", 403)
        elif request.method == "GET" and self._is_token(request.query_params.get("token", "")):
            # Redirected, so that the token does not stay in the address bar.
            url = request.url.remove_query_params("token")
            answer = RedirectResponse(url, 303, {"Cache-Control": "no-store"})
            # Lax, so that links in mails and reports work.
            answer.set_cookie(cookie, self._token, httponly=True, samesite="lax")
        elif not any(map(self._is_token, (request.cookies.get(cookie, ""), bearer))):
            answer = PlainTextResponse(UNKNOWN, 401, {"WWW-Authenticate": "Bearer"})
        await answer(scope, receive, send_on)

    def _is_token(self, text: str) -> bool:
        return compare_digest(text.encode(), self._token.encode())


def is_ours(name: str) -> bool:
    """Return whether the host `name` of a request is an IP address or a name of this machine. DNS rebinding uses other names."""
    with suppress(ValueError):
        return bool(ipaddress.ip_address(name.strip("[]")))
    return name.lower() in NAMES


def reads(allowed: Mapping[str, Sequence[str]], method: str, path: str) -> bool:
    """Return whether a request's path matches one of the patterns that are `allowed` for its method."""
    return any(re.fullmatch(pattern, path) for pattern in allowed.get(method, ()))


class Mounted:
    """An application of a third party, loaded at its first request. It gets only `allowed` requests, at most `AT_ONCE` at a time."""

    def __init__(
        self, allowed: Mapping[str, Sequence[str]], load: Callable[[], ASGIApp], other: ASGIApp
    ) -> None:
        self._allowed, self._load, self._other = allowed, load, other
        self._app: ASGIApp | None = None
        self._loading, self._free = asyncio.Lock(), asyncio.Semaphore(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request with an allowed method and path to the mounted application, and any other request to the fallback application."""
        path = scope["path"].removeprefix(scope["root_path"])
        if not reads(self._allowed, scope["method"], path):
            await self._other(scope, receive, send)
            return
        async with self._loading:
            if self._app is None:
                self._app = await run_in_threadpool(self._load)
        async with self._free:
            await self._app(scope, receive, send)


def mlflow(storage: Path, tracking_uri: str | None) -> ASGIApp:
    """Return MLflow's web application for the tracking store. Raise `UserError` if there is no store yet."""
    from suite.tracking.mlflow_internals import server

    store = open_existing(tracking_uri, storage)
    return server(store.address, store.artifacts or "mlruns")  # MLflow's default


class Fresh:
    """A cache for the result of the function `make`, which is called again once the result is too old."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._lock, self._next = make, threading.Lock(), 0.0
        self._last: Any = None

    def __call__(self) -> Any:
        """Return the cached result. If it is too old, first compute it again, while other threads wait."""
        with self._lock:
            if time.monotonic() >= self._next:
                began = time.thread_time()
                self._last = self._make()
                rest = REST * (time.thread_time() - began)
                self._next = time.monotonic() + max(SECONDS, rest)
            return self._last


class Dashboard:
    """The pages of optuna-dashboard, with the searches of all sweeps of a storage folder."""

    def __init__(self, storage: Path) -> None:
        self.studies = InMemoryStorage()
        self.refresh = Fresh(lambda: refresh(self.studies, open_tables(storage).tables))

    def load(self) -> ASGIApp:
        """Return optuna-dashboard as an ASGI application, which reads new trials before it lists or shows searches."""
        from a2wsgi import WSGIMiddleware
        from optuna_dashboard import wsgi

        app: Any = WSGIMiddleware(wsgi(self.studies))  # a2wsgi has its own types for ASGI

        async def refreshed(scope: Scope, receive: Receive, send: Send) -> None:
            if re.fullmatch(STUDIES, scope["path"]):
                await run_in_threadpool(self.refresh)
            # The dashboard fails on a request without this header.
            MutableHeaders(scope=scope).setdefault("Accept-Encoding", "identity")
            await app(scope, receive, send)

        return refreshed

    def page(self, request: Request) -> Response:
        """Redirect to the page of the search that the address names, or to the list of searches if it has no trials yet."""
        self.refresh()
        search = request.path_params["name"], request.path_params["entry"]
        for study in self.studies.get_all_studies():
            if (study.user_attrs["sweep"], study.user_attrs["id"]) == search:
                number = self.studies.get_study_id_from_name(study.study_name)
                return RedirectResponse(f"/dashboard/studies/{number}")
        return RedirectResponse("/dashboard")


class Pages:
    """The pages of the sweeps in a storage folder. `server` is the address of MLflow's pages."""

    def __init__(self, storage: Path, server: str) -> None:
        self.storage, self.server = storage, server
        self._fresh: dict[tuple[Any, ...], Fresh] = {}

    def home(self, request: Request) -> Response:
        """Answer with a sweep's page if the path names a sweep, else with the page of all sweeps."""
        name, nonce = self._name(request), secrets.token_urlsafe(16)
        statuses, faults = self._kept(self._statuses)
        shown = {sweep["name"]: sweep for sweep in statuses if name in (None, sweep["name"])}
        data, facts = self._kept(self._board, name)
        links = {sweep: self._links(sweep, facts.get(sweep)) for sweep in shown}
        start = self.server + experiments_page()
        faults = [] if name and shown else faults
        text = home_page(name, [*shown.values()], faults, data, links, start, nonce)
        return HTMLResponse(text, headers={POLICY: OWN_POLICY.format(nonce)})

    def report(self, request: Request) -> Response:
        """Answer with a sweep's report. If the last report is too old, first write a new one."""
        server = self.server if "://" in self.server else f"{request.base_url}{self.server[1:]}"
        page = self._kept(self._report, self._name(request), server)
        return HTMLResponse(page, headers={POLICY: REPORT_POLICY})

    def _name(self, request: Request) -> str | None:
        name = request.path_params.get("name")
        if name is not None and name not in sweeps(self.storage):
            raise UserError(f"there is no sweep {name!r} here")
        return name

    def _kept(self, make: Callable[..., Any], *arguments: Any) -> Any:
        key = (make.__name__, *arguments)
        return self._fresh.setdefault(key, Fresh(partial(make, *arguments)))()

    def _statuses(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the status of each sweep, running ones first, and a message for each unreadable sweep."""
        statuses, faults = [], []
        for name in sweeps(self.storage):
            try:
                statuses.append(without_paths(status(self.storage, name)))
            except UserError as error:
                faults.append(without_paths(str(error)))
        return sorted(statuses, key=lambda sweep: not sweep["running"]), faults

    def _board(self, name: str | None) -> tuple[ReportData | None, Mapping[str, TableFacts]]:
        try:
            tables = open_tables(self.storage, names=[name] if name else [])
            board = read_leaderboard(tables)
            return ReportData(board, server=self.server), tables.facts
        except UserError:  # no trial has ended yet
            return None, {}

    def _report(self, name: str, server: str) -> str:
        folder = self.storage / "report" / name
        tables = open_tables(self.storage, names=[name])
        return write(tables, Query(), folder, server).page.read_text()

    def _links(self, name: str, facts: TableFacts | None) -> dict[str, str]:
        runs = experiments_page()
        if facts is not None and facts.experiment:
            runs = experiments_page(f"/{facts.experiment}/runs")
            if any(entry.row for entry in facts.entries):  # else MLflow shows no run
                runs = leaderboard_page(facts.experiment, name)
        return {"report": f"{address(name)}/report.html", "MLflow": self.server + runs}


def address(name: str) -> str:
    """Return the URL path of a sweep's page."""
    return f"/sweeps/{quote(name, safe='')}"


def bind(host: str, port: int | None, usual: int) -> socket.socket:
    """Return a socket bound to `port` (default: the port `usual` if it is free, else any free port). Raise `UserError` on failure."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in (port,) if port else (usual, 0):
        try:
            return socket.create_server((host, candidate), family=family)
        except OSError as error:
            reason = error.strerror or error
    raise UserError(f"cannot serve pages at {host}:{port or usual} (--host, --port): {reason}")


def site(door: socket.socket) -> str:
    """Return the http address of a socket, with brackets around an IPv6 host."""
    host, port, *_ = door.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
