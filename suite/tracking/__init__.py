"""MLflow: what is recorded for people, and the little that is read back.

This module has the place of the store, and its faults, in words without passwords.
"""

import os
import re
from pathlib import Path
from urllib.parse import urlparse

from trials.common.errors import UserError

RUNS = Path("runs")
"""The default folder of the store and all sweeps."""
VARIABLE = "MLFLOW_TRACKING_URI"
"""The variable with the place of MLflow's tracking store; empty means not set."""
_USER = re.compile(r"(?<=://)[^/\s'\"]*@")
_STATUS = re.compile(r"failed with error code (\d+) !=")


def usual(tracking_uri: str | None) -> str | None:
    """Return the tracking URI that is given, else `VARIABLE`'s, else None: the store in the storage's folder."""
    return tracking_uri if tracking_uri is not None else os.environ.get(VARIABLE) or None


def is_server(uri: str) -> bool:
    """Return whether a tracking URI is a server's."""
    return urlparse(uri).scheme in ("http", "https")


def is_local(uri: str) -> bool:
    """Return whether a store is on a disk of this machine. Other stores may be away for a while."""
    return uri.startswith("sqlite:")


def pages_at(tracking_uri: str | None) -> str:
    """Return where MLflow's pages are: at the tracking server, else where `mlflow ui` serves them."""
    if tracking_uri is not None and is_server(tracking_uri):
        return without_user(tracking_uri).rstrip("/")
    return "http://127.0.0.1:5000"


def without_user(text: str) -> str:
    """Return a text in which no address has a user or a password."""
    return _USER.sub("", text)


def reason(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return without_user((str(error).strip() or repr(error)).splitlines()[0])[:300]


class StoreError(UserError):
    """A tracking store failed to answer; `reason` says why, in a line.

    It `passes` if the same request may succeed later: nobody answers, a server is busy, a database is locked. All else is
    a refusal, which waiting does not change.
    """

    def __init__(self, uri: str, error: BaseException) -> None:
        status = getattr(error, "get_http_status_code", lambda: 500)()
        # MLflow takes those that it does not know for 500.
        if answered := _STATUS.search(str(error)):
            status = int(answered[1])
        # A server that does not know what it is asked (501) will not learn it.
        self.passes = status in (408, 429) or (status >= 500 and status != 501)
        self.reason = reason(error)
        verb = "does not answer" if self.passes else "refuses this"
        super().__init__(f"tracking store {without_user(uri)} {verb}: {self.reason}")
