"""MLflow: runs for people to look at, written by the driver alone with the public client.

The names of tags, params and metrics are a contract (docs/table.md). Only these are read back: runs of sweeps, with their
tables; a run to repeat; and which runs a killed process left RUNNING.
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
# Tracebacks of writes that fail: they are tried again, and the last failure is said.
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)

NETWORK_FILE_SYSTEMS = {"nfs", "cifs", "smb2", "lustre", "fhgfs", "gpfs", "ceph", "afs"}
"""File systems on which SQLite loses data, as `stat` names them."""
DATABASE = "mlflow.db"
"""The store below a storage root."""
TABLE, SHA256 = "trials.parquet", "table_sha256"
"""The artifact of a sweep's run that is its table, and the tag with its hash, which is set once the table is there."""
LONGEST = 5000
"""Characters of a tag or param that every MLflow keeps. A longer tag is left out, a longer param is cut."""
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}
"""Defaults of how long to wait for a server at first, while a person waits."""


@dataclass(frozen=True)
class Record:
    """A recorded run: its tags without `PREFIX`, the last value of each metric, MLflow's status, and its experiment."""

    run_id: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]
    status: str
    experiment: str

    def check(self, what: str, instead: str = "") -> None:
        """Raise `FormatError` where it was written in another format."""
        check_format(what, int(self.tags.get("format", 0)), instead)


class Guarded:
    """A client of MLflow whose faults are all `StoreError`s."""

    def __init__(self, uri: str, client: MlflowClient) -> None:
        self._uri, self._client = uri, client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            try:
                return getattr(self._client, name)(*args, **options)
            except (MlflowException, OSError) as error:  # OSErrors are of artifacts
                raise StoreError(self._uri, error) from None

        return call


class Store:
    """One MLflow tracking store: a SQLite file under the storage root, or a server; each of its methods raises `StoreError`.

    `uri` names it in texts, `address` has the user and the password, for MLflow alone. `takes_files` says whether files
    that are kept with a run can be fetched from elsewhere. Raises `UserError` where nobody answers.
    """

    def __init__(self, tracking_uri: str | None, storage: Path) -> None:
        self.address = tracking_uri or f"sqlite:///{storage.resolve() / DATABASE}"
        self.uri, self.takes_files = without_user(self.address), True
        self.artifacts = None if tracking_uri else (storage.resolve() / "artifacts").as_uri()
        if tracking_uri is None:
            if {"?", "%"} & {*str(storage.resolve())}:  # the database would be another file
                raise UserError(f"{storage} has a ? or % in its path: choose another --storage")
            _refuse_network(storage)
        _check_database(self.address)
        reached = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
        host = urlparse(self.address).hostname
        if host in ("127.0.0.1", "localhost") and host not in reached:
            os.environ["no_proxy"] = f"{reached},{host}"  # no proxy reaches this machine itself
        with contextlib.ExitStack() as stack:
            if tracking_uri is None:
                with writing(storage):
                    storage.mkdir(mode=0o700, parents=True, exist_ok=True)
                # One process after the other: MLflow makes its tables without asking whether another one does.
                place = os.open(storage, os.O_RDONLY)
                stack.callback(os.close, place)
                fcntl.flock(place, fcntl.LOCK_EX)
            stack.enter_context(kept(*PATIENCE, **PATIENCE))
            try:
                if tracking_uri is None and not (storage / DATABASE).exists():
                    _make(storage / DATABASE)
                client = MlflowClient(self.address)
                client.search_experiments(max_results=1)
            except Exception as error:
                named = f"{VARIABLE}: " if tracking_uri == os.environ.get(VARIABLE, "") else ""
                raise UserError(f"{named}{StoreError(self.uri, error)}") from None
        self.client = cast(MlflowClient, Guarded(self.uri, client))

    def experiment(self, study: str) -> str:
        """Return the id of a study's experiment, made when there is none."""
        if (experiment := self.client.get_experiment_by_name(study)) is None:
            number = self.client.create_experiment(study, self.artifacts)
            experiment = self.client.get_experiment(number)
        # Some servers leave files to their clients, in a folder that is on another machine.
        place = urlparse(location := str(experiment.artifact_location))
        elsewhere = place.scheme in ("", "file") and not Path(place.path).parent.is_dir()
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
        """Start a run that began `seconds` ago; return its id."""
        began, own = int((time.time() - seconds) * 1000), _tags({"format": FORMAT, **tags})
        if parent:
            own["mlflow.parentRunId"] = parent
        return str(self.client.create_run(experiment, began, own, run_name=name).info.run_id)

    def log(
        self,
        run_id: str,
        params: Mapping[str, Any] | None = None,
        history: Iterable[Mapping[str, float]] = (),
        tags: Mapping[str, Any] | None = None,
    ) -> None:
        """Write params, tags, and metrics with step = round, in one batch; what is not finite is left out."""
        now = int(time.time() * 1000)
        metrics = [
            Metric(key, float(value), now, int(entry["round"]))
            for entry in history
            for key, value in entry.items()
            if key != "round" and math.isfinite(value)
        ]
        texts = [Param(name, str(value)[:LONGEST]) for name, value in (params or {}).items()]
        own = [RunTag(name, text) for name, text in _tags(tags or {}).items()]
        self.client.log_batch(run_id, metrics, texts, own, synchronous=True)

    def keep_table(self, run_id: str, path: Path) -> None:
        """Keep a table with the run of its sweep, then tag its hash. Do nothing where the store takes no files."""
        if self.takes_files:
            self.client.log_artifact(run_id, str(path))
            self.client.set_tag(run_id, PREFIX + SHA256, _sha256(path), synchronous=True)
        if is_local(self.uri):
            _count(Path(self.uri.removeprefix("sqlite:///")))

    def table(self, sweep: Record) -> Path:
        """Return the path of a copy of a sweep's table, which is fetched unless it is in the cache."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "suite-fl/tables"
        place = cache / f"{sweep.tags[SHA256]}.parquet"
        if place.exists():
            return place
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as folder:
            copy = Path(self.client.download_artifacts(sweep.run_id, TABLE, folder))
            # A sweep that writes another one meanwhile has not set the tag yet: a table goes by what it is.
            return copy.replace(cache / f"{_sha256(copy)}.parquet")

    def set_status(self, run_id: str, status: str) -> None:
        """Set RUNNING, or one of MLflow's terminal states, which also sets the end time."""
        if status == "RUNNING":
            self.client.update_run(run_id, status=status)
        else:
            self.client.set_terminated(run_id, status)

    def delete(self, run_id: str) -> None:
        """Remove a run, unless it is gone."""
        try:
            # One request: where its answer is lost, the same is asked again.
            self.client.delete_run(run_id)
        except StoreError as error:
            if error.passes:
                raise
            if "not found" not in error.reason:
                say(f"run {run_id} stays in {self.uri}, which refuses to delete it: {error.reason}")

    def sweeps(self, name: str | None = None) -> list[Record]:
        """Return the runs of sweeps, oldest first: all that have a table, or those of this name. One of another format is left out,
        which is said; of this name it raises `FormatError`.
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
        """Return the ids of the runs of a sweep that are RUNNING, its own aside."""
        runs = self._runs("attributes.status = 'RUNNING'")
        own = [run for run in runs if run.tags.get("sweep") == sweep]
        return [run.run_id for run in own if run.tags.get("kind") != RunKind.SWEEP]

    def get(self, run_id: str) -> Record:
        """Return the run whose id begins with `run_id`. Raises `UserError` where none or several do, or the format differs."""
        runs = self._runs(f"attributes.run_id LIKE '{run_id}%'") if run_id.isalnum() else []
        if len(runs) != 1:
            what = "more than one run begins with" if runs else "there is no run"
            raise UserError(f"{what} {run_id!r} in {self.uri}")
        runs[0].check(f"run {run_id}")
        return runs[0]

    def curve(self, record: Record, metrics: Iterable[str]) -> list[dict[str, float]]:
        """Return these metrics of a run as its history: one entry a round at which any was recorded."""
        rounds: dict[int, dict[str, float]] = {}
        for metric in record.metrics.keys() & set(metrics):
            for point in self.client.get_metric_history(record.run_id, metric):
                rounds.setdefault(point.step, {"round": point.step})[metric] = point.value
        return [rounds[at] for at in sorted(rounds)]

    def _runs(self, where: str) -> list[Record]:
        """Return the runs of all experiments that MLflow's search finds, oldest first."""
        ids = [each.experiment_id for each in _every(self.client.search_experiments)]
        records = []
        for run in _every(self.client.search_runs, ids, where, order_by=["attributes.start_time"]):
            texts, info = run.data.tags.items(), run.info
            own = {key[len(PREFIX) :]: text for key, text in texts if key.startswith(PREFIX)}
            record = Record(info.run_id, own, run.data.metrics, info.status, info.experiment_id)
            records.append(record)
        return records


