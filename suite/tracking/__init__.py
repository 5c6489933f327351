"""MLflow: what is recorded, and how it is read back."""

from pathlib import Path
from urllib.parse import urlparse

RUNS = Path("runs")
"""Where the store and all sweeps are, unless a person says otherwise."""
PAGES = "http://127.0.0.1:5000"
"""Where MLflow's pages are, unless a person says otherwise."""


def is_server(uri: str) -> bool:
    """Whether a tracking URI is a server's."""
    return urlparse(uri).scheme in ("http", "https")


def pages_at(server: str | None, tracking_uri: str | None) -> str:
    """Where MLflow's pages are: as a person says, else at the tracking server, where there is one."""
    if server is None and tracking_uri is not None and is_server(tracking_uri):
        server = tracking_uri
    return (server or PAGES).rstrip("/")
