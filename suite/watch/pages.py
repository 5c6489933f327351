"""The pages that are ours: all sweeps, one sweep, its report; and where its searches are in Optuna's dashboard."""

import secrets
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

# Before a thread needs them: libraries that two threads import at once for the first time break.
from reports.charts.data import ReportData
from reports.page.home import home_page
from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.results.report import write
from suite.results.table import TableFacts
from suite.sweeps.status import status, sweeps
from suite.sweeps.tables import open_tables
from suite.tracking import is_server, pages_at
from suite.tracking.schema.leaderboard_view import (
    curves_page,
    leaderboard_page,
    runs_page,
    start_page,
)
from suite.watch.mounts import (
    DASHBOARD_READS,
    MLFLOW_READS,
    Dashboard,
    Fresh,
    Mounted,
    mlflow,
    nothing,
)
from suite.watch.server import app, headers, serve
from trials.common.errors import UserError

POLICY = (
    "default-src 'none'; style-src 'nonce-{0}'; script-src 'nonce-{0}'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a browser lets our pages do: nothing but their own style and script."""
REPORT = (
    "default-src 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'none'; "
    "sandbox allow-scripts allow-downloads allow-popups allow-popups-to-escape-sandbox"
)
"""A report draws charts by a library that needs `eval`: it asks no server, and is a stranger to these pages."""
LOG = "ui.log"


class Pages:
    """The sweeps below a storage root as pages; `server` is where MLflow's pages are."""

    def __init__(self, storage: Path, server: str, dashboard: Dashboard) -> None:
        self.storage, self.server, self.dashboard = storage, server, dashboard
        self._fresh: dict[tuple[Any, ...], Fresh[Any]] = {}

    def routes(self) -> list[BaseRoute]:
        """Return the addresses."""
        return [
            Route("/", self.home),
            Route("/sweeps/{name}", self.home),
            Route("/sweeps/{name}/report.html", self.report),
            Route("/sweeps/{name}/studies/{entry}", self.study),
        ]

    def home(self, request: Request) -> Response:
        """Answer with all sweeps, or with one."""
        name, nonce = self._name(request), secrets.token_urlsafe(16)
        statuses, faults = self._kept(self._statuses)
        shown = [one for one in statuses if name in (None, one["name"])]
        data, facts = self._kept(self._board, name)
        links = {one["name"]: self._links(one["name"], facts) for one in shown}
        told = faults if name is None else []
        page = home_page(name, shown, told, data, links, self.server + start_page(), nonce)
        return HTMLResponse(page, headers=headers(POLICY.format(nonce)))

    def report(self, request: Request) -> Response:
        """Answer with the report of a sweep, which is written anew at most every few seconds."""
        server = self.server if "://" in self.server else f"{request.base_url}{self.server[1:]}"
        page = self._kept(self._report, self._name(request), server)
        return HTMLResponse(page, headers=headers(REPORT))

    def study(self, request: Request) -> Response:
        """Send a browser to a search in Optuna's dashboard."""
        return RedirectResponse(self.dashboard.page(**request.path_params))

    def _name(self, request: Request) -> str | None:
        """Return the sweep that is asked for; raises `UserError` where there is none."""
        name = request.path_params.get("name")
        if name is not None and name not in sweeps(self.storage):
            raise UserError(f"there is no sweep {name!r} here")
        return name

    def _kept(self, make: Callable[..., Any], *given: Any) -> Any:
        """Return what a method makes, or made a few seconds ago."""
        return self._fresh.setdefault((make.__name__, *given), Fresh(partial(make, *given)))()

    def _statuses(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return how the sweeps stand, those that run first, and what is wrong with others."""
        found, faults = [], []
        for name in sweeps(self.storage):
            try:
                found.append(status(self.storage, name))
            except UserError as error:
                faults.append(str(error))
        return sorted(found, key=lambda one: not one["running"]), faults

    def _board(self, name: str | None) -> tuple[ReportData | None, Mapping[str, TableFacts]]:
        """Return the leaderboard so far of a sweep, or of all, and what is said of each sweep as a whole."""
        try:
            tables = open_tables(self.storage).of(name)
            board = read_leaderboard(tables, Query(name))
        except UserError:  # nothing has ended yet
            return None, {}
        return ReportData(board, server=self.server), tables.facts

    def _report(self, name: str, server: str) -> str:
        folder = self.storage / "report" / name
        return write(open_tables(self.storage), Query(name), folder, server).page.read_text()

    def _links(self, name: str, facts: Mapping[str, TableFacts]) -> dict[str, str]:
        """Return where more of a sweep is to be seen."""
        links = {"report": f"{address(name)}/report.html", "MLflow": self.server + start_page()}
        known = facts.get(name)
        if known is None or not known.experiment:
            return links
        if any(entry.row for entry in known.entries):
            links["MLflow"] = self.server + leaderboard_page(known.experiment, name)
            links["curves"] = self.server + curves_page(known.experiment, name)
        else:  # those views are empty until there are final runs
            links["MLflow"] = self.server + runs_page(known.experiment)
        return links


def address(name: str) -> str:
    """Return the path of a sweep's page."""
    return f"/sweeps/{quote(name, safe='')}"


def ui(storage: Path, tracking_uri: str | None, there: socket.socket, token: str) -> None:
    """Serve who knows the token until SIGINT or SIGTERM. MLflow's pages of a tracking server are at that server.

    Optuna's dashboard asks by absolute paths, which are its own here too. What is neither ours nor its own is MLflow's, as
    MLflow's clients expect, and all of MLflow is below `/mlflow/`.
    """
    server = tracking_uri is not None and is_server(tracking_uri)
    elsewhere = pages_at(None, tracking_uri) if server else None
    dashboard = Dashboard(storage)
    pages = Pages(storage, "/mlflow" if elsewhere is None else elsewhere.rstrip("/"), dashboard)
    routes, rest = pages.routes(), nothing
    if elsewhere is None:
        rest = Mounted(MLFLOW_READS, partial(mlflow, storage, tracking_uri), nothing)
        routes.append(Mount("/mlflow", rest))
    routes.append(Mount("/", Mounted(DASHBOARD_READS, dashboard.load, rest)))
    serve(app(routes, token), there, storage / LOG)
