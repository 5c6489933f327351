"""The pages of others: MLflow's and those of optuna-dashboard, as far as they only read.

Both applications also write, and MLflow's runs jobs and asks other servers. So they are asked only what their pages read.
"""

import asyncio
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from suite.results.study import Studies
from suite.sweeps.tables import open_tables
from suite.tracking.store import open_existing

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
SECONDS, REST = 2.0, 50
"""What is shown is made anew at most so often, and rests so many times as long as it took the processor."""
T = TypeVar("T")


class Fresh(Generic[T]):
    """What a function returned last: called, it is made anew where its time has come."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock, self._next = make, threading.Lock(), 0.0
        self._last: tuple[T] | None = None

    def __call__(self) -> T:
        """Return it; raise what the function raises."""
        # The first one is waited for. While a thread makes another, the last one is good enough for all others.
        if self._lock.acquire(blocking=self._last is None):
            try:
                if time.monotonic() >= self._next:
                    began = time.thread_time()
                    self._last = (self._make(),)
                    rest = REST * (time.thread_time() - began)
                    self._next = time.monotonic() + max(SECONDS, rest)
            finally:
                self._lock.release()
        assert self._last is not None
        return self._last[0]


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

        path = scope["path"].removeprefix(scope["root_path"])
        if not reads(self._allowed, scope["method"], path):
            await self._other(scope, receive, send)
            return
        async with self._loading:
            if self._app is None:
                self._app = await run_in_threadpool(self._load)
        await self._app(scope, receive, send_on)


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a request that is for none of the applications."""
    await PlainTextResponse(REFUSED, 403)(scope, receive, send)


def mlflow(storage: Path, tracking_uri: str | None) -> ASGIApp:
    """Return MLflow's server of a store. Raises `UserError` where there is none yet."""
    from suite.tracking.mlflow_internals import server

    store = open_existing(tracking_uri, storage)
    # Without a place of ours MLflow's client puts artifacts in this folder of where it runs.
    return server(store.address, store.artifacts or "mlruns")


class Dashboard:
    """The pages of optuna-dashboard over the searches of all sweeps of a storage."""

    def __init__(self, storage: Path) -> None:
        self.studies = Studies()
        self.refresh = Fresh(lambda: self.studies.update(open_tables(storage).tables))

    def load(self) -> ASGIApp:
        """Return the application."""
        from a2wsgi import WSGIMiddleware
        from optuna_dashboard import wsgi

        app: Any = WSGIMiddleware(wsgi(self.studies.storage))  # which has other types for the same

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
        for study in self.studies.storage.get_all_studies():
            if (study.user_attrs["sweep"], study.user_attrs["id"]) == (name, entry):
                number = self.studies.storage.get_study_id_from_name(study.study_name)
                return f"/dashboard/studies/{number}"
        return "/dashboard"
