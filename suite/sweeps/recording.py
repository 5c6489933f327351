"""The MLflow runs of a sweep: one for the sweep, one for each of its trials, and one for each row of its leaderboard."""

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
from trials.common.mappings import only
from trials.run.outcome import Status, TrialKind, TrialResult
from trials.scoring.metrics import COUNTED, reach

LAST_ONLY = ("val_loss", "test_loss", "train_loss", *COUNTED)
"""Metrics of a search trial of which only the last value is recorded, unless it is 0: losses and counters of costs."""
RECORD_SECONDS = 600.0
"""The seconds for which a sweep waits, at its start and at its end, for a tracking server that does not answer."""
HASTE_SECONDS = 5.0
"""The seconds for which an interrupted or halted sweep still writes records after its trials have stopped."""
LOCAL_TRIES = 5
"""The number of failed writes in a row after which a store on this machine halts the sweep."""


class SweepRecording:
    """The writer of a sweep's runs to MLflow. It works in a thread of its own, so that no trial waits for MLflow.

    `put` adds a write to its queue. A write that fails is repeated until it succeeds, so it must be safe to repeat. A write
    that the store refuses is dropped, since it would be refused again. If writes to a store on this machine keep failing,
    `control` halts the sweep. `progress` shows what the thread waits for.
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
        self._created = self._given_up = False
        self._faults, self._since, self._refused = 0, 0.0, Counter[str]()
        self._queue: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self.put, self._stop = self._queue.put, threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def refusals(self) -> list[str]:
        """Return a line for each reason why the store refused writes, with the number of these writes."""
        return [f"{count} times: {text}" for text, count in self._refused.items()]

    def open(self, former: Collection[str]) -> list[str]:
        """Find or create the sweep's MLflow run. Return the ids of ended trials whose MLflow runs are missing or unfinished.
        Delete unfinished MLflow runs, and those with ids in `former`, unless the journal has their ids. Raise `UserError`
        if the store has another sweep of this name, and `HaltedError` if the store cannot be written.
        """
        until, tries = time.monotonic() + RECORD_SECONDS, 0
        while True:
            try:
                self._open_run()
                return self._unrecorded(former)
            except StoreError as error:
                tries += 1
                late = self.control.ending or time.monotonic() > until
                late = late or (is_local(self.store.uri) and tries == LOCAL_TRIES)
                if late or not error.passes:
                    why = f"tracking store {self.store.uri} cannot be written: {error.reason}"
                    raise HaltedError(why) from None
                self.progress.waiting = f"{error.reason}: trying again"
                time.sleep(1)

    def _open_run(self) -> None:
        runs, begun = self.store.sweeps(self.name), self.begun
        if runs and runs[0].tags.get("sweep_id") != begun.id:
            whose = "which another storage has, or whose folder is gone"
            ways = "choose another --name, or its --storage"
            raise UserError(f"{self.store.uri} holds another sweep {self.name!r}, {whose}: {ways}")
        self.experiment = self.store.experiment(begun.study_name)
        tags = {"kind": RunKind.SWEEP, **self._names, "sweep_id": begun.id, **begun.versions}
        if begun.code:
            tags["code"] = dumps(begun.code)
        self._created |= not runs
        if runs:
            self.sweep_run = runs[0].run_id
            self.store.log(self.sweep_run, tags=tags)
        else:
            self.sweep_run = self.store.create(self.experiment, self.name, tags)
        self.store.set_status(self.sweep_run, "RUNNING")

    def _unrecorded(self, former: Collection[str]) -> list[str]:
        state = self.state
        if self._created:  # the sweep is new, or its store was lost
            return [*state.ended]
        unfinished = set(self.store.running(self.name))
        # A killed session may have created runs before their ids were journaled, and a journal may have lost lines.
        journaled = {*state.recorded.values(), *state.rows.values(), ""}
        for run_id in unfinished.union(former) - journaled:
            self.store.delete(run_id)
        incomplete = {None, *unfinished}
        return [i for i in state.ended if state.recorded.get(i) in incomplete]

    def end(self) -> bool:
        """Wait for all queued writes, and return whether all are done. Give up after `RECORD_SECONDS` without a successful
        write, or after `HASTE_SECONDS` if the sweep was interrupted or halted.
        """
        self.put(None)
        self._since = began = time.monotonic()
        while self._thread.is_alive() and time.monotonic() - self._since <= RECORD_SECONDS:
            hasty = self.control.ending in (INTERRUPTED, "halted")
            if hasty and time.monotonic() - began > HASTE_SECONDS:
                break
            self._thread.join(0.1)
        written = not (self._given_up or self._thread.is_alive())
        self._stop.set()  # not before: the thread then drops all further writes
        return written

    def _work(self) -> None:
        while (write := self._queue.get()) is not None and not self._given_up:
            pause = 0.5
            while not self._stop.is_set() and not self._written(write):
                self._stop.wait(pause)
                pause = min(pause * 2, 10)

    def _written(self, write: Callable[[], object]) -> bool:
        """Try a write once. Return False if the write must be repeated."""
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
            # A server may answer again later. A fault of this machine, such as a full disk, stays until it is mended.
            why = f"{type(error).__name__}: {reason(error)}"
            away = isinstance(error, StoreError) and not is_local(self.store.uri)
            self.progress.waiting = f"{why}: trying again"
            self._faults += 1
            if self._faults >= LOCAL_TRIES and not away:
                self.control.halt(f"tracking store {self.store.uri} cannot be written: {why}")
        self._given_up = self.control.ending == "halted"
        return self._given_up

    def record(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Write the MLflow run of an ended trial: its tags, params and metrics."""
        spec = self.search.spec(request)
        tags = run_tags(RunKind.SEARCH if request.counted else RunKind.FINAL, spec, outcome)
        fields = ("trial_id", "entry_id", "replicate", "origin", "source")
        tags |= {name: getattr(request, name) for name in fields}
        is_search = request.kind == TrialKind.SEARCH
        number = f"trial {request.index}" if is_search else f"seed {request.seed}"
        parts = filter(None, (self.entries[request.entry_id].name, request.replicate, number))
        params = spec_params(spec)
        if request.counted:  # all other settings are those of the study
            params = only(params, {*spec.params, *request.params})
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
        """Replace the run `former` by a new run with this content. Journal the new id as an `event`. If the store refuses the
        content, delete the new run. Raise `StoreError` if the store fails or refuses.
        """
        if former:
            self.store.delete(former)
        tags = {tag: text for tag, text in (tags | self._names).items() if text}
        run_id = self.store.create(self.experiment, name, tags, self.sweep_run, seconds)
        self.journal.write(event(run_id=run_id))
        try:
            self.store.log(run_id, params, history)
            self.store.set_status(run_id, status)
        except StoreError as error:
            if not error.passes:  # so that a resumed sweep does not write it again
                self.store.delete(run_id)
                self.journal.write(event(run_id=""))
            raise

    def _metrics(self, request: TrialRequest, outcome: TrialResult) -> list[dict[str, Any]]:
        """Return a trial's metrics: a dict per evaluation, then one with the final scores. Trials of the search keep only
        curves of the ranking metric. Final runs also have the costs until the study's target was reached.
        """
        history, metric = outcome.history, self.entries[request.entry_id].task.metric
        if not history:
            return []
        scores = {"val_score": outcome.value, "test_score": outcome.tested(metric)}
        values = {name: score for name, score in scores.items() if score is not None}
        if request.counted:
            values |= {name: history[-1][name] for name in LAST_ONLY if history[-1].get(name)}
            curve = {"round", f"val_{metric}", f"test_{metric}"}
            history = [only(entry, curve) for entry in history]
        elif self.search.study.target is not None and not outcome.lost(f"test_{metric}"):
            values |= reach(history, metric, self.search.study.target)
        return [*history, {"round": outcome.last_round, **values}]

    def bring_in(self, table: TrialTable, folder: Path) -> tuple[Leaderboard | None, TableFacts]:
        """Rank the entries in `table`, and write each leaderboard row as an MLflow run and, below `folder`, as a configuration
        file. Tag the final runs of former best trials as superseded. Return the leaderboard (None if all final runs failed),
        and the table's facts about the sweep, now with each entry's MLflow run and tuned configuration.
        """
        ran = table.columns(["kind", "run_id"], ("final", "superseded"))
        if (ran["kind"] == "superseded").any():
            # Runs that are final again are marked first, so that an entry always has final runs.
            for row in each(ran[ran["run_id"] != ""].sort_values("kind", kind="stable")):
                self.store.log(row.run_id, tags={"kind": row.kind})
        tables, board, texts = Tables([table]), None, dict[str, str]()
        if (tables.finals["status"] != Status.FAILED).any():
            board = read_leaderboard(tables)
            # MLflow lists the newest run first, so the first row is written last.
            for position, row in reversed([*enumerate(board.rows)]):
                tuned = tuned_of(tables, row)
                texts[row.entry_id] = tuned.text()
                try:
                    self._publish(row, tuned, position, folder)
                except StoreError as error:
                    if error.passes:
                        raise
                    self._refused[str(error)] += 1
        for run_id in self.store.running(self.name):
            self.store.delete(run_id)  # a server created it, but its answer was lost
        entries = []
        for entry in table.facts.entries:
            row_facts = {"row": self.state.rows.get(entry.id, ""), "tuned": texts.get(entry.id, "")}
            entries.append(entry.model_copy(update=row_facts))
        # With these facts the table has everything that the journal has up to this length.
        size = self.journal.path.stat().st_size
        return board, table.facts.model_copy(update={"entries": entries, "journal": size})

    def _publish(self, row: Row, tuned: Tuned, position: int, folder: Path) -> None:
        """Write a row's tuned configuration to a file, and the row to an MLflow run. MLflow can sort runs by their tag `row`."""
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
            "row": f"{self.name} {position:04d}",
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
