"""An MLflow tracking store: runs for people to look at, which only the driver process writes, with MLflow's public client.

The names of tags, params and metrics are a contract (docs/table.md). Little is read back: the runs of sweeps with their
tables, a run to replay, and the runs that a killed process has left unfinished.
"""

import contextlib
import fcntl
import hashlib
import logging
import math
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from urllib.parse import urlparse

from suite.console import say
from suite.environment import kept
from suite.formats import FORMAT, FormatError, check_format
from suite.tracking import VARIABLE, StoreError, is_local, is_server, without_user
from suite.tracking.tags import PREFIX, RunKind
from suite.yaml_files import writing
from trials.common.errors import UserError
from trials.common.files import plain

for _name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"):
    os.environ.setdefault(_name, "true")

from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

for _name in ("alembic", "mlflow"):
    logging.getLogger(_name).setLevel(logging.WARNING)
# It logs a traceback for each failed write. Writes are repeated here, and the last failure is shown.
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)

NETWORK_FILE_SYSTEMS = {"nfs", "cifs", "smb2", "lustre", "fhgfs", "gpfs", "ceph", "afs"}
"""The names by `stat` of file systems on which SQLite loses data."""
DATABASE = "mlflow.db"
"""The file name of the store in a storage folder."""
TABLE, SHA256 = "trials.parquet", "table_sha256"
"""The artifact of a sweep's run with its table, and the tag with the table's hash, which is set after the upload."""
LONGEST = 5000
"""The most characters of a tag or param that every version of MLflow keeps. A longer tag is left out, a longer param cut."""
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}
"""MLflow's retries and seconds for the first request to a server. They are few, since a person waits for the answer."""


@dataclass(frozen=True)
class Record:
    """A run in MLflow: its tags without the suite's prefix, the last value of each metric, its status, and its experiment's id."""

    run_id: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]
    status: str
    experiment: str

    def check(self, what: str, instead: str = "") -> None:
        """Raise `FormatError` for a run in another version's format. The message begins with `what` and ends with the advice `instead`."""
        check_format(what, int(self.tags.get("format", 0)), instead)


class Guarded:
    """An MLflow client that raises each of its errors as a `StoreError`."""

    def __init__(self, uri: str, client: MlflowClient) -> None:
        self._uri, self._client = uri, client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            try:
                return getattr(self._client, name)(*args, **options)
            except (MlflowException, OSError) as error:  # artifacts raise OSError
                raise StoreError(self._uri, error) from None

        return call


