"""MLflow: runs for people to look at, written by the driver alone with the public client.

The names of tags, params and metrics are a contract (docs/recording.md). Read back are a run that is repeated, the papers' own
runs, and which runs a session that was killed left.
"""

import contextlib
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from suite.console import say
from suite.environment import kept
from suite.formats import FORMAT, check_format, left_out
from suite.tracking import RUNS, VARIABLE, is_server
from suite.tracking.database import alone, reason, refusal, refuse_others, sqlite_uri, tables
from suite.tracking.schema.leaderboard_view import ABOUT, UNQUOTABLE, share
from suite.tracking.schema.tags import PREFIX
from suite.yaml_files import writable
from trials.common.errors import UserError

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

from mlflow.entities import Experiment, Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.store.entities.paged_list import PagedList
from mlflow.tracking import MlflowClient

for _name in ("alembic", "mlflow"):
    logging.getLogger(_name).setLevel(logging.WARNING)
# Tracebacks of writes that fail: they are tried again, and the last failure is said.
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)


AT_ONCE = 1000
"""Runs or experiments that a store is asked for at once."""
LONGEST = 5000
"""Characters of a tag or param that every MLflow keeps. A longer tag is left out, a longer param is cut."""
NOTE = "mlflow.note.content"
"""MLflow's tag of descriptions."""
T = TypeVar("T")


class UnreadableError(UserError):
    """A tracking store answers no more, or with what no store of this version of MLflow holds."""


@dataclass(frozen=True)
class Record:
    """A recorded run: its tags without `PREFIX`, the last value of each metric, MLflow's status, and its experiment."""

    run_id: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]
    status: str
    experiment: str


class Store:
    """One MLflow tracking store: a SQLite file under the storage root, or a server.

    Raises `UserError` when the folder cannot be written or nobody answers at the URI.
    """

    def __init__(self, tracking_uri: str | None, storage: Path) -> None:
        self._left_out = False
        self.uri = tracking_uri or sqlite_uri(storage)
        self.options = []
        if storage != RUNS:
            self.options += ["--storage", str(storage)]
        if tracking_uri:
            self.options += ["--tracking-uri", tracking_uri]
        refuse_others(self.uri)
        if tracking_uri is None:
            with writable(storage):
                storage.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.artifacts = None if tracking_uri else (storage.resolve() / "artifacts").as_uri()
        with _patience(), contextlib.nullcontext() if tracking_uri else alone(storage):
            try:
                self.client = MlflowClient(self.uri)
                self.client.search_experiments(max_results=1)
            except Exception as error:
                named = tracking_uri and tracking_uri == os.environ.get(VARIABLE)
                whose = f" of {VARIABLE}" if named else ""
                raise UserError(
                    f"tracking store {self.uri}{whose} does not answer: {refusal(error)}"
                ) from None

    def experiment(self, study: str) -> str:
        """The id of a study's experiment, made when there is none."""
        found = self.client.get_experiment_by_name(study)
        if found is not None:
            if found.lifecycle_stage == "deleted":  # on MLflow's pages; its name stays taken
                self.client.restore_experiment(found.experiment_id)
            return str(found.experiment_id)
        made = str(self.client.create_experiment(study, self.artifacts))
        share(self.client, made)
        self.client.set_experiment_tag(made, NOTE, ABOUT.format(study=study))
        return made

    def share(self, experiment: str, sweep: str) -> None:
        """Keep the views of a sweep in MLflow."""
        share(self.client, experiment, sweep)

    def _experiments(self) -> list[Experiment]:
        """All experiments that are not deleted, newest first."""
        search = self.client.search_experiments
        return _every(lambda token: search(max_results=AT_ONCE, page_token=token))

    def _ids(self) -> list[str]:
        return [str(e.experiment_id) for e in self._experiments()]

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
        run = self.client.create_run(experiment, began, tags=own, run_name=name)
        return str(run.info.run_id)

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
        self.client.log_batch(
            run_id,
            metrics=metrics,
            params=[Param(name, str(value)[:LONGEST]) for name, value in (params or {}).items()],
            tags=[RunTag(*one) for one in _tags(tags or {}).items()],
        )

    def describe(self, run_id: str, text: str) -> None:
        """Set the description that MLflow's pages show on top of a run, in Markdown."""
        self.client.set_tag(run_id, NOTE, text[:LONGEST])

    def attach(self, run_id: str, path: Path, folder: str) -> None:
        """Keep a copy of a file with a run."""
        self.client.log_artifact(run_id, str(path), folder)

    def set_status(self, run_id: str, status: str) -> None:
        """RUNNING, or one of MLflow's terminal states, which also sets the end time."""
        if status == "RUNNING":
            self.client.update_run(run_id, status=status)
        else:
            self.client.set_terminated(run_id, status)

    def find(self, status: str = "", **tags: str) -> list[Record]:
        """Return the runs with these tags, and this status of MLflow's, in all experiments, oldest first. Those of another format are
        left out, which is said once.
        """
        asked = [f"tags.`{PREFIX}{k}` = '{v}'" for k, v in tags.items() if not set(v) & UNQUOTABLE]
        asked += [f"attributes.status = '{status}'"] * bool(status)
        found = self._found(" and ".join(asked))
        found = [r for r in found if all(r.tags.get(k) == v for k, v in tags.items())]
        read = [run for run in found if run.tags.get("format") == str(FORMAT)]
        if len(read) < len(found) and not self._left_out:
            self._left_out = True
            other = next(run for run in found if run not in read)
            say(f"{self.uri}: {left_out(_format(other.tags))}")
        return read

    def check_sweep(self, name: str) -> None:
        """Raise `FormatError` where a sweep of this name was recorded in another format."""
        kind = f"tags.`{PREFIX}kind` = 'sweep'"
        for run in self._found(kind):
            if run.tags.get("sweep") == name:
                check_format(f"sweep {name}", _format(run.tags), "choose another --name")

    def _found(self, where: str, most: int = 0) -> list[Record]:
        """Return the runs that MLflow's search finds; no more than `most`, if that is not 0."""
        with self._reading():
            ids = [str(e.experiment_id) for e in self._experiments()]
            runs = _every(
                lambda token: self.client.search_runs(
                    ids,
                    where,
                    max_results=most or AT_ONCE,
                    order_by=["attributes.start_time"],
                    page_token=token,
                ),
                once=bool(most),
            )
        return [_record(run) for run in runs]

    def get(self, run_id: str) -> Record:
        """Return the run of this id, or the one run whose id begins with it; raises `UserError` when there is
        none, or more than one, or it is of another format.
        """
        found = self.beginning_with(run_id) if run_id.isalnum() else []
        if not found:
            raise UserError(f"there is no run {run_id!r} in {self.uri}")
        if len(found) > 1:
            raise UserError(
                f"more than one run begins with {run_id!r} in {self.uri}: give more of it"
            )
        check_format(f"run {run_id}", _format(found[0].tags))
        return found[0]

    def beginning_with(self, run_id: str) -> list[Record]:
        """Return the first two runs whose ids begin with these letters and digits, but for deleted ones."""
        return self._found(f"attributes.run_id LIKE '{run_id}%'", 2)

    def curve(self, record: Record, metrics: Iterable[str]) -> list[dict[str, float]]:
        """Return these metrics of a run as its history: one entry a round at which any was recorded."""
        rounds: dict[int, dict[str, float]] = {}
        for metric in record.metrics.keys() & set(metrics):
            with self._reading():
                found = self.client.get_metric_history(record.run_id, metric)
            for point in found:
                rounds.setdefault(point.step, {"round": point.step})[metric] = point.value
        return [rounds[at] for at in sorted(rounds)]

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what MLflow says of a store that cannot be read into a message."""
        try:
            yield
        except MlflowException as error:
            raise UnreadableError(
                f"tracking store {self.uri} cannot be read: {reason(error)}"
            ) from None

    def delete(self, run_id: str) -> None:
        """Remove a half-written run."""
        self.client.set_terminated(run_id, "KILLED")
        self.client.delete_run(run_id)


def _format(tags: Mapping[str, str]) -> int | None:
    text = tags.get("format", "")
    return int(text) if text.isdecimal() else None


def _tags(tags: Mapping[str, Any]) -> dict[str, str]:
    """Return tags as MLflow holds them, but for those that are too long for it."""
    texts = {PREFIX + name: str(value) for name, value in tags.items()}
    return {name: text for name, text in texts.items() if len(text) <= LONGEST}


def _record(run: Run) -> Record:
    tags = run.data.tags.items()
    own = {name.removeprefix(PREFIX): text for name, text in tags if name.startswith(PREFIX)}
    info = run.info
    return Record(info.run_id, own, dict(run.data.metrics), info.status, info.experiment_id)


def _every(page_at: Callable[[str | None], PagedList[T]], once: bool = False) -> list[T]:
    """Return what a search of MLflow's finds, page after page."""
    found, token = list[T](), None
    while True:
        page = page_at(token)
        found += page
        token = page.token
        if not token or once:
            return found


