"""`suite ui`: MLflow's pages and ours, one server; the leaderboard is what is seen first.

MLflow's own first page knows nothing of leaderboards, and cannot be told to. So `/` is ours, all of MLflow is
below `/mlflow/`, and whatever is not ours is MLflow's, as its clients expect; a link of the form `/#/...`, which
a browser asks for as `/`, is sent on by the first page.
"""

import os
import socket
import warnings
from pathlib import Path

from starlette.routing import Mount
from starlette.types import ASGIApp

from suite.tracking.leaderboard_view import start_page
from suite.tracking.store import Store
from suite.watch.server import Pages, Started, app, serve
from suite.watch.views import Views

MLFLOW = "/mlflow"


def mlflow_pages(store: Store) -> ASGIApp:
    """MLflow's server of a store, to be mounted. It reads where things are from its environment."""
    # Else it starts runners of jobs that nothing here submits, a handful of processes.
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    from mlflow.server import constants

    os.environ[constants.BACKEND_STORE_URI_ENV_VAR] = store.uri
    os.environ[constants.ARTIFACT_ROOT_ENV_VAR] = "mlflow-artifacts:/"
    os.environ[constants.SERVE_ARTIFACTS_ENV_VAR] = "true"
    os.environ[constants.ARTIFACTS_DESTINATION_ENV_VAR] = store.artifacts or ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's imports, of what they will have to change
        from mlflow.server.fastapi_app import app as found

    return found


def ui(store: Store, storage: Path, there: socket.socket, started: Started) -> None:
    """Serve until SIGINT or SIGTERM."""
    mlflow = mlflow_pages(store)
    pages = Pages(Views(storage, None, MLFLOW), lambda: links(store))
    routes = [*pages.routes(), Mount(MLFLOW, mlflow), Mount("/", mlflow)]
    serve(app(routes), there, lambda: started(pages.at(there)))


def links(store: Store) -> list[tuple[str, str]]:
    """Where MLflow shows each study as a leaderboard, and its first page."""
    found = [(f"{name} in MLflow", page) for name, page in store.pages(MLFLOW)]
    return [*found, ("MLflow", MLFLOW + start_page())]
