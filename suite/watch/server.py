"""The server of the live pages: on loopback, for this machine's own browser.

A page elsewhere can make a browser send requests here. So whatever names another host is refused (which
ends DNS rebinding), and so is what may change something and comes of a page of another site; no other page can show
them in a frame. Our pages only show: every account of the machine can ask for them.
"""

import ipaddress
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from trials.common.errors import UserError

NAMES = {"localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
"""The names of this machine that a request may call it by; beside them any address."""
READING = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""
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
    """Serve until SIGINT or SIGTERM, with little of the processor: a sweep may run beside it."""
    os.nice(10)
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


def site(there: socket.socket) -> str:
    """The address that a browser finds a socket at."""
    host, port, *_ = there.getsockname()
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
