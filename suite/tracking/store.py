"""MLflow: what is recorded, by the driver alone, and how it is read back.

The names of tags, params and metrics are a contract (docs/recording.md).
"""

import contextlib
import logging
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from suite.owned import private
from suite.tracking import RUNS, is_server
from suite.tracking.database import alone, reason, refusal, refuse_others, sqlite_uri, tables
from suite.tracking.leaderboard_view import UNQUOTABLE, runs_page, share
from suite.tracking.names import grouped
from suite.tracking.reader import Histories, Reader
from suite.tracking.record import Record, recorded
from suite.tracking.tags import PREFIX, RunKind
from suite.yaml_files import writable
from trials.errors import UserError

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

for _name in ("alembic", "mlflow"):
    logging.getLogger(_name).setLevel(logging.WARNING)
# Tracebacks of writes that fail: they are tried again, and the last failure is said.
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)


AT_ONCE, EVERY = 1000, 2**31 - 1
"""Runs that a database is asked of at once, and a number that values are never as many as."""


class UnreadableError(UserError):
    """A tracking store answers no more, or with what no store of this version of MLflow holds."""


class Store(Reader):
    """One MLflow tracking store: a SQLite file under the storage root, or a server.

    Raises `UserError` when the folder cannot be written or nobody answers at the URI.
    """

    def __init__(self, tracking_uri: str | None, storage: Path) -> None:
        super().__init__()
        self.uri = tracking_uri or sqlite_uri(storage)
        self.options = []
        if storage != RUNS:
            self.options += ["--storage", str(storage)]
        if tracking_uri:
            self.options += ["--tracking-uri", tracking_uri]
        refuse_others(self.uri)
        if tracking_uri is None:
            with writable(storage):
                private(storage)
        self.artifacts = None if tracking_uri else (storage.resolve() / "artifacts").as_uri()
        with _patience(1, 5), contextlib.nullcontext() if tracking_uri else alone(storage):
            try:
                self.client = MlflowClient(self.uri)
                self.client.search_experiments(max_results=1)
            except Exception as error:
                raise UserError(
                    f"tracking store {self.uri} does not answer: {refusal(error)}"
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
        return made

    def experiments(self) -> dict[str, str]:
        """The id of each study's experiment."""
        return {e.name: str(e.experiment_id) for e in self.client.search_experiments()}

    def pages(self, server: str) -> list[tuple[str, str]]:
        """(name, address) of each sweep on MLflow's pages, opened as its leaderboard; of an experiment
        without sweeps, of it.
        """
        found = [e for e in self.client.search_experiments() if e.name != "Default"]
        sweeps = self.find(kind=RunKind.SWEEP)
        pages = []
        for experiment in found:
            number = str(experiment.experiment_id)
            names: list[str | None] = [
                run.tags.sweep for run in sweeps if run.tags.experiment_id == number
            ]
            for name in names or [None]:
                key = share(self.client, number, name)
                page = f"{server}{runs_page(number)}&viewStateShareKey={key}"
                pages.append((name or experiment.name, page))
        return pages

    def create(
        self,
        experiment: str,
        name: str,
        tags: Mapping[str, Any],
        parent: str | None = None,
        seconds: float = 0.0,
    ) -> str:
        """Start a run that began `seconds` ago; its id."""
        all_tags = {PREFIX + k: str(v) for k, v in tags.items() if v is not None}
        if parent:
            all_tags["mlflow.parentRunId"] = parent
        began = int((time.time() - seconds) * 1000)
        run = self.client.create_run(experiment, began, tags=all_tags, run_name=name)
        return str(run.info.run_id)

    def log(
        self,
        run_id: str,
        params: Mapping[str, Any] | None = None,
        history: list[dict[str, float]] | None = None,
        tags: Mapping[str, Any] | None = None,
    ) -> None:
        """Params, tags, and metrics with step = round, in one batch; what is not finite is left out."""
        now = int(time.time() * 1000)
        metrics = [
            Metric(grouped(key), float(value), now, int(entry["round"]))
            for entry in history or []
            for key, value in entry.items()
            if key != "round" and math.isfinite(value)
        ]
        self.client.log_batch(
            run_id,
            metrics=metrics,
            params=[Param(k, str(v)) for k, v in (params or {}).items()],
            tags=[RunTag(PREFIX + k, str(v)) for k, v in (tags or {}).items()],
        )

    def describe(self, run_id: str, text: str) -> None:
        """Set the description that MLflow's pages show on top of a run, in Markdown."""
        self.client.set_tag(run_id, "mlflow.note.content", text)

    def attach(self, run_id: str, path: Path, folder: str) -> None:
        """Keep a copy of a file with a run."""
        self.client.log_artifact(run_id, str(path), folder)

    def set_status(self, run_id: str, status: str) -> None:
        """RUNNING, or one of MLflow's terminal states, which also sets the end time."""
        if status == "RUNNING":
            self.client.update_run(run_id, status=status)
        else:
            self.client.set_terminated(run_id, status)

    def find(self, **tags: str) -> list[Record]:
        """Runs with these tags in all experiments, oldest first, with those that cannot be read."""
        plain = {k: v for k, v in tags.items() if not set(v) & UNQUOTABLE}
        where = " and ".join(f"tags.`{PREFIX}{k}` = '{v}'" for k, v in plain.items())
        found: list[Run] = []
        token: str | None = None
        with self._reading():
            wanted = [str(e.experiment_id) for e in self.client.search_experiments()]
            while True:
                page = self.client.search_runs(
                    wanted,
                    where,
                    max_results=1000,
                    order_by=["attributes.start_time"],
                    page_token=token,
                )
                found += page
                token = page.token
                if not token:
                    break
        records = [recorded(run) for run in found]
        return [r for r in records if all(r.tags.get(k) == v for k, v in tags.items())]

    def get(self, run_id: str) -> Record:
        """The run of this id, or the one run whose id begins with it; raises `UserError` when there is
        none, or more than one.
        """
        found = self._beginning_with(run_id) if run_id.isalnum() else []
        if not found:
            raise UserError(f"there is no run {run_id!r} in {self.uri}")
        if len(found) > 1:
            raise UserError(
                f"more than one run begins with {run_id!r} in {self.uri}: give more of it"
            )
        return recorded(found[0])

    def _beginning_with(self, run_id: str) -> list[Run]:
        """The first two runs whose ids begin with these letters and digits."""
        with self._reading():
            return list(
                self.client.search_runs(
                    [str(e.experiment_id) for e in self.client.search_experiments()],
                    f"attributes.run_id LIKE '{run_id}%'",
                    max_results=2,
                )
            )

    def history(self, run_id: str, metric: str) -> list[tuple[int, float]]:
        """(round, value) of a metric, in order of rounds; what was written twice is there once."""
        for name in dict.fromkeys((grouped(metric), metric)):
            with self._reading():
                found = self.client.get_metric_history(run_id, name)
            if found:
                return sorted({(m.step, m.value) for m in found})
        return []

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what MLflow says of a store that cannot be read into a message."""
        try:
            yield
        except MlflowException as error:
            raise UnreadableError(
                f"tracking store {self.uri} cannot be read: {reason(error)}"
            ) from None

    def histories(self, run_ids: Sequence[str], metric: str) -> Histories:
        """The `history` of a metric in each of these runs, by the run's id: in a question or two where the
        store is a database of this machine.
        """
        if is_server(self.uri):
            return super().histories(run_ids, metric)
        left, found = list(run_ids), dict[str, set[tuple[int, float]]]()
        for name in dict.fromkeys((grouped(metric), metric)):
            for first in range(0, len(left), AT_ONCE):
                some = left[first : first + AT_ONCE]
                with self._reading():
                    told = self._database.get_metric_history_bulk(some, name, EVERY)
                for one in told:
                    found.setdefault(one.run_id, set()).add((one.step, one.value))
            left = [run_id for run_id in left if run_id not in found]
        return found

    @cached_property
    def _database(self) -> Any:
        """MLflow's store of the database itself, which can be asked of several runs at once."""
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        return SqlAlchemyStore(self.uri, self.artifacts or "mlruns")  # where no run is begun

    def delete(self, run_id: str) -> None:
        """Remove a half-written run."""
        self.client.set_terminated(run_id, "KILLED")
        self.client.delete_run(run_id)


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


@contextlib.contextmanager
def _patience(retries: int, seconds: int) -> Iterator[None]:
    """Ask a server only so often and so long; for the first question, where a person waits."""
    names = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": retries, "MLFLOW_HTTP_REQUEST_TIMEOUT": seconds}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: str(value) for name, value in names.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