def _tags(tags: Mapping[str, Any]) -> dict[str, str]:
    """Return tags as MLflow holds them, without those that are too long for it."""
    texts = {PREFIX + name: str(value) for name, value in tags.items()}
    return {name: text for name, text in texts.items() if len(text) <= LONGEST}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _every(search: Callable[..., Any], *args: Any, **options: Any) -> Iterator[Any]:
    """Yield the results of a search in MLflow, page after page."""
    token: str | None = ""
    while token is not None:
        page = search(*args, **options, max_results=1000, page_token=token or None)
        yield from page
        token = page.token or None


def _refuse_network(storage: Path) -> None:
    """Raise `UserError` where SQLite would lose data."""
    place = storage.resolve()
    there = next(folder for folder in (place, *place.parents) if folder.exists())
    command = ["stat", "--file-system", "--format=%T", str(there)]
    kind = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if kind in NETWORK_FILE_SYSTEMS:
        raise UserError(
            f"{storage} is on a network file system ({kind}), where SQLite loses data. "
            "Choose a local --storage, or start a server and pass --tracking-uri."
        )


def _check_database(uri: str) -> None:
    """Raise `UserError` for an unreadable SQLite file. MLflow would try it for minutes."""
    path = Path(uri.removeprefix("sqlite:///"))
    if is_local(uri) and os.path.lexists(path):
        try:
            with contextlib.closing(sqlite3.connect(plain(path, "store"))) as database:
                database.execute("select * from sqlite_master")
        except sqlite3.Error as error:
            raise UserError(f"cannot read store {path}: {error}") from None


def _make(path: Path) -> None:
    """Make a database whose readers and writer do not wait for one another. This also halves the time of a write."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode = wal")


def _count(path: Path) -> None:
    """Let SQLite count the rows of a file that is there. Else MLflow's search for runs, sorted by a metric, takes quadratic time."""
    with contextlib.suppress(sqlite3.Error):
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True)
        with contextlib.closing(database):
            database.executescript("pragma analysis_limit = 400; analyze")


def open_existing(tracking_uri: str | None, storage: Path) -> Store:
    """Return the store for reading. Raises `UserError` when there is none yet: a reader makes none."""
    if tracking_uri is None and not (storage / DATABASE).exists():
        raise UserError(f"there is no store {storage / DATABASE} yet: run `suite sweep quickstart`")
    return Store(tracking_uri, storage)
