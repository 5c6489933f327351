"""What the pages show of sweeps: the journal as it grows, and the store where final runs are there."""

import json
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from reports.charts.data import ReportData
from reports.leaderboard.board import Leaderboard
from reports.page.compare import Compared
from reports.page.live import Live
from reports.page.page import build
from reports.snapshot import Curve, Snapshot, Trial

# Before a thread needs them: libraries that two threads import at once for the first time break.
from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.studies.entries import make_entries
from suite.studies.study import check_study
from suite.sweeps.journal.events import outcomes
from suite.sweeps.request import flat
from suite.sweeps.snapshot import trials
from suite.sweeps.status import Followed, sweeps
from suite.sweeps.tables import open_tables
from suite.tracking.schema.leaderboard_view import (
    curves_page,
    leaderboard_page,
    run_page,
    start_page,
)
from suite.tracking.store import open_existing
from trials.common.errors import UserError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

STORE_SECONDS = 5.0
"""How often the store is read at most while a sweep runs, and where it cannot be read."""
REST = 50
"""How many times as long as a reading of the store took the processor it is left alone while a sweep runs:
watching takes a fiftieth of a processor.
"""


class Views:
    """The sweeps below a storage root as pages show them; one thread at a time reads.

    `server` is where MLflow's pages are.
    """

    def __init__(self, storage: Path, tracking_uri: str | None, server: str) -> None:
        self.storage, self.tracking_uri, self.server = storage, tracking_uri, server
        self._lock = threading.Lock()
        self._followed: dict[str, Followed] = {}
        self._boards: dict[str | None, tuple[object, Leaderboard]] = {}
        self._reports: dict[str, tuple[object, str]] = {}
        self._experiments: dict[str, str] = {}
        self._known: dict[str, tuple[object, frozenset[str]]] = {}
        self._reader = ThreadPoolExecutor(1)
        self._reading: Future[None] | None = None
        self._retry = self._rested = 0.0

    def version(self, name: str) -> str:
        """What changes whenever anything of a sweep's page does."""
        with self._lock:
            known, _ = self._boards.get(name, (None, None))
            return json.dumps([self._follow(name).version, known])

    def sweep(self, name: str) -> Live:
        """A sweep as it is now; of one that does not run, with its leaderboard as it is now, too, whose reading is
        waited for. Raises `UserError` where there is none.
        """
        with self._lock:
            followed = self._follow(name)
            found = followed.refresh()
            whole = _whole(found)
            told = found.sessions, found.active, *whole
            board = self._board(name, told, found.active) if whole else None
            return replace(self._view(found, board), trials=trials(found, followed.state))

    def trial(self, name: str, trial: str) -> tuple[Live, Trial, Curve]:
        """A trial of a sweep, with its validation metric by round. Raises `UserError` where there is none."""
        with self._lock:
            followed = self._follow(name)
            seen = followed.refresh()
            found = {one.trial_id: one for one in trials(seen, followed.state)}
            if trial not in found:
                raise UserError(f"sweep {name!r} has no trial {trial!r}")
            own = found[trial]
            running = {k: v for entry in seen.entries for k, v in entry.running.items()}
            curve: Curve = running.get(trial, ())
            if end := outcomes(followed.journal, {trial}).get(trial):
                key = f"val_{own.metric}"
                curve = [(int(e["round"]), e[key]) for e in end.history if key in e]
            experiment = seen.experiment or self._experiments.get(seen.study)
            links = {}
            if experiment and own.run:
                links["MLflow"] = self.server + run_page(experiment, own.run)
            live = replace(self._view(seen, None), trials=[*found.values()], links=links)
            return live, own, curve

    def names(self) -> list[str]:
        """The sweeps that there are."""
        return sweeps(self.storage)

    def compared(self, name: str) -> Compared | None:
        """What of a sweep is compared with another's: how it stands, and its study; None of no name."""
        if not name:
            return None
        live = self.sweep(name)
        begun = self._followed[name].state.begun
        assert begun is not None
        return Compared(live, flat(check_study(begun.study, {}, f"sweep {name}")))

    def report(self, name: str) -> str:
        """The page of `suite report`, as the sweep is now."""
        with self._lock:
            seen = self._follow(name).refresh()
            told = seen.sessions, seen.active, seen.recorded
            known = self._reports.get(name)
        if known is None or known[0] != told:  # other pages do not wait for it
            known = self._reports[name] = told, self._reader.submit(self._report, name).result()
        return known[1]

    def _report(self, name: str) -> str:
        from suite.results.report import read

        tables = open_tables(self.storage)
        return build(read(tables, Query(name), self.server), (), still=False)[0]

    def mlflow(self) -> "ASGIApp":
        """MLflow's server of the store. Raises `UserError` where there is no store yet."""
        return self._reader.submit(self._mlflow).result()

    def _mlflow(self) -> "ASGIApp":
        from suite.tracking.mlflow_internals import server

        store = open_existing(self.tracking_uri, self.storage)
        # Without a place of ours MLflow's client puts artifacts in this folder of where it runs.
        return server(store.uri, store.artifacts or "mlruns")

    def home(self) -> tuple[list[Live], ReportData | None, list[str]]:
        """All sweeps, the leaderboard of all that the store holds, and what is wrong with the journals of
        sweeps that are not among them.
        """
        found: list[Live] = []
        faults = []
        with self._lock:
            for followed in map(self._follow, sweeps(self.storage)):
                try:
                    found.append(self._view(followed.refresh(), None))
                except UserError as error:
                    faults.append(str(error))
            told = tuple(
                (one.sweep.name, one.sweep.sessions, one.sweep.active, *_whole(one.sweep))
                for one in found
            )
            self._board(None, told, any(one.sweep.active for one in found))
        self._settled()
        _, board = self._boards.get(None, (None, None))
        shown = board is not None and (board.rows or board.interim)
        data = ReportData(board, server=self.server) if board is not None and shown else None
        return found, data, faults

    def _follow(self, name: str) -> Followed:
        if name not in self._followed or self._followed[name].replaced:
            if name not in sweeps(self.storage):
                raise UserError(f"there is no sweep {name!r} in {self.storage}")
            self._followed[name] = Followed(self.storage / name)
        return self._followed[name]

    def _board(self, name: str | None, told: object, running: bool) -> Leaderboard | None:
        """The leaderboard of a sweep, or of all. Where other scenarios are whole by now, or a session has begun or
        ended, it is read anew, in a thread of its own, since it takes seconds of large sweeps: while sweeps run nobody waits
        for that, and what was read last is shown; when none does, it is the last reading, and waited for.
        """
        known, board = self._boards.get(name, (None, None))
        if known == told:
            return board
        if not running:
            self._settled()
            if time.monotonic() >= self._retry:
                self._reading = self._reader.submit(self._read, name, told)
            self._settled()
        elif (self._reading is None or self._reading.done()) and time.monotonic() >= self._rested:
            self._reading = self._reader.submit(self._read, name, told)
        return self._boards.get(name, (None, board))[1]

    def _settled(self) -> None:
        """Wait for a reading that is under way."""
        if self._reading:
            self._reading.result()

    def _read(self, name: str | None, told: object) -> None:
        began = time.thread_time()
        self._retry = time.monotonic() + STORE_SECONDS
        with suppress(UserError):  # a scenario may be whole before any of another is
            tables = open_tables(self.storage).of(name)
            for facts in tables.facts.values():
                self._experiments[facts.study_name] = facts.experiment
            self._boards[name] = told, read_leaderboard(tables, Query(name))
            self._retry = 0.0
        took = time.thread_time() - began
        self._rested = time.monotonic() + max(STORE_SECONDS, REST * took)

    def _view(self, sweep: Snapshot, board: Leaderboard | None) -> Live:
        experiment = sweep.experiment or self._experiments.get(sweep.study)
        links = {"MLflow": self.server + start_page()}
        if experiment:
            links["MLflow"] = self.server + leaderboard_page(experiment, sweep.name)
            links["Curves"] = self.server + curves_page(experiment, sweep.name)
        if sweep.dashboard:
            links["Ray"] = sweep.dashboard
        return Live(sweep, self._references(sweep), board, links, self.server)

    def _references(self, sweep: Snapshot) -> frozenset[str]:
        """The ids of the entries that are shown without a rank."""
        begun = self._followed[sweep.name].state.begun
        known, found = self._known.get(sweep.name, (None, frozenset()))
        if begun is not None and known is not begun:
            study = check_study(begun.study, {}, f"sweep {sweep.name}")
            made = make_entries(study, f"sweep {sweep.name}")
            found = frozenset(entry.id for entry in made if entry.reference())
            self._known[sweep.name] = begun, found
        return found


def address(name: str) -> str:
    """The path of a sweep's page."""
    return f"/sweeps/{quote(name, safe='')}"


def _whole(sweep: Snapshot) -> tuple[str, ...]:
    """The scenarios whose final runs are all recorded."""
    return tuple(
        str(scenario)
        for scenario, entries in sweep.scenarios.items()
        if all(entry.recorded >= sweep.seeds for entry in entries)
    )
