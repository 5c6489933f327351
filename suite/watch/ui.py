"""`suite ui`: all pages at one address, ours first.

MLflow's own first page knows nothing of leaderboards, and cannot be told to. So `/` is ours, all of MLflow is
below `/mlflow/`, and whatever is not ours is MLflow's, as its clients expect; a link of the form `/#/...`, which
a browser asks for as `/`, is sent on by the first page. MLflow takes seconds to come, so it is loaded when it is first
asked for. Its application also writes, runs jobs and asks other servers, so it is asked only what its pages read.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from suite.tracking import is_server, pages_at
from suite.watch.pages import Pages
from suite.watch.server import app, serve, site
from suite.watch.views import Views
from trials.common.errors import UserError

MLFLOW = "/mlflow"
API = r"/(ajax-)?api/[23]\.0/mlflow"
"""What MLflow's pages ask below, and below `/api` its clients."""
READS = {
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
REFUSED = "this is none of these pages, and MLflow is served here for reading alone"


def reads(method: str, path: str) -> bool:
    """Return whether a request only reads, and what MLflow's pages need."""
    return any(re.fullmatch(pattern, path) for pattern in READS.get(method, ()))


class Mlflow:
    """MLflow's server, from the first request on; only its reading part."""

    def __init__(self, load: Callable[[], ASGIApp]) -> None:
        self._load = load
        self._app: ASGIApp | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on that reads; where there is no store yet, say so."""
        app: ASGIApp
        if not reads(scope["method"], scope["path"].removeprefix(scope["root_path"])):
            await PlainTextResponse(REFUSED, 403)(scope, receive, send)
            return
        try:
            async with self._loading:
                if self._app is None:
                    self._app = await asyncio.to_thread(self._load)
                app = self._app
        except UserError as error:
            app = PlainTextResponse(str(error), 404)
        await app(scope, receive, send)


def ui(
    storage: Path,
    tracking_uri: str | None,
    there: socket.socket,
    token: str,
    started: Callable[[str], None],
) -> None:
    """Serve who knows the token until SIGINT or SIGTERM; `started` is given the server's address once it is there.
    MLflow's pages of a tracking server are at that server.
    """
    server = tracking_uri is not None and is_server(tracking_uri)
    elsewhere = pages_at(None, tracking_uri) if server else None
    views = Views(storage, tracking_uri, elsewhere or MLFLOW)
    routes = Pages(views).routes()
    if elsewhere is None:
        mlflow = Mlflow(views.mlflow)
        routes += [Mount(MLFLOW, mlflow), Mount("/", mlflow)]

    def ready() -> None:
        threading.Thread(target=views.home, daemon=True).start()  # before anybody waits for it
        started(site(there))

    serve(app(routes, token), there, ready)
