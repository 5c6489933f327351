"""The tables of sweeps at a tracking server: which there are, and copies of them in a cache."""

import hashlib
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from suite.tracking.faults import StoreError
from suite.tracking.schema.tags import PREFIX
from trials.common.errors import UserError

if TYPE_CHECKING:
    from suite.tracking.store import Store  # MLflow takes a second to load

ARTIFACT = "trials.parquet"
"""What of a sweep's run is its table."""
SHA256 = "table_sha256"
"""The tag of that run that says which table it is; it is set once the table is there."""


class RecordedTable(NamedTuple):
    """The table of a sweep at a tracking server."""

    store: "Store"
    run_id: str
    sweep: str
    study: str
    sweep_id: str
    sha256: str

    def download(self) -> Path:
        """Return the path of a copy, which is fetched unless it is in the cache. Raises `UserError` where that fails."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "suite-fl/tables"
        place = cache / f"{self.sha256}.parquet"
        if place.exists():
            return place
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as folder:
            try:
                copy = Path(self.store.client.download_artifacts(self.run_id, ARTIFACT, folder))
            except StoreError as error:
                what = f"the table of sweep {self.sweep} cannot be fetched"
                raise UserError(f"{what}: {error.reason}") from None
            # A sweep that writes another one meanwhile has not set the tag yet: a table goes by what it is.
            return copy.replace(cache / f"{_sha256(copy)}.parquet")


def recorded_tables(tracking_uri: str) -> list[RecordedTable]:
    """Return the tables of all sweeps at a tracking server, the oldest first."""
    from suite.tracking.store import Store

    store, names = Store(tracking_uri, Path()), ("sweep", "study", "sweep_id", SHA256)
    return [
        RecordedTable(store, run.run_id, *(run.tags[name] for name in names))
        for run in store.sweeps()
        if set(names) <= run.tags.keys()
    ]


def upload(store: "Store", run_id: str, path: Path) -> None:
    """Keep a table with the run of its sweep, and then say which it is."""
    if store.takes_files:
        store.attach(run_id, path)
        store.client.set_tag(run_id, PREFIX + SHA256, _sha256(path))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
