"""The pages that are ours: all sweeps, one sweep, its report; and where its searches are in Optuna's dashboard."""

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

# Before a thread needs them: libraries that two threads import at once for the first time break.
from reports.charts.data import ReportData
from reports.leaderboard.names import as_shown, without_paths
from reports.page.home import home_page
from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.results.report import write
from suite.results.table import TableFacts
from suite.sweeps.status import status, sweeps
from suite.sweeps.tables import open_tables
from suite.tracking.schema.leaderboard_view import (
    curves_page,
    leaderboard_page,
    runs_page,
    start_page,
)
from suite.watch.fresh import Fresh
from suite.watch.mounts import Dashboard
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
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class Pages:
    """The sweeps below a storage root as pages; `server` is where MLflow's pages are."""

    def __init__(self, storage: Path, server: str, dashboard: Dashboard) -> None:
        self.storage, self.server, self.dashboard = storage, server, dashboard
        self._sweeps = Fresh(self._statuses)
        self._boards: dict[
            str | None, Fresh[tuple[ReportData | None, Mapping[str, TableFacts]]]
        ] = {}
        self._reports: dict[tuple[str, str], Fresh[str]] = {}

    def routes(self) -> list[BaseRoute]:
        """Return the addresses."""
        return [
            Route("/", self.home),
            Route("/sweeps/{name}", self.home),
            Route("/sweeps/{name}/report.html", self.report),
            Route("/sweeps/{name}/studies/{entry}", self.study),
        ]

    async def home(self, request: Request) -> Response:
        """Answer with all sweeps, or with one."""
        name, nonce = request.path_params.get("name"), secrets.token_urlsafe(16)

        def made() -> str:
            self._check(name)
            statuses, faults = self._sweeps()
            shown = [one for one in statuses if name in (None, one["name"])]
            board = self._boards.setdefault(name, Fresh(lambda: self._board(name)))
            data, facts = board()
            links = {one["name"]: self._links(one["name"], facts) for one in shown}
            return home_page(
                name,
                shown,
                faults if name is None else [],
                data,
                links,
                self.server + start_page(),
                nonce,
            )

        return await self._answer(made, POLICY.format(nonce))

    async def report(self, request: Request) -> Response:
        """Answer with the report of a sweep, which is written anew at most every few seconds."""
        name = request.path_params["name"]
        server = self.server if "://" in self.server else f"{request.base_url}{self.server[1:]}"

        def made() -> str:
            self._check(name)
            fresh = Fresh(lambda: self._report(name, server))
            return self._reports.setdefault((name, server), fresh)()

        return await self._answer(made, REPORT)

    async def study(self, request: Request) -> Response:
        """Send a browser to a search in Optuna's dashboard."""
        page = await run_in_threadpool(lambda: self.dashboard.page(**request.path_params))
        return RedirectResponse(page)

    async def _answer(self, made: Callable[[], str], policy: str) -> Response:
        """Answer with a page that is made beside; what is not there is said."""
        headers = {**HEADERS, "Content-Security-Policy": policy}
        try:
            return HTMLResponse(await run_in_threadpool(made), headers=headers)
        except UserError as error:
            return PlainTextResponse(without_paths(str(error)), 404, headers)

    def _statuses(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return how the sweeps stand, those that run first, and what is wrong with others."""
        found, faults = [], []
        for name in sweeps(self.storage):
            try:
                found.append(without_paths(status(self.storage, name)))
            except UserError as error:
                faults.append(without_paths(str(error)))
        return sorted(found, key=lambda one: not one["running"]), faults

    def _board(self, name: str | None) -> tuple[ReportData | None, Mapping[str, TableFacts]]:
        """Return the leaderboard so far of a sweep, or of all, and what is said of each sweep as a whole."""
        try:
            tables = open_tables(self.storage).of(name)
            board = read_leaderboard(tables, Query(name))
        except UserError:  # nothing has ended yet
            return None, {}
        return without_paths(as_shown(ReportData(board, server=self.server), board)), tables.facts

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

    def _check(self, name: str | None) -> None:
        if name is not None and name not in sweeps(self.storage):
            raise UserError(f"there is no sweep {name!r} here")


def address(name: str) -> str:
    """Return the path of a sweep's page."""
    return f"/sweeps/{quote(name, safe='')}"
