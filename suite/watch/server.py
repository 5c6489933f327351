"""The server of the pages: on loopback, for the browser of whoever started it.

Every account of the machine can reach loopback, so each request has to show the token that this start of the server
printed. A page elsewhere can make a browser send requests here, with the browser's cookie. So whatever names another
host is refused (which ends DNS rebinding), and so is what a page of another site asks; no other page can show ours in
a frame.
"""

import ipaddress
import logging
import os
import re
import socket
import sys
from contextlib import redirect_stderr, suppress
from hmac import compare_digest
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from reports.leaderboard.names import without_paths
from trials.common.errors import UserError

NAMES = {"localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
"""The names of this machine that a request may call it by; beside them any address."""
UNKNOWN = (
    "these pages are for whoever started them: open the address that `suite ui` printed, with its ?token=, "
    "or send the token (Authorization: Bearer TOKEN, which MLflow's clients do with MLFLOW_TRACKING_TOKEN)"
)
LOG = "%(asctime)s %(name)s %(levelname)s %(message)s"


class Guard:
    """The one door to all that is mounted: an address with the token leaves a cookie in the browser, and each
    request needs that, or the token itself.

    MLflow's own guard takes pages of any port of this machine for its own.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what this machine's browser, or a program that knows the token, asks of this server."""
        if scope["type"] != "http":
            return  # there is nothing else here
        request = Request(scope)
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        # Cookies are shared by the ports of a host, and each may have a server with a token of its own.
        port = re.search(r":(\d+)$", host)
        cookie = f"suite-ui-{port[1] if port else 80}"
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        answer: ASGIApp = self.app
        if not ours(host):
            answer = PlainTextResponse("this host is not served here", 403)
        elif origin is not None and origin.partition("://")[2] != host:
            answer = PlainTextResponse("only a page of this server may ask that", 403)
        elif request.method == "GET" and self._is_token(request.query_params.get("token", "")):
            answer = self._let_in(request, cookie)
        elif not any(map(self._is_token, (request.cookies.get(cookie, ""), bearer))):
            answer = PlainTextResponse(UNKNOWN, 401, {"WWW-Authenticate": "Bearer"})
        await answer(scope, receive, send)

    def _is_token(self, text: str) -> bool:
        return compare_digest(text.encode(), self._token.encode())

    def _let_in(self, request: Request, cookie: str) -> Response:
        """Send a browser on to the same address without the token, which else stands in its address bar."""
        place = request.url.remove_query_params("token")
        answer = RedirectResponse(place, 303, {"Cache-Control": "no-store"})
        # Lax, so that links in mails and reports lead here.
        answer.set_cookie(cookie, self._token, httponly=True, samesite="lax")
        return answer


def ours(host: str) -> bool:
    """Return whether a Host header is an address or a name of this machine; a rebound name is neither."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return name.lower() in NAMES
    return True


def app(routes: list[BaseRoute], token: str) -> ASGIApp:
    """Return an application of these routes that answers to this machine's own names, and to who knows the token."""
    guard = [Middleware(Guard, token)]
    return Starlette(routes=routes, middleware=guard, exception_handlers={UserError: _absent})


def _absent(request: Request, error: Exception) -> Response:
    """Say in words what is not there."""
    alone = headers("default-src 'none'; frame-ancestors 'none'")
    return PlainTextResponse(without_paths(str(error)), 404, alone)


def headers(policy: str) -> dict[str, str]:
    """Return what a browser is told of each of our pages."""
    alone = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
    return {**alone, "Content-Security-Policy": policy}


def serve(app: ASGIApp, there: socket.socket, log: Path) -> None:
    """Serve until SIGINT or SIGTERM, with little of the processor: a sweep may run beside it. What is said meanwhile goes to a
    file; to none where its folder is not there or not ours to write.
    """
    os.nice(10)
    handler: logging.Handler = logging.NullHandler()
    with suppress(OSError):
        handler = logging.FileHandler(log)
    logging.basicConfig(format=LOG, level=logging.INFO, handlers=[handler], force=True)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2
    )
    with redirect_stderr(getattr(handler, "stream", sys.stderr)):
        uvicorn.Server(config).run(sockets=[there])
