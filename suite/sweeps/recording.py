"""What people see of a sweep in MLflow: a run of the sweep, one of each of its trials, and one of each row of its leaderboard."""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from reports.leaderboard.board import Leaderboard, Row
from reports.wording.words import label, mean_text, rank_text
from suite.configurations.configuration import SIGN, Tuned
from suite.configurations.library import tuned_of
from suite.console import say
from suite.execution.stop_signal import INTERRUPTED, Control, HaltedError
from suite.results.leaderboards import read_leaderboard
from suite.results.table import TableFacts, Tables, TrialTable, each
from suite.search.sweep_search import SweepSearch
from suite.search.trial import TrialRequest
from suite.sweeps.journal.events import Event, Journal, Ranked, Recorded
from suite.sweeps.progress import Progress
from suite.tracking import StoreError, is_local, reason
from suite.tracking.store import Store
from suite.tracking.tags import RunKind, dumps, run_tags, spec_params, versions
from suite.yaml_files import write_files
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialKind, TrialResult
from trials.scoring.metrics import COUNTED, reach

LAST_ONLY = ("val_loss", "test_loss", "train_loss", *COUNTED)
"""Metrics of a search trial that are recorded at its end only: losses, and counters that are not 0."""
RECORD_SECONDS = 600.0
"""How long, in seconds, a sweep waits at its start and end for a tracking server that does not answer."""
HASTE_SECONDS = 5.0
"""How long, at most, an interrupted or halted sweep goes on recording once nothing runs."""
LOCAL_TRIES = 5
"""How often in a row a store on this machine may refuse a record before the sweep is halted."""


