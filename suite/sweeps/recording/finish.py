"""What a sweep brings in when it ends: leaderboard runs of its entries, and tuned files."""

import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from reports.leaderboard.board import Leaderboard, Row
from reports.wording.words import mean_text
from suite.configurations.configuration import SIGN, Tuned, file_path
from suite.configurations.library import tuned_of
from suite.console import say
from suite.results.leaderboards import board_of
from suite.results.query import Query
from suite.sweeps.recording.row_title import numbers, title
from suite.sweeps.recording.runs import SweepRecording, row_tags
from suite.sweeps.recording.sweep_table import SweepTable
from suite.tracking.schema.tags import RunKind, versions
from suite.tracking.store import Record
from suite.yaml_files import foreign, write_whole
from trials.common.files import plain


class Finish:
    """Leaderboard runs of all entries of a sweep, and tuned files below a folder."""

    def __init__(self, recording: SweepRecording, folder: Path) -> None:
        self.recording, self.folder = recording, folder
        self.store, self.name, self.study = recording.store, recording.name, recording.study

    def bring_in(self, table: SweepTable, finals: set[str]) -> Leaderboard | None:
        """Write all of it, of the `table` of all trials: from the `finals`, the final runs of what is best now;
        those of former bests are set aside. None when no entry has a final run.

        The former rows are removed last, so that there are some whenever this is cut off.
        """
        store, name = self.store, self.name
        query = Query(name, target=self.study.target, interim=False)
        former = store.find(sweep=name, kind=RunKind.LEADERBOARD)
        if self.recording.settled and self._there(former, table):
            before = table.before
            assert before is not None
            rows = {entry.id: (entry.row, entry.tuned) for entry in before.facts.entries}
            table.brought_in = rows
            table.write(finals, before.facts.ended)
            tables = table.tables(finals)
            return board_of(tables, query) if former else None
        for run in store.find(status="RUNNING", sweep=name):
            if run.run_id != self.recording.sweep_run:
                store.delete(run.run_id)  # a request that a server took, and lost the answer to
        self._set_aside(finals)
        tables, board = table.tables(finals), None
        if (tables.finals["status"] != "failed").any():
            board = board_of(tables, query)
            for scenario, row in enumerate(board.rows):
                tuned = tuned_of(tables, row, board.rows)
                table.brought_in[row.entry_id] = self._publish(row, tuned, scenario), tuned.text()
        for record in former:
            store.delete(record.run_id)
        self.recording.close("FINISHED")
        table.write(finals, time.time())
        return board

    def _there(self, rows: list[Record], table: SweepTable) -> bool:
        """Return whether each entry with a tuned configuration has its row in the store, and its tuned file."""
        before = table.before
        if before is None or before.facts.ended is None:
            return False
        due = {entry.id: entry for entry in before.facts.entries if entry.tuned}
        if sorted(row.tags.get("entry_id", "") for row in rows) != sorted(due):
            return False
        places = {e.id: self.folder / file_path(e.algorithm, e.scenario) for e in due.values()}
        return all(_text(places[entry_id]) == entry.tuned for entry_id, entry in due.items())

    def _set_aside(self, finals: Collection[str]) -> None:
        """Of the final runs let those count that are of what is best now, and no others."""
        store, name, requests = self.store, self.name, self.recording.search.requests
        if all(of.counted or i in finals for i, of in requests.items()):
            return  # nothing was ever the best but what is now
        # What comes back first: at no moment is an entry without final runs.
        for run in store.find(sweep=name, kind=RunKind.SUPERSEDED):
            if run.tags["trial_id"] in finals:
                store.log(run.run_id, tags={"kind": RunKind.FINAL})
        for run in store.find(sweep=name, kind=RunKind.FINAL):
            if run.tags["trial_id"] not in finals:
                store.log(run.run_id, tags={"kind": RunKind.SUPERSEDED})

    def _publish(self, row: Row, tuned: Tuned, scenario: int) -> str:
        """Write one leaderboard row as a run of its own, whose id is returned, and as a tuned file; sorted by the tag `row`, such
        runs are the leaderboard.
        """
        store, name, entry = self.store, self.name, self.recording.entries[row.entry_id]
        path = self.folder / tuned.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if foreign(path, SIGN):
            say(
                f"{path} is kept: suite did not write it. `suite tuned show` prints the tuned configuration"
            )
        else:
            write_whole(path, tuned.text())
        tags = {
            **row_tags(entry, row.params),
            "kind": RunKind.LEADERBOARD,
            "study": self.recording.study_name,
            "sweep": name,
            "row": f"{name} {scenario:04d}",
            "score": mean_text(row),
            **versions(),
        }
        scenarios = [one.scenario for one in self.recording.entries.values()]
        apart = [i for i, parts in enumerate(zip(*scenarios, strict=True)) if len(set(parts)) > 1]
        run_id = store.create(
            self.recording.experiment,
            title(row, apart),
            tags,
            self.recording.sweep_run,
        )
        about = f"{entry.name}: {row.metric} {mean_text(row)} over {row.seeds} seeds"
        store.describe(run_id, f"{about}\n\n```yaml\n{tuned.text()}```\n")
        store.log(run_id, row.params, [{**numbers(row), "round": 0}])
        store.set_status(run_id, "FINISHED")
        return run_id


def _text(path: Path) -> str | None:
    """What a file says; None where there is none that can be read."""
    with suppress(OSError, ValueError):
        return plain(path, "tuned file").read_text(encoding="utf-8")
    return None
