"""`suite ui`: one address for the sweeps, their reports, Optuna's dashboard and MLflow's pages, for reading alone.

Every account of the machine can reach loopback, so each request has to show the token that this start printed. A page
elsewhere can make a browser send its cookie here: what names another host (DNS rebinding) or another site is refused.
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

# Before a thread needs them: libraries that two threads import at once for the first time break.
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
"""What is passed on to MLflow, by method as whole paths: it also writes, runs jobs and asks other servers."""
STUDIES = r"/api/studies|/api/studies/\d+(/param_importances|/plot/\w+)?|/csv/\d+"
DASHBOARD_READS = {"GET": (r"/dashboard(/.*)?|/api/meta|/static/.+|/favicon\.ico", STUDIES)}
"""What is passed on to optuna-dashboard, whose pages ask by whole paths from the server's root."""
POLICY = "Content-Security-Policy"
OWN_POLICY = (
    "default-src 'none'; style-src 'nonce-{0}'; script-src 'nonce-{0}'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'none'; "
    "sandbox allow-scripts allow-downloads allow-popups allow-popups-to-escape-sandbox"
)
"""A report draws charts by a library that needs `eval`: it asks no server, and is a stranger to these pages."""
OTHERS_POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; base-uri 'self'; "
    "frame-ancestors 'self'"
)
NAMES = {"localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
"""The host names by which a request may call this machine, beside any address."""
REFUSED = PlainTextResponse(
    "no page of ours, and those of MLflow and Optuna are served here for reading alone", 403
)
UNKNOWN = (
    "these pages are for whoever started them: open the address that `suite ui` printed, or send its token "
    "(Authorization: Bearer TOKEN, which MLflow's clients do with MLFLOW_TRACKING_TOKEN)"
)
SECONDS, REST = 2.0, 50
"""A page is made anew after at least these seconds, and after this many times its processor time."""
AT_ONCE = 4
"""The most requests at once to a mounted application; others wait. MLflow fails beyond its 15 connections."""


def ui(storage: Path, tracking_uri: str | None, door: socket.socket, token: str) -> None:
    """Serve all who know the token until SIGINT or SIGTERM. Paths that are neither ours nor Optuna's dashboard's go to
    MLflow, as its clients expect, as does all below `/mlflow/`. A tracking server shows its own pages.
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
    os.nice(10)  # a sweep may run beside it
    config = uvicorn.Config(app(routes, token), log_level="warning", timeout_graceful_shutdown=2)
    uvicorn.Server(config).run(sockets=[door])


def app(routes: list[BaseRoute], token: str) -> ASGIApp:
    """Return an application of these routes that answers only with the token."""
    handlers = {UserError: lambda request, error: PlainTextResponse(without_paths(str(error)), 404)}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), token)


class Guard:
    """The one door: an address with the token leaves a cookie in the browser, and each request needs that, or the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what this machine's browser, or a program that knows the token, asks of this server."""

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault(POLICY, OTHERS_POLICY)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
            await send(message)

        if scope["type"] != "http":
            return  # there is nothing else here
        request = Request(scope)
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        name, _, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "80")
        # Cookies are shared by the ports of a host, and each may have a server with a token of its own.
        cookie = f"suite-ui-{port}"
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        answer: ASGIApp = self.app
        if not is_ours(name):
            answer = PlainTextResponse("this host is not served here", 403)
        elif origin is not None and origin.partition("://")[2] != host:
            answer = PlainTextResponse("only a page of this server may ask that", 403)
        elif request.method == "GET" and self._is_token(request.query_params.get("token", "")):
            # To the same address without the token, which else stands in the address bar.
            place = request.url.remove_query_params("token")
            answer = RedirectResponse(place, 303, {"Cache-Control": "no-store"})
            # Lax, so that links in mails and reports lead here.
            answer.set_cookie(cookie, self._token, httponly=True, samesite="lax")
        elif not any(map(self._is_token, (request.cookies.get(cookie, ""), bearer))):
            answer = PlainTextResponse(UNKNOWN, 401, {"WWW-Authenticate": "Bearer"})
        await answer(scope, receive, send_on)

    def _is_token(self, text: str) -> bool:
        return compare_digest(text.encode(), self._token.encode())


def is_ours(name: str) -> bool:
    """Return whether a host is an address or a name of this machine: a rebound name is neither."""
    with suppress(ValueError):
        return bool(ipaddress.ip_address(name.strip("[]")))
    return name.lower() in NAMES


def reads(allowed: Mapping[str, Sequence[str]], method: str, path: str) -> bool:
    """Return whether a request only reads, and what the pages need."""
    return any(re.fullmatch(pattern, path) for pattern in allowed.get(method, ()))


