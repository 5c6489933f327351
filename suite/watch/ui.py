"""`suite ui`: all pages at one address, ours first.

Optuna's dashboard asks by absolute paths, which are its own here too. Whatever is neither ours nor the dashboard's is
MLflow's, as its clients expect, and all of MLflow is below `/mlflow/`; a link of the form `/#/...`, which a browser asks for as
`/`, is sent on by the first page. Both take seconds to come, so they are loaded when they are first asked for.
"""

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

from starlette.routing import Mount

from suite.tracking import is_server
from suite.watch.mounts import DASHBOARD_READS, MLFLOW_READS, Dashboard, Mounted, mlflow, nothing
from suite.watch.pages import Pages
from suite.watch.server import app, serve, site

MLFLOW = "/mlflow"
LOG = "ui.log"


def ui(
    storage: Path,
    tracking_uri: str | None,
    there: socket.socket,
    token: str,
    started: Callable[[str], None],
) -> None:
    """Serve who knows the token until SIGINT or SIGTERM; `started` is given the server's address. MLflow's pages of a
    tracking server are at that server.
    """
    elsewhere = tracking_uri if tracking_uri is not None and is_server(tracking_uri) else None
    dashboard = Dashboard(storage)
    pages = Pages(storage, MLFLOW if elsewhere is None else elsewhere.rstrip("/"), dashboard)
    routes, rest = pages.routes(), nothing
    if elsewhere is None:
        rest = Mounted(MLFLOW_READS, partial(mlflow, storage, tracking_uri), nothing)
        routes.append(Mount(MLFLOW, rest))
    routes.append(Mount("/", Mounted(DASHBOARD_READS, dashboard.load, rest)))
    started(site(there))
    serve(app(routes, token), there, storage / LOG)
