"""MLflow: what is recorded for people, and the little that is read back."""

import os
from pathlib import Path
from urllib.parse import urlparse

from suite.tracking.faults import without_user

RUNS = Path("runs")
"""Where the store and all sweeps are, unless a person says otherwise."""
VARIABLE = "MLFLOW_TRACKING_URI"
"""What MLflow's users set to say where their tracking store is; empty: not set."""


def usual(tracking_uri: str | None) -> str | None:
    """Return the tracking URI that is given, else `VARIABLE`'s, else None: the store in the storage's folder."""
    return tracking_uri if tracking_uri is not None else os.environ.get(VARIABLE) or None


def is_server(uri: str) -> bool:
    """Return whether a tracking URI is a server's."""
    return urlparse(uri).scheme in ("http", "https")


def pages_at(tracking_uri: str | None) -> str:
    """Return where MLflow's pages are: at the tracking server, else where `mlflow ui` serves them."""
    if tracking_uri is not None and is_server(tracking_uri):
        return without_user(tracking_uri).rstrip("/")
    return "http://127.0.0.1:5000"
