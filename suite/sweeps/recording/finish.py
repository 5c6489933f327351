"""What a sweep brings in when it ends: leaderboard runs of its entries, and tuned files."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from reports.leaderboard.board import Leaderboard, Row
from reports.wording.words import mean_text
from suite.configurations.configuration import SIGN, Tuned, file_path
from suite.configurations.library import tuned_of
from suite.console import say
from suite.results.leaderboards import board_of
from suite.results.query import Query
from suite.results.table import TableFacts
from suite.sweeps.recording.row_title import numbers, title
from suite.sweeps.recording.runs import SweepRecording, row_tags
from suite.sweeps.recording.sweep_table import SweepTable
from suite.tracking.faults import StoreError
from suite.tracking.schema.tags import RunKind, versions
from suite.yaml_files import foreign, write_whole
from trials.common.files import plain


class Finish:
    """Leaderboard runs of all entries of a sweep, and tuned files below a folder."""

    def __init__(
        self, recording: SweepRecording, folder: Path, refuse: Callable[[StoreError], object]
    ) -> None:
        self.recording, self.folder, self.refuse = recording, folder, refuse
        self.store, self.name, self.study = recording.store, recording.name, recording.study

    def bring_in(self, table: SweepTable, finals: set[str]) -> Leaderboard | None:
        """Write all of it, of the `table` of all trials: from the `finals`, the final runs of what is best now;
        those of former bests are set aside. None when no entry has a final run.

        The former rows are removed once there are new ones, which are RUNNING until the table names them: what is cut off
        before is removed by who resumes.
        """
        store, name, before = self.store, self.name, table.before
        query = Query(name, target=self.study.target, interim=False)
        former = [entry.row for entry in before.facts.entries if entry.row] if before else []
        if before is not None and self.recording.settled and self._there(before.facts):
            table.brought_in = {
                entry.id: entry.model_dump(include={"row", "tuned"})
                for entry in before.facts.entries
            }
            table.write(finals, before.facts.ended)
            tables = table.tables(finals)
            return board_of(tables, query) if former else None
        if self.recording.settled:
            store.set_status(self.recording.sweep_run, "RUNNING")
        for run_id in store.running(name):
            store.delete(run_id)  # a request that a server took, and lost the answer to
        self._set_aside(finals)
        tables, board = table.tables(finals), None
        if (tables.finals["status"] != "failed").any():
            board = board_of(tables, query)
            # MLflow shows the run that began last first: that is the first row.
            for place, row in reversed([*enumerate(board.rows)]):
                tuned = tuned_of(tables, row, board.rows)
                table.brought_in[row.entry_id] = {
                    "row": self._publish(row, tuned, place),
                    "tuned": tuned.text(),
                }
        for run_id in former:
            store.delete(run_id)
        table.write(finals, time.time())
        for brought_in in table.brought_in.values():
            if brought_in["row"]:
                store.set_status(brought_in["row"], "FINISHED")
        self.recording.close("FINISHED")
        return board

    def _there(self, facts: TableFacts) -> bool:
        """Return whether the sweep has ended, and each entry with a tuned configuration has its tuned file."""
        return facts.ended is not None and all(
            _text(self.folder / file_path(entry.algorithm, entry.scenario)) == entry.tuned
            for entry in facts.entries
            if entry.tuned
        )

    def _set_aside(self, finals: set[str]) -> None:
        """Of the final runs let those count that are of what is best now, and no others."""
        requests, recorded = self.recording.search.requests, self.recording.recorded
        ran = [trial_id for trial_id, of in requests.items() if not of.counted]
        if finals.issuperset(ran):
            return  # nothing was ever the best but what is now
        # What comes back first: at no moment is an entry without final runs.
        for trial_id in sorted(ran, key=lambda trial_id: trial_id not in finals):
            kind = RunKind.FINAL if trial_id in finals else RunKind.SUPERSEDED
            if run_id := recorded.get(trial_id):
                self.store.log(run_id, tags={"kind": kind})

    def _publish(self, row: Row, tuned: Tuned, place: int) -> str:
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
            "row": f"{name} {place:04d}",
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
        try:
            store.describe(run_id, f"{about}\n\n```yaml\n{tuned.text()}```\n")
            validated = tuned.scores.get(f"val_{tuned.task.metric}")
            scores = {"val_score": validated, "test_score": row.mean}
            known = {key: score for key, score in scores.items() if score is not None}
            store.log(run_id, row.params, [{**numbers(row), **known, "round": 0}])
        except StoreError as error:
            if error.passes:
                raise
            store.delete(run_id)
            self.refuse(error)
            return ""
        return run_id


def _text(path: Path) -> str | None:
    """What a file says; None where there is none that can be read."""
    with suppress(OSError, ValueError):
        return plain(path, "tuned file").read_text(encoding="utf-8")
    return None
