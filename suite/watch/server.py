"""The server of the live pages: on loopback, for this machine's own browser.

A page elsewhere can make a browser send requests here. So whatever names another host is refused (which
ends DNS rebinding), and so is what may change something and comes of a page of another site; no other page can show
them in a frame. Every account of the machine can ask, too: so stopping a sweep needs the secret of the address that
was printed besides, and without it pages only show.
"""

import ipaddress
import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from reports.charts import drawing
from reports.page.live import READ_ONLY, home_page, live_page, live_parts
from suite.execution.stop_signal import WORDS
from suite.sweeps.status import ask
from suite.tracking.schema.leaderboard_view import start_page
from suite.watch.secret import Secret
from suite.watch.views import Views
from trials.common.errors import UserError

SCRIPT = "/vega.js"
NAMES = {"localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
"""The names of this machine that a request may call it by; beside them any address."""
READING = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""
ALONE = {
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""What a browser is told of each of our pages."""
Started = Callable[[Callable[[str], str]], None]
"""Is called once a server answers, with what gives the address of a path, the secret in it."""
LOG = "%(asctime)s %(name)s %(levelname)s %(message)s"


class OwnPages:
    """Lets through what our own pages and programs ask. MLflow refuses other sites, too, but takes pages of
    any port of this machine for its own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what names an address or this machine, and does not come from elsewhere."""
        if scope["type"] != "http":
            return  # there is nothing else here
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        foreign = origin is not None and origin.partition("://")[2] != host
        if not ours(host):
            await PlainTextResponse("this host is not served here", 403)(scope, receive, send)
        elif foreign and scope["method"] not in READING:
            said = "only a page of this server may ask that"
            await PlainTextResponse(said, 403)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def ours(host: str) -> bool:
    """Whether a Host header is an address or a name of this machine; a rebound name is neither."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return name.lower() in NAMES
    return True


class Pages:
    """The pages' addresses. `links` are shown on the first one."""

    def __init__(self, views: Views, links: Callable[[], list[tuple[str, str]]]) -> None:
        self.views, self.links = views, links
        self.secret = Secret()
        self._script = ""

    def at(self, there: socket.socket) -> Callable[[str], str]:
        """The address of a path at this socket, with the secret."""
        return lambda path: self.secret.address(site(there) + path)

    def routes(self) -> list[BaseRoute]:
        """What is served."""
        return [
            Route("/", self.home),
            Route(SCRIPT, self.script),
            Route("/sweeps/{name}", self.sweep),
            Route("/sweeps/{name}/parts", self.parts),
            Route("/sweeps/{name}/{word}", self.ask, methods=["POST"]),
        ]

    async def home(self, request: Request) -> Response:
        """The leaderboards, and all sweeps."""
        sweeps, boards, faults = await run_in_threadpool(self.views.home)
        links = await run_in_threadpool(self.links)
        page = home_page(sweeps, boards, links, faults)
        return self.secret.remember(request, HTMLResponse(page, headers=ALONE))

    async def sweep(self, request: Request) -> Response:
        """The live page of a sweep."""
        try:
            found = await run_in_threadpool(self.views.sweep, request.path_params["name"])
        except UserError as error:
            return PlainTextResponse(str(error), 404)
        page = live_page(found, self.secret.known(request), SCRIPT)
        return self.secret.remember(request, HTMLResponse(page, headers=ALONE))

    async def parts(self, request: Request) -> Response:
        """What of it changes; nothing where nothing has."""
        began, name = time.process_time(), request.path_params["name"]
        try:
            etag = f'W/"{hash(await run_in_threadpool(self.views.version, name))}"'
            if request.headers.get("if-none-match") == etag:
                return Response(status_code=304)
            found = await run_in_threadpool(self.views.sweep, name)
        except UserError as error:
            return PlainTextResponse(str(error), 404)
        html = await run_in_threadpool(live_parts, found, self.secret.known(request))
        took = f"{time.process_time() - began:.3f}"
        return HTMLResponse(html, headers={**ALONE, "ETag": etag, "X-Seconds": took})

    async def ask(self, request: Request) -> Response:
        """Stop or cancel a sweep, if one of our own pages asks that was opened by the address with the secret."""
        name, word = request.path_params["name"], request.path_params["word"]
        if word not in WORDS:
            return PlainTextResponse("not found", 404)
        own = f"{request.url.scheme}://{request.headers.get('host', '')}"
        if request.headers.get("origin") != own:
            return PlainTextResponse("only a page of this server may ask that", 403)
        if not self.secret.known(request):
            return PlainTextResponse(READ_ONLY, 403)
        try:
            here = await run_in_threadpool(ask, self.views.storage, name, word)
        except UserError as error:
            return PlainTextResponse(str(error), 404)
        said = "it answers within seconds" if here else "no process of this machine runs it"
        return PlainTextResponse(f"Asked {name} to {word}; {said}.")

    async def script(self, request: Request) -> Response:
        """The chart library."""
        text = self._script = self._script or await run_in_threadpool(drawing.script)
        kept = {"Cache-Control": "max-age=86400"}
        return Response(text, media_type="text/javascript", headers=kept)


class _Server(uvicorn.Server):
    """A server that says when it answers."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._said = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self._said()


def bind(host: str, port: int | None, usual: int) -> socket.socket:
    """A socket of this port, or of the usual one and, where that is taken, of any that is free. Raises
    `UserError` where the port that was asked for cannot be used, or none of the host.
    """
    for wanted in (usual, 0) if port is None else (port,):
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return socket.create_server((host, wanted), family=family)
        except OSError as error:
            reason = error.strerror or error
    where = f"--port {port}" if port is not None else f"--host {host}"
    raise UserError(f"{where}: cannot serve pages at {host}:{port or usual}: {reason}")


def app(routes: list[BaseRoute]) -> ASGIApp:
    """An application of these routes that answers to this machine's own names only."""
    return Starlette(routes=routes, middleware=[Middleware(OwnPages)])


def serve(app: ASGIApp, there: socket.socket, started: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM."""
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2
    )
    _Server(config, started).run(sockets=[there])


def quiet(path: Path) -> None:
    """Let what servers say go to a file; to none where its folder is not there or not ours to write."""
    handler: logging.Handler = logging.NullHandler()
    with suppress(OSError):
        handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter(LOG))
    for name in ("uvicorn", "mlflow", "alembic", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    logging.getLogger("uvicorn").setLevel(logging.INFO)


def watch(views: Views, there: socket.socket, started: Started) -> None:
    """Serve the live pages, with little of the processor."""
    os.nice(10)
    pages = Pages(views, lambda: [("MLflow", views.server + start_page())])
    serve(app(pages.routes()), there, lambda: started(pages.at(there)))


def site(there: socket.socket) -> str:
    """The address that a browser finds a socket at."""
    host, port, *_ = there.getsockname()
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