class SweepRecording:
    """The runs of one sweep, each written once, in a thread of their own, so that no trial waits for the store.

    Writes wait in a queue, and the journal has them. Each is tried again until it succeeds, so it must be repeatable. A
    write that the store refuses is dropped, since it would be refused again. A fault halts the sweep by its `control`;
    its `progress` shows what it waits for.
    """

    def __init__(
        self,
        store: Store,
        search: SweepSearch,
        journal: Journal,
        control: Control,
        progress: Progress,
    ) -> None:
        assert journal.state.begun is not None
        self.store, self.search, self.journal = store, search, journal
        self.control, self.progress = control, progress
        self.begun, self.state = journal.state.begun, journal.state
        self.name = journal.path.parent.name
        self.entries = {first.entry.id: first.entry for first in search.firsts}
        self._names = {"study": self.begun.study_name, "sweep": self.name}
        self._anew = self._given_up = False
        self._faults, self._since, self._refused = 0, 0.0, Counter[str]()
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self.put, self._stop = self._queue.put, threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def refusals(self) -> list[str]:
        """Return what the store refused, a line for each reason."""
        return [f"{count} times: {text}" for text, count in self._refused.items()]

    def open(self, former: Collection[str]) -> list[str]:
        """Find or make the run of the sweep, the parent of all others; return which of the trials that have ended lack a whole run.
        The sweep's table has the `former` runs; those that the journal does not know are removed. Raises `UserError` where
        the store has another sweep of its name, `HaltedError` where it cannot be written. It waits for a server.
        """
        until, tries = time.monotonic() + RECORD_SECONDS, 0
        while True:
            try:
                self._find()
                return self._missing(former)
            except StoreError as error:
                tries += 1
                late = self.control.ending or time.monotonic() > until
                late = late or (is_local(self.store.uri) and tries == LOCAL_TRIES)
                if late or not error.passes:
                    why = f"tracking store {self.store.uri} cannot be written: {error.reason}"
                    raise HaltedError(why) from None
                self.progress.waiting = f"{error.reason}: trying again"
                time.sleep(1)

    def _find(self) -> None:
        runs, begun = self.store.sweeps(self.name), self.begun
        if runs and runs[0].tags.get("sweep_id") != begun.id:
            whose = "which another storage has, or whose folder is gone"
            ways = "choose another --name, or its --storage"
            raise UserError(f"{self.store.uri} holds another sweep {self.name!r}, {whose}: {ways}")
        self.experiment = self.store.experiment(begun.study_name)
        tags = {"kind": RunKind.SWEEP, **self._names, "sweep_id": begun.id, **begun.versions}
        if begun.code:
            tags["code"] = dumps(begun.code)
        self._anew |= not runs
        if runs:
            self.sweep_run = runs[0].run_id
            self.store.log(self.sweep_run, tags=tags)
        else:
            self.sweep_run = self.store.create(self.experiment, self.name, tags)
        self.store.set_status(self.sweep_run, "RUNNING")

    def _missing(self, former: Collection[str]) -> list[str]:
        state = self.state
        if self._anew:  # the store was lost
            return [*state.ended]
        half = set(self.store.running(self.name))
        # Nobody knows what a killed session has begun and not journaled, nor of lines that the journal lost.
        journaled = {*state.recorded.values(), *state.rows.values(), ""}
        for run_id in half.union(former) - journaled:
            self.store.delete(run_id)
        lacking = {None, *half}
        return [i for i in state.ended if state.recorded.get(i) in lacking]

    def end(self) -> bool:
        """Wait until all is written, waiting is useless, or the user ends it; return whether all is written."""
        self.put(None)
        self._since = began = time.monotonic()
        while self._thread.is_alive() and time.monotonic() - self._since <= RECORD_SECONDS:
            hasty = self.control.ending in (INTERRUPTED, "halted")
            if hasty and time.monotonic() - began > HASTE_SECONDS:
                break
            self._thread.join(0.1)  # then look again
        written = not (self._given_up or self._thread.is_alive())
        self._stop.set()  # only now: it lets the thread end without having written
        return written

    def _work(self) -> None:
        while (write := self._queue.get()) is not None and not self._given_up:
            pause = 0.5
            while not self._stop.is_set() and not self._written(write):
                self._stop.wait(pause)
                pause = min(pause * 2, 10)

    def _written(self, write: Callable[[], object]) -> bool:
        """Try a write once; return whether it is settled (no other try is needed)."""
        try:
            write()
            self.progress.waiting, self._faults, self._since = "", 0, time.monotonic()
            return True
        except HaltedError as error:
            self.control.halt(str(error))
        except Exception as error:
            if isinstance(error, StoreError) and not error.passes:
                self._refused[str(error)] += 1
                return True
            # A server may come back; a store on this machine that refuses again and again has to be seen to.
            why = f"{type(error).__name__}: {reason(error)}"
            away = isinstance(error, StoreError) and not is_local(self.store.uri)
            self.progress.waiting = f"{why}: trying again"
            self._faults += 1
            if self._faults >= LOCAL_TRIES and not away:
                self.control.halt(f"tracking store {self.store.uri} cannot be written: {why}")
        self._given_up = self.control.ending == "halted"
        return self._given_up

    def record(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Write one ended trial."""
        spec = self.search.spec(request)
        tags = run_tags(RunKind.SEARCH if request.counted else RunKind.FINAL, spec, outcome)
        asked = ("trial_id", "entry_id", "replicate", "origin", "source")
        tags |= {name: getattr(request, name) for name in asked}
        searched = request.kind == TrialKind.SEARCH
        number = f"trial {request.index}" if searched else f"seed {request.seed}"
        parts = filter(None, (self.entries[request.entry_id].name, request.replicate, number))
        params = spec_params(spec)
        if request.counted:  # the settings are its study's, but for those that were searched
            params = _only(params, {*spec.params, *request.params})
        self._write_run(
            self.state.recorded.get(request.trial_id),
            partial(Recorded, trial_id=request.trial_id),
            " · ".join(parts),
            tags,
            params,
            self._metrics(request, outcome),
            status="FAILED" if outcome.status == Status.FAILED else "FINISHED",
            seconds=outcome.seconds,
        )

    def _write_run(
        self,
        former: str | None,
        event: Callable[..., Event],
        name: str,
        tags: dict[str, Any],
        params: Mapping[str, Any],
        history: list[dict[str, Any]],
        status: str = "FINISHED",
        seconds: float = 0.0,
    ) -> None:
        """Write a run in the place of the `former` one. An `event` journals its id before the rest is written."""
        if former:
            self.store.delete(former)
        tags = {tag: text for tag, text in (tags | self._names).items() if text}
        run_id = self.store.create(self.experiment, name, tags, self.sweep_run, seconds)
        self.journal.write(event(run_id=run_id))
        try:
            self.store.log(run_id, params, history)
            self.store.set_status(run_id, status)
        except StoreError as error:
            if not error.passes:  # so that no session tries it again
                self.store.delete(run_id)
                self.journal.write(event(run_id=""))
            raise

    def _metrics(self, request: TrialRequest, outcome: TrialResult) -> list[dict[str, Any]]:
        """Return the metrics to record of a trial's reports, and at its last round the scores that are compared. Search
        trials have only the curve of the ranked metric, final runs also the costs until the study's target.
        """
        history, metric = outcome.history, self.entries[request.entry_id].task.metric
        if not history:
            return []
        scores = {"val_score": outcome.value, "test_score": outcome.tested(metric)}
        values = {name: score for name, score in scores.items() if score is not None}
        if request.counted:
            values |= {name: history[-1][name] for name in LAST_ONLY if history[-1].get(name)}
            curve = {"round", f"val_{metric}", f"test_{metric}"}
            history = [_only(entry, curve) for entry in history]
        elif self.search.study.target is not None and not outcome.lost(f"test_{metric}"):
            values |= reach(history, metric, self.search.study.target)
        return [*history, {"round": outcome.last_round, **values}]

    def bring_in(self, table: TrialTable, folder: Path) -> tuple[Leaderboard | None, TableFacts]:
        """Write the leaderboard's rows as runs and as tuned files below a folder, and supersede final runs of former bests.
        Return the leaderboard (None when no entry has a final run), and the table's facts with each entry's run and tuned
        file.
        """
        ran = table.columns(["kind", "run_id"], ("final", "superseded"))
        if (ran["kind"] == "superseded").any():
            # What comes back first: at no moment is an entry without final runs.
            for row in each(ran[ran["run_id"] != ""].sort_values("kind", kind="stable")):
                self.store.log(row.run_id, tags={"kind": row.kind})
        tables, board, texts = Tables([table]), None, dict[str, str]()
        if (tables.finals["status"] != Status.FAILED).any():
            board = read_leaderboard(tables)
            # MLflow shows the run that began last first: that is the first row.
            for place, row in reversed([*enumerate(board.rows)]):
                tuned = tuned_of(tables, row)
                texts[row.entry_id] = tuned.text()
                try:
                    self._publish(row, tuned, place, folder)
                except StoreError as error:
                    if error.passes:
                        raise
                    self._refused[str(error)] += 1
        for run_id in self.store.running(self.name):
            self.store.delete(run_id)  # a request that a server took, and lost the answer to
        entries = []
        for entry in table.facts.entries:
            shown = {"row": self.state.rows.get(entry.id, ""), "tuned": texts.get(entry.id, "")}
            entries.append(entry.model_copy(update=shown))
        # What was journaled here says nothing that the table lacks.
        size = self.journal.path.stat().st_size
        return board, table.facts.model_copy(update={"entries": entries, "journal": size})

    def _publish(self, row: Row, tuned: Tuned, place: int, folder: Path) -> None:
        """Write one leaderboard row as a tuned file, and as a run; sorted by the tag `row`, such runs are the leaderboard."""
        entry, path = self.entries[row.entry_id], folder / tuned.path
        try:
            write_files({path: tuned.text().encode()}, SIGN)
        except UserError as error:
            say(f"{error}. `suite tuned show` prints the tuned configuration")
        tags = {
            "entry_id": entry.id,
            "algorithm": entry.algorithm,
            "paper": entry.paper,
            **entry.scenario.names(),
            "kind": RunKind.LEADERBOARD,
            "row": f"{self.name} {place:04d}",
            "score": mean_text(row),
            "outside": entry.outside(row.params),
            **versions(),
        }
        values = asdict(row) | {"val_score": tuned.score("val"), "test_score": row.mean, "round": 0}
        numbers = {name: value for name, value in values.items() if isinstance(value, int | float)}
        # As in `1 · fedprox 0.9509 ± 0.0033 · digits logreg iid`.
        name = f"{rank_text(row)} · {label(row)} {mean_text(row)} · {' '.join(row.scenario)}"
        event = partial(Ranked, entry_id=entry.id)
        self._write_run(self.state.rows.get(entry.id), event, name, tags, row.params, [numbers])


def _only(values: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}