class Mounted:
    """A third party's application. It is loaded at its first request, and gets only allowed requests, a few at once."""

    def __init__(
        self, allowed: Mapping[str, Sequence[str]], load: Callable[[], ASGIApp], other: ASGIApp
    ) -> None:
        self._allowed, self._load, self._other = allowed, load, other
        self._app: ASGIApp | None = None
        self._loading, self._free = asyncio.Lock(), asyncio.Semaphore(AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests that read; leave the rest to the `other` application."""
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
    """Return MLflow's server of a store. Raises `UserError` where there is none yet."""
    from suite.tracking.mlflow_internals import server

    store = open_existing(tracking_uri, storage)
    return server(store.address, store.artifacts or "mlruns")  # which is MLflow's own default


class Fresh:
    """A function's last result. A call makes it anew when it is due, once for all that wait."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._lock, self._next = make, threading.Lock(), 0.0
        self._last: Any = None

    def __call__(self) -> Any:
        """Return it."""
        with self._lock:
            if time.monotonic() >= self._next:
                began = time.thread_time()
                self._last = self._make()
                rest = REST * (time.thread_time() - began)
                self._next = time.monotonic() + max(SECONDS, rest)
            return self._last


class Dashboard:
    """The pages of optuna-dashboard over the searches of all sweeps of a storage."""

    def __init__(self, storage: Path) -> None:
        self.studies = InMemoryStorage()
        self.refresh = Fresh(lambda: refresh(self.studies, open_tables(storage).tables))

    def load(self) -> ASGIApp:
        """Return the application."""
        from a2wsgi import WSGIMiddleware
        from optuna_dashboard import wsgi

        app: Any = WSGIMiddleware(wsgi(self.studies))  # which has other types for the same

        async def fed(scope: Scope, receive: Receive, send: Send) -> None:
            if re.fullmatch(STUDIES, scope["path"]):
                await run_in_threadpool(self.refresh)
            # It takes for granted that a browser says what it can unpack.
            MutableHeaders(scope=scope).setdefault("Accept-Encoding", "identity")
            await app(scope, receive, send)

        return fed

    def page(self, request: Request) -> Response:
        """Lead to the page of a search; to that of all where it has no trials yet."""
        self.refresh()
        search = request.path_params["name"], request.path_params["entry"]
        for study in self.studies.get_all_studies():
            if (study.user_attrs["sweep"], study.user_attrs["id"]) == search:
                number = self.studies.get_study_id_from_name(study.study_name)
                return RedirectResponse(f"/dashboard/studies/{number}")
        return RedirectResponse("/dashboard")


class Pages:
    """The sweeps below a storage root as pages; `server` is where MLflow's pages are."""

    def __init__(self, storage: Path, server: str) -> None:
        self.storage, self.server = storage, server
        self._fresh: dict[tuple[Any, ...], Fresh] = {}

    def home(self, request: Request) -> Response:
        """Answer with all sweeps, or with one."""
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
        """Answer with the report of a sweep, which is written anew at most every few seconds."""
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
        """Return the status of sweeps, running ones first, and what is wrong with others."""
        standings, faults = [], []
        for name in sweeps(self.storage):
            try:
                standings.append(without_paths(status(self.storage, name)))
            except UserError as error:
                faults.append(without_paths(str(error)))
        return sorted(standings, key=lambda sweep: not sweep["running"]), faults

    def _board(self, name: str | None) -> tuple[ReportData | None, Mapping[str, TableFacts]]:
        try:
            tables = open_tables(self.storage, names=[name] if name else [])
            board = read_leaderboard(tables)
            return ReportData(board, server=self.server), tables.facts
        except UserError:  # nothing has ended yet
            return None, {}

    def _report(self, name: str, server: str) -> str:
        folder = self.storage / "report" / name
        tables = open_tables(self.storage, names=[name])
        return write(tables, Query(), folder, server).page.read_text()

    def _links(self, name: str, facts: TableFacts | None) -> dict[str, str]:
        runs = experiments_page()
        if facts is not None and facts.experiment:
            runs = experiments_page(f"/{facts.experiment}/runs")
            if any(entry.row for entry in facts.entries):  # else that view is empty
                runs = leaderboard_page(facts.experiment, name)
        return {"report": f"{address(name)}/report.html", "MLflow": self.server + runs}


def address(name: str) -> str:
    """Return the path of a sweep's page."""
    return f"/sweeps/{quote(name, safe='')}"


def bind(host: str, port: int | None, usual: int) -> socket.socket:
    """Return a socket of the port, else of the usual one or any free one. Raises `UserError` where none is available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for wanted in (port,) if port else (usual, 0):
        try:
            return socket.create_server((host, wanted), family=family)
        except OSError as error:
            reason = error.strerror or error
    raise UserError(f"cannot serve pages at {host}:{port or usual} (--host, --port): {reason}")


def site(door: socket.socket) -> str:
    """Return the address of a socket, for browsers."""
    host, port, *_ = door.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