class Store:
    """An MLflow tracking store: a server, or a SQLite file in the folder `storage`. Its methods raise `StoreError`.

    `uri` is its address without a password, for texts; `address` is for MLflow alone. `takes_files` says whether the store
    itself keeps the artifacts of runs. Raises `UserError` if the store does not answer.
    """

    def __init__(self, tracking_uri: str | None, storage: Path) -> None:
        self.address = tracking_uri or f"sqlite:///{storage.resolve() / DATABASE}"
        self.uri, self.takes_files = without_user(self.address), True
        self.artifacts = None if tracking_uri else (storage.resolve() / "artifacts").as_uri()
        if tracking_uri is None:
            if {"?", "%"} & {*str(storage.resolve())}:  # a database URI gives them a meaning
                raise UserError(f"{storage} has a ? or % in its path: choose another --storage")
            _refuse_network(storage)
        _check_database(self.address)
        direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
        host = urlparse(self.address).hostname
        if host in ("127.0.0.1", "localhost") and host not in direct:
            os.environ["no_proxy"] = f"{direct},{host}"  # a proxy would not reach it
        with contextlib.ExitStack() as stack:
            if tracking_uri is None:
                with writing(storage):
                    storage.mkdir(mode=0o700, parents=True, exist_ok=True)
                # Two processes at once would both try to create MLflow's tables.
                folder = os.open(storage, os.O_RDONLY)
                stack.callback(os.close, folder)
                fcntl.flock(folder, fcntl.LOCK_EX)
            stack.enter_context(kept(*PATIENCE, **PATIENCE))
            try:
                if tracking_uri is None and not (storage / DATABASE).exists():
                    _create(storage / DATABASE)
                client = MlflowClient(self.address)
                client.search_experiments(max_results=1)
            except Exception as error:
                named = f"{VARIABLE}: " if tracking_uri == os.environ.get(VARIABLE, "") else ""
                raise UserError(f"{named}{StoreError(self.uri, error)}") from None
        self.client = cast(MlflowClient, Guarded(self.uri, client))

    def experiment(self, study: str) -> str:
        """Return the id of the MLflow experiment that is named after a study. Create the experiment if it is missing."""
        if (experiment := self.client.get_experiment_by_name(study)) is None:
            number = self.client.create_experiment(study, self.artifacts)
            experiment = self.client.get_experiment(number)
        # Some servers let their clients write artifacts, to a folder that only the server's machine has.
        folder = urlparse(location := str(experiment.artifact_location))
        elsewhere = folder.scheme in ("", "file") and not Path(folder.path).parent.is_dir()
        if self.takes_files and is_server(self.uri) and elsewhere:
            self.takes_files = False
            lacks = f"its runs name {location}, which this machine does not have"
            say(f"{self.uri} keeps no files: {lacks}")
        return str(experiment.experiment_id)

    def create(
        self,
        experiment: str,
        name: str,
        tags: Mapping[str, Any],
        parent: str | None = None,
        seconds: float = 0.0,
    ) -> str:
        """Create a run that began `seconds` ago, as a child of the run `parent` if given. Return the new run's id."""
        began, texts = int((time.time() - seconds) * 1000), _tags({"format": FORMAT, **tags})
        if parent:
            texts["mlflow.parentRunId"] = parent
        return str(self.client.create_run(experiment, began, texts, run_name=name).info.run_id)

    def log(
        self,
        run_id: str,
        params: Mapping[str, Any] | None = None,
        history: Iterable[Mapping[str, float]] = (),
        tags: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a run's params, tags and finite metrics in one request. `history` has a dict of metrics for each round."""
        now = int(time.time() * 1000)
        metrics = [
            Metric(key, float(value), now, int(entry["round"]))
            for entry in history
            for key, value in entry.items()
            if key != "round" and math.isfinite(value)
        ]
        texts = [Param(name, str(value)[:LONGEST]) for name, value in (params or {}).items()]
        run_tags = [RunTag(name, text) for name, text in _tags(tags or {}).items()]
        self.client.log_batch(run_id, metrics, texts, run_tags, synchronous=True)

    def keep_table(self, run_id: str, path: Path) -> None:
        """Upload a sweep's table, then tag the run `run_id` with the table's SHA-256. Do neither if the store takes no files."""
        if self.takes_files:
            self.client.log_artifact(run_id, str(path))
            self.client.set_tag(run_id, PREFIX + SHA256, _sha256(path), synchronous=True)
        if is_local(self.uri):
            _analyze(Path(self.uri.removeprefix("sqlite:///")))

    def table(self, sweep: Record) -> Path:
        """Return the path of a sweep's table in the user's cache. Download the table if the cache lacks it."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "suite-fl/tables"
        cached = cache / f"{sweep.tags[SHA256]}.parquet"
        if cached.exists():
            return cached
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as folder:
            copy = Path(self.client.download_artifacts(sweep.run_id, TABLE, folder))
            # A newer table may be there before the tag is set, so the file is named after its own hash.
            return copy.replace(cache / f"{_sha256(copy)}.parquet")

    def set_status(self, run_id: str, status: str) -> None:
        """Set a run's status. FINISHED, FAILED and KILLED also set its end time; RUNNING does not."""
        if status == "RUNNING":
            self.client.update_run(run_id, status=status)
        else:
            self.client.set_terminated(run_id, status)

    def delete(self, run_id: str) -> None:
        """Delete a run if it exists. If the store refuses, print a message and leave the run."""
        try:
            self.client.delete_run(run_id)
        except StoreError as error:
            if error.passes:
                raise
            if "not found" not in error.reason:
                say(f"run {run_id} stays in {self.uri}, which refuses to delete it: {error.reason}")

    def sweeps(self, name: str | None = None) -> list[Record]:
        """Return the MLflow runs of all sweeps that uploaded a table, or of all sweeps with this name, oldest first. For a run in
        another format, raise `FormatError` if `name` is given, else print a message and skip the run.
        """
        readable = []
        for run in self._runs(f"tags.`{PREFIX}kind` = '{RunKind.SWEEP}'"):
            sweep = run.tags.get("sweep")
            try:
                if name in (None, sweep):
                    run.check(f"sweep {sweep}", "choose another --name")
                    readable.append(run)
            except FormatError as error:
                if name:
                    raise
                say(str(error))
        return [run for run in readable if name or SHA256 in run.tags]

    def running(self, sweep: str) -> list[str]:
        """Return the ids of a sweep's runs with the status RUNNING, except the sweep's own run."""
        runs = self._runs("attributes.status = 'RUNNING'")
        of_sweep = [run for run in runs if run.tags.get("sweep") == sweep]
        return [run.run_id for run in of_sweep if run.tags.get("kind") != RunKind.SWEEP]

    def get(self, run_id: str) -> Record:
        """Return the run whose id begins with `run_id`. Raise `UserError` for no match, for several, or for another format version."""
        runs = self._runs(f"attributes.run_id LIKE '{run_id}%'") if run_id.isalnum() else []
        if len(runs) != 1:
            what = "more than one run begins with" if runs else "there is no run"
            raise UserError(f"{what} {run_id!r} in {self.uri}")
        runs[0].check(f"run {run_id}")
        return runs[0]

    def curve(self, record: Record, metrics: Iterable[str]) -> list[dict[str, float]]:
        """Return a run's values of these metrics: one dict for each recorded round, in the order of rounds."""
        rounds: dict[int, dict[str, float]] = {}
        for metric in record.metrics.keys() & set(metrics):
            for point in self.client.get_metric_history(record.run_id, metric):
                rounds.setdefault(point.step, {"round": point.step})[metric] = point.value
        return [rounds[at] for at in sorted(rounds)]

    def _runs(self, where: str) -> list[Record]:
        """Return the runs that satisfy a filter in MLflow's search syntax, from all experiments, oldest first."""
        ids = [experiment.experiment_id for experiment in _pages(self.client.search_experiments)]
        records = []
        for run in _pages(self.client.search_runs, ids, where, order_by=["attributes.start_time"]):
            texts, info = run.data.tags.items(), run.info
            tags = {key[len(PREFIX) :]: text for key, text in texts if key.startswith(PREFIX)}
            record = Record(info.run_id, tags, run.data.metrics, info.status, info.experiment_id)
            records.append(record)
        return records


def _tags(tags: Mapping[str, Any]) -> dict[str, str]:
    """Return tags with the suite's prefix in their names and text as values. Leave out values that are too long for MLflow."""
    texts = {PREFIX + name: str(value) for name, value in tags.items()}
    return {name: text for name, text in texts.items() if len(text) <= LONGEST}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _pages(search: Callable[..., Any], *args: Any, **options: Any) -> Iterator[Any]:
    """Yield all results of `search`, a method of MLflow's client that returns results in pages."""
    token: str | None = ""
    while token is not None:
        page = search(*args, **options, max_results=1000, page_token=token or None)
        yield from page
        token = page.token or None


def _refuse_network(storage: Path) -> None:
    """Raise `UserError` if a folder, which need not exist yet, is on a network file system. SQLite loses data there."""
    path = storage.resolve()
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    command = ["stat", "--file-system", "--format=%T", str(existing)]
    kind = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if kind in NETWORK_FILE_SYSTEMS:
        raise UserError(
            f"{storage} is on a network file system ({kind}), where SQLite loses data. "
            "Choose a local --storage, or start a server and pass --tracking-uri."
        )


def _check_database(uri: str) -> None:
    """Raise `UserError` if a SQLite file exists but cannot be read. MLflow would retry for minutes."""
    path = Path(uri.removeprefix("sqlite:///"))
    if is_local(uri) and os.path.lexists(path):
        try:
            with contextlib.closing(sqlite3.connect(plain(path, "store"))) as database:
                database.execute("select * from sqlite_master")
        except sqlite3.Error as error:
            raise UserError(f"cannot read store {path}: {error}") from None


def _create(path: Path) -> None:
    """Create a SQLite database with a write-ahead log, so that readers and a writer do not block each other."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode = wal")


def _analyze(path: Path) -> None:
    """Let SQLite estimate the sizes of its tables. Without the estimates, MLflow's search for runs by a metric is slow."""
    with contextlib.suppress(sqlite3.Error):
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True)
        with contextlib.closing(database):
            database.executescript("pragma analysis_limit = 400; analyze")


def open_existing(tracking_uri: str | None, storage: Path) -> Store:
    """Open a store for reading. Raise `UserError` if the local store does not exist yet."""
    if tracking_uri is None and not (storage / DATABASE).exists():
        raise UserError(f"there is no store {storage / DATABASE} yet: run `suite sweep quickstart`")
    return Store(tracking_uri, storage)
