"""MLflow: what is recorded, by the driver alone, and how it is read back.

The names of tags, params and metrics are a contract (docs/recording.md).
"""

import contextlib
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from suite.console import say
from suite.environment import kept
from suite.formats import FORMAT, check_format, left_out
from suite.tracking import RUNS, VARIABLE, is_server
from suite.tracking.database import alone, reason, refusal, refuse_others, sqlite_uri, tables
from suite.tracking.reader import Histories, Reader
from suite.tracking.record import Record, recorded, tags_of
from suite.tracking.schema.inherited import OF_TRIALS, inherits, shared_by
from suite.tracking.schema.leaderboard_view import ABOUT, UNQUOTABLE, share
from suite.tracking.schema.long_texts import parted, shortened
from suite.tracking.schema.names import grouped
from suite.tracking.schema.tags import PREFIX, RunKind
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


AT_ONCE, EVERY = 1000, 2**31 - 1
"""Runs or experiments that a store is asked for at once, and a number that values are never as many as."""
NOTE = "mlflow.note.content"
"""MLflow's tag of descriptions."""
T = TypeVar("T")


class UnreadableError(UserError):
    """A tracking store answers no more, or with what no store of this version of MLflow holds."""


class Store(Reader):
    """One MLflow tracking store: a SQLite file under the storage root, or a server.

    Raises `UserError` when the folder cannot be written or nobody answers at the URI.
    """

    def __init__(self, tracking_uri: str | None, storage: Path) -> None:
        super().__init__()
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
        with _patience(1, 5), contextlib.nullcontext() if tracking_uri else alone(storage):
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

    def experiments(self) -> dict[str, str]:
        """The id of each study's experiment."""
        return {e.name: str(e.experiment_id) for e in self._experiments()}

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
        """Start a run that began `seconds` ago; its id."""
        began, own = int((time.time() - seconds) * 1000), first_tags(tags, parent)
        run = self.client.create_run(experiment, began, tags=own, run_name=name)
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
            params=[Param(*one) for one in _texts(params or {}).items()],
            tags=[RunTag(PREFIX + name, text) for name, text in _texts(tags or {}).items()],
        )

    def describe(self, run_id: str, text: str) -> None:
        """Set the description that MLflow's pages show on top of a run, in Markdown."""
        self.client.set_tag(run_id, NOTE, shortened(text))

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
        """Runs with these tags in all experiments, oldest first, with those that cannot be read. Those of
        another format are left out, which is said once.
        """
        found = self._found(**tags)
        read = [run for run in found if run.tags.has_format]
        if len(read) < len(found) and not self._left_out:
            self._left_out = True
            other = next(run for run in found if not run.tags.has_format)
            say(f"{self.uri}: {left_out(other.tags.get('format'))}")
        return read

    def check_sweep(self, name: str) -> None:
        """Raise `FormatError` where a sweep of this name was recorded in another format."""
        for run in self._found(sweep=name, kind=RunKind.SWEEP):
            check_format(f"sweep {name}", run.tags.format, "choose another --name")

    def _found(self, **tags: str) -> list[Record]:
        """Runs with these tags of all formats."""
        with self._reading():
            where, wanted = self._where(tags), self._ids()
            if where is None:
                return []
            found = _every(
                lambda token: self.client.search_runs(
                    wanted,
                    where,
                    max_results=AT_ONCE,
                    order_by=["attributes.start_time"],
                    page_token=token,
                )
            )
            records = self._records(found)
        return [r for r in records if all(r.tags.get(k) == v for k, v in tags.items())]

    def _where(self, tags: Mapping[str, str]) -> str | None:
        """What MLflow's search is told of these tags; None where no run has them. In a database of this machine
        they are looked up, where they are few: MLflow joins all runs of a large sweep for it.
        """
        plain = {k: v for k, v in tags.items() if not set(v) & UNQUOTABLE}
        if plain and not is_server(self.uri):
            from suite.tracking.mlflow_internals import having

            runs = having(self._database, plain, AT_ONCE)
            if runs is not None:
                return f"attributes.run_id IN ({', '.join(map(repr, runs))})" if runs else None
        return " and ".join(f"tags.`{PREFIX}{k}` = '{v}'" for k, v in plain.items())

    def trials(self, sweep: str) -> dict[str, str]:
        """The trial that each run of a sweep is of, by the run's id; of a run of no trial "". Without those that
        cannot be read: in a database of this machine, which is not asked for more, by their configuration.
        """
        if is_server(self.uri):
            return {run.run_id: run.tags.get("trial_id", "") for run in self.sound(sweep=sweep)}
        from suite.tracking.mlflow_internals import trials

        with self._reading():
            return trials(self._database, sweep)

    def get(self, run_id: str) -> Record:
        """The run of this id, or the one run whose id begins with it; raises `UserError` when there is
        none, or more than one, or it is of another format.
        """
        found = self._beginning_with(run_id) if run_id.isalnum() else []
        if not found:
            raise UserError(f"there is no run {run_id!r} in {self.uri}")
        if len(found) > 1:
            raise UserError(
                f"more than one run begins with {run_id!r} in {self.uri}: give more of it"
            )
        with self._reading():
            run = self._records(found)[0]
        check_format(f"run {run_id}", run.tags.format)
        return run

    def _records(self, runs: Sequence[Run]) -> list[Record]:
        """Runs with what they inherit of their entries, each of which is asked for once."""
        entries: dict[str, dict[str, str]] = {}

        def shared(run: Run) -> dict[str, str]:
            entry = run.data.tags.get("mlflow.parentRunId", "")
            if not entry or not inherits(tags_of(run)):
                return {}
            if entry not in entries:
                of = tags_of(self.client.get_run(entry))
                entries[entry] = shared_by(of.get(OF_TRIALS, "{}"))
            return entries[entry]

        return [recorded(run, shared(run)) for run in runs]

    def _beginning_with(self, run_id: str) -> list[Run]:
        """The first two runs whose ids begin with these letters and digits."""
        with self._reading():
            return list(
                self.client.search_runs(
                    self._ids(),
                    f"attributes.run_id LIKE '{run_id}%'",
                    max_results=2,
                )
            )

    def history(self, run_id: str, metric: str) -> list[tuple[int, float]]:
        """(round, value) of a metric, in order of rounds; what was written twice is there once."""
        with self._reading():
            found = self.client.get_metric_history(run_id, grouped(metric))
        return sorted({(m.step, m.value) for m in found})

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
        """The `history` of a metric in each of these runs, by the run's id: in a question a
        thousand runs where the store is a database of this machine.
        """
        if is_server(self.uri):
            return super().histories(run_ids, metric)
        found: dict[str, set[tuple[int, float]]] = {}
        for first in range(0, len(run_ids), AT_ONCE):
            some = list(run_ids[first : first + AT_ONCE])
            with self._reading():
                told = self._database.get_metric_history_bulk(some, grouped(metric), EVERY)
            for one in told:
                found.setdefault(one.run_id, set()).add((one.step, one.value))
        return found

    @cached_property
    def _database(self) -> Any:
        """MLflow's store of the database itself, which can be asked of several runs at once."""
        from suite.tracking.mlflow_internals import database

        return database(self.uri, self.artifacts or "mlruns")  # where no run is begun

    def delete(self, run_id: str) -> None:
        """Remove a half-written run."""
        self.client.set_terminated(run_id, "KILLED")
        self.client.delete_run(run_id)


def first_tags(tags: Mapping[str, Any], parent: str | None) -> dict[str, str]:
    """The tags that a run has from its beginning, as MLflow holds them."""
    given = {"format": FORMAT, **tags}
    found = _texts({PREFIX + k: v for k, v in given.items() if v is not None})
    return found | ({"mlflow.parentRunId": parent} if parent else {})


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return parted({name: str(value) for name, value in values.items()})


def _every(page_at: Callable[[str | None], PagedList[T]]) -> list[T]:
    """What a search of MLflow's finds, page after page."""
    found, token = list[T](), None
    while True:
        page = page_at(token)
        found += page
        token = page.token
        if not token:
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
def _patience(retries: int, seconds: int) -> Iterator[None]:
    """Ask a server only so often and so long; for the first question, where a person waits."""
    names = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": retries, "MLFLOW_HTTP_REQUEST_TIMEOUT": seconds}
    with kept(*names):
        os.environ.update({name: str(value) for name, value in names.items()})
        yield
