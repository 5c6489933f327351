"""`suite ui`: all pages at one address, ours first.

MLflow's own first page knows nothing of leaderboards, and cannot be told to. So `/` is ours, all of MLflow is
below `/mlflow/`, and whatever is not ours is MLflow's, as its clients expect; a link of the form `/#/...`, which
a browser asks for as `/`, is sent on by the first page. MLflow takes seconds to come, so it is loaded when it is first
asked for.
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from suite.tracking import is_server
from suite.watch.pages import Pages
from suite.watch.server import app, serve, site
from suite.watch.views import Views
from trials.common.errors import UserError

MLFLOW = "/mlflow"


class Mlflow:
    """MLflow's server, from the first request on."""

    def __init__(self, load: Callable[[], ASGIApp]) -> None:
        self._load = load
        self._app: ASGIApp | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; where there is no store yet, say so."""
        app: ASGIApp
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
    started: Callable[[str], None],
) -> None:
    """Serve until SIGINT or SIGTERM; `started` is given the address of the first page once it is there. MLflow's
    pages of a tracking server are at that server.
    """
    elsewhere = tracking_uri if tracking_uri is not None and is_server(tracking_uri) else None
    views = Views(storage, tracking_uri, MLFLOW if elsewhere is None else elsewhere.rstrip("/"))
    routes = Pages(views).routes()
    if elsewhere is None:
        mlflow = Mlflow(views.mlflow)
        routes += [Mount(MLFLOW, mlflow), Mount("/", mlflow)]

    def ready() -> None:
        threading.Thread(target=views.home, daemon=True).start()  # before anybody waits for it
        started(site(there))

    serve(app(routes), there, ready)
