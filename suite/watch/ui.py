"""`suite ui`: MLflow's pages and ours, one server; the leaderboard is what is seen first.

MLflow's own first page knows nothing of leaderboards, and cannot be told to. So `/` is ours, all of MLflow is
below `/mlflow/`, and whatever is not ours is MLflow's, as its clients expect; a link of the form `/#/...`, which
a browser asks for as `/`, is sent on by the first page.
"""

import socket
from pathlib import Path

from starlette.routing import Mount

from suite.tracking.mlflow_internals import server
from suite.tracking.schema.leaderboard_view import start_page
from suite.tracking.store import Store
from suite.watch.server import Pages, Started, app, serve
from suite.watch.views import Views

MLFLOW = "/mlflow"


def ui(store: Store, storage: Path, there: socket.socket, started: Started) -> None:
    """Serve until SIGINT or SIGTERM."""
    mlflow = server(store.uri, store.artifacts or "")
    pages = Pages(Views(storage, None, MLFLOW), lambda: links(store))
    routes = [*pages.routes(), Mount(MLFLOW, mlflow), Mount("/", mlflow)]
    serve(app(routes), there, lambda: started(pages.at(there)))


def links(store: Store) -> list[tuple[str, str]]:
    """Where MLflow shows each study as a leaderboard, and its first page."""
    found = [(f"{name} in MLflow", page) for name, page in store.pages(MLFLOW)]
    return [*found, ("MLflow", MLFLOW + start_page())]
