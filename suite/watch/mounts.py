"""The pages of others: MLflow's and those of optuna-dashboard, as far as they only read.

Both applications also write, and MLflow's runs jobs and asks other servers. So they are asked only what their pages read.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from optuna import delete_study, load_study
from optuna.storages import InMemoryStorage
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from suite.results.study import Search, searches_of
from suite.sweeps.tables import open_tables
from suite.tracking.store import open_existing
from suite.watch.fresh import Fresh
from trials.common.errors import UserError

API = r"/(ajax-)?api/[23]\.0/mlflow"
"""What MLflow's pages ask below, and below `/api` its clients."""
MLFLOW_READS = {
    "GET": (
        "/|/health|/version|/static-files/.+|/get-artifact|/model-versions/get-artifact",
        f"{API}/server-info",
        f"{API}/experiments/(get|get-by-name|search)",
        f"{API}/runs/get",
        f"{API}/artifacts/list",
        f"{API}/metrics/(get-history|get-history-bulk|get-history-bulk-interval)",
        f"{API}/(registered-models|model-versions)/(get|search)",
        rf"{API}/logged-models/[^/]+(/artifacts/(directories|files))?",
        f"{API}/scorers/list",
    ),
    "POST": (
        "/graphql",
        f"{API}/experiments/(search|search-datasets)",
        f"{API}/(runs|logged-models|datasets)/search",
        f"{API}/traces/(search|metrics)",
    ),
}
"""What is passed on to MLflow: by method, whole paths."""
STUDIES = r"/api/studies|/api/studies/\d+(/param_importances|/plot/\w+)?|/csv/\d+"
DASHBOARD_READS = {"GET": (r"/dashboard(/.*)?|/api/meta|/static/.+|/favicon\.ico", STUDIES)}
"""What is passed on to optuna-dashboard, whose pages ask by whole paths from the server's root."""
REFUSED = (
    "this is none of these pages, and those of MLflow and Optuna are served here for reading alone"
)
POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; base-uri 'self'; "
    "frame-ancestors 'self'"
)
"""What pages of others may load, where they do not say so themselves: nothing from elsewhere."""


def reads(allowed: Mapping[str, Sequence[str]], method: str, path: str) -> bool:
    """Return whether a request only reads, and what the pages need."""
    return any(re.fullmatch(pattern, path) for pattern in allowed.get(method, ()))


class Mounted:
    """An application of others: loaded when it is first asked, and asked only what is allowed."""

    def __init__(
        self, allowed: Mapping[str, Sequence[str]], load: Callable[[], ASGIApp], other: ASGIApp
    ) -> None:
        self._allowed, self._load, self._other = allowed, load, other
        self._app: ASGIApp | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what reads; leave the rest to the `other` application."""

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("Content-Security-Policy", POLICY)
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        if not reads(
            self._allowed, scope["method"], scope["path"].removeprefix(scope["root_path"])
        ):
            await self._other(scope, receive, send)
            return
        try:
            async with self._loading:
                app = self._app = self._app or await run_in_threadpool(self._load)
        except UserError as error:
            await PlainTextResponse(str(error), 404)(scope, receive, send)
            return
        await app(scope, receive, send_on)


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a request that is for none of the applications."""
    await PlainTextResponse(REFUSED, 403)(scope, receive, send)


def mlflow(storage: Path, tracking_uri: str | None) -> ASGIApp:
    """Return MLflow's server of a store. Raises `UserError` where there is none yet."""
    from suite.tracking.mlflow_internals import server

    store = open_existing(tracking_uri, storage)
    # Without a place of ours MLflow's client puts artifacts in this folder of where it runs.
    return server(store.uri, store.artifacts or "mlruns")


class Dashboard:
    """The searches of all sweeps of a storage as studies in memory, and the pages of optuna-dashboard over them."""

    def __init__(self, storage: Path) -> None:
        self._folder, self._studies = storage, InMemoryStorage()
        self._tables: dict[str, tuple[str, float | None]] = {}
        self._ranges: dict[str, tuple[str, str, object]] = {}
        self.refresh = Fresh(self._refresh)

    def load(self) -> ASGIApp:
        """Return the application."""
        from a2wsgi import WSGIMiddleware
        from optuna_dashboard import wsgi

        app: Any = WSGIMiddleware(wsgi(self._studies))  # which has other types for the same

        async def fed(scope: Scope, receive: Receive, send: Send) -> None:
            if re.fullmatch(STUDIES, scope["path"]):
                await run_in_threadpool(self.refresh)
            # It takes for granted that a browser says what it can unpack.
            MutableHeaders(scope=scope).setdefault("Accept-Encoding", "identity")
            await app(scope, receive, send)

        return fed

    def page(self, name: str, entry: str) -> str:
        """Return the path of a search's page; of all of them where it has no trials yet."""
        self.refresh()
        for study in self._studies.get_all_studies():
            if (study.user_attrs["sweep"], study.user_attrs["id"]) == (name, entry):
                number = self._studies.get_study_id_from_name(study.study_name)
                return f"/dashboard/studies/{number}"
        return "/dashboard"

    def _refresh(self) -> None:
        tables = open_tables(self._folder).tables
        for table in tables:
            state = table.facts.id, table.facts.ended
            if table.facts.ended is None or self._tables.get(table.facts.name) != state:
                for search in searches_of(table):
                    self._add(search)
            self._tables[table.facts.name] = state
        there = {table.facts.name for table in tables}
        for name, (sweep, *_) in list(self._ranges.items()):
            if sweep not in there:
                delete_study(study_name=name, storage=self._studies)
                del self._ranges[name]

    def _add(self, search: Search) -> None:
        """Add the trials that ended since: a browser asks for those behind the last that it has."""
        ranges = search.ranges
        state = search.sweep.name, search.sweep.id, ranges
        if self._ranges.get(search.name) != state:
            # A study has one range for all of its trials, and a sweep that began anew may have the old one's name.
            if search.name in self._ranges:
                delete_study(study_name=search.name, storage=self._studies)
            search.create(self._studies)
            self._ranges[search.name] = state
        study = load_study(study_name=search.name, storage=self._studies)
        there = {trial.user_attrs["trial_id"] for trial in study.get_trials(deepcopy=False)}
        fresh = search.rows[~search.rows["trial_id"].isin(there)]
        study.add_trials(replace(search, rows=fresh).trials(ranges))