def load_mlflow(tracking_uri: str | None) -> None:
    """Import what opening the store at `tracking_uri` (none: a local database) imports, so that a thread can
    open it while others import.
    """
    uri = tracking_uri or "sqlite://"
    if not is_server(uri):
        for name in ("mlflow.store.tracking.sqlalchemy_workspace_store", "alembic.config"):
            import_module(name)

        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import SQLAlchemyError

        with contextlib.suppress(SQLAlchemyError, ImportError):  # said when it is opened
            make_url(uri).get_dialect().import_dbapi()


def open_existing(tracking_uri: str | None, storage: Path) -> Store:
    """The store for reading; raises `UserError` when there is none yet."""
    database = storage / "mlflow.db"
    # MLflow would make its tables in a file without any, and a reader writes nothing.
    if tracking_uri is None and not (os.path.lexists(database) and tables(database.absolute())):
        raise UserError(
            f"there is no store {storage / 'mlflow.db'} yet: run `suite sweep quickstart`, "
            "or name another place with --storage or --tracking-uri"
        )
    return Store(tracking_uri, storage)


def attaching(tracking_uri: str | None, storage: Path) -> Callable[[str, Path], None]:
    """Return what keeps a copy of a report with a run; where the store has none to take it, that is said."""

    def attach(run_id: str, path: Path) -> None:
        try:
            open_existing(tracking_uri, storage).attach(run_id, path, "report")
        except (UserError, MlflowException, OSError) as error:
            say(f"the page is not kept with run {run_id} in MLflow: {reason(error)}")

    return attach


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """Ask a server again only once, and wait 5 seconds; for the first question, where a person waits."""
    names = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}
    with kept(*names):
        os.environ.update(names)
        yield
