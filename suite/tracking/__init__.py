"""MLflow, where runs are recorded for people: the address of its store, and its errors, in texts without passwords."""

import os
import re
from pathlib import Path
from urllib.parse import urlparse

from trials.common.errors import UserError

RUNS = Path("runs")
"""The default folder of sweeps and of MLflow's store."""
VARIABLE = "MLFLOW_TRACKING_URI"
"""The environment variable with the address of MLflow's tracking store. Empty means not set."""
_USER = re.compile(r"(?<=://)[^/\s'\"]*@")
_STATUS = re.compile(r"failed with error code (\d+) !=")


def usual(tracking_uri: str | None) -> str | None:
    """Return `tracking_uri`, or else the value of MLFLOW_TRACKING_URI. Return None, for a local store, if neither is set."""
    return tracking_uri if tracking_uri is not None else os.environ.get(VARIABLE) or None


def is_server(uri: str) -> bool:
    """Return whether a URI is the address of an HTTP server."""
    return urlparse(uri).scheme in ("http", "https")


def is_local(uri: str) -> bool:
    """Return whether a URI names a SQLite file on this machine."""
    return uri.startswith("sqlite:")


def pages_at(tracking_uri: str | None) -> str:
    """Return the address of MLflow's web pages, at the tracking server or else at the default of `mlflow ui`."""
    if tracking_uri is not None and is_server(tracking_uri):
        return without_user(tracking_uri).rstrip("/")
    return "http://127.0.0.1:5000"


def without_user(text: str) -> str:
    """Return a text without the user names and passwords in its web addresses."""
    return _USER.sub("", text)


def reason(error: BaseException) -> str:
    """Return the first line of an error's message, without passwords, cut to 300 characters."""
    return without_user((str(error).strip() or repr(error)).splitlines()[0])[:300]


class StoreError(UserError):
    """An error of a tracking store; `reason` is its first line. `passes` is true if the same request may succeed later, as when
    a server is busy or a database is locked. Otherwise the store refuses the request, and waiting does not help.
    """

    def __init__(self, uri: str, error: BaseException) -> None:
        status = getattr(error, "get_http_status_code", lambda: 500)()
        # MLflow reports a status that it does not know as 500, with the real one in the message.
        if answered := _STATUS.search(str(error)):
            status = int(answered[1])
        # 501 (not implemented) will not change, and neither will a missing driver of a database.
        lasting = status == 501 or isinstance(error, ImportError)
        self.passes = not lasting and (status in (408, 429) or status >= 500)
        self.reason = reason(error)
        verb = "does not answer" if self.passes else "refuses this"
        super().__init__(f"tracking store {without_user(uri)} {verb}: {self.reason}")
