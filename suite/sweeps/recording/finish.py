"""What a sweep brings in when it ends: leaderboard runs of its entries, and tuned files."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from reports.charts.tuning import importance
from reports.leaderboard.board import Leaderboard, Row
from reports.wording.words import mean_text
from suite.configurations.configuration import SIGN, Tuned, file_path
from suite.configurations.library import tuned_of
from suite.console import say
from suite.results.leaderboards import board_of, read_leaderboard
from suite.results.query import Held, Query
from suite.results.searched import Key, Searched, text
from suite.search.trial import ValidationResult
from suite.studies.entry import Entry
from suite.sweeps.recording.row_title import numbers, title
from suite.sweeps.recording.runs import SweepRecording, identity, recorded_as
from suite.tracking.record import Record
from suite.tracking.schema.leaderboard_view import METRICS
from suite.tracking.schema.tags import RunKind, Tags, versions, written
from suite.yaml_files import foreign, write_whole
from trials.common.files import plain
from trials.engine import schedule
from trials.run.outcome import Status
from trials.run.result import TrialResult


class Finish:
    """Leaderboard runs of all entries of a sweep, and tuned files below a folder."""

    def __init__(self, recording: SweepRecording, folder: Path) -> None:
        self.recording, self.folder = recording, folder
        self.store, self.name, self.study = recording.store, recording.name, recording.study

    def bring_in(
        self, ended: Mapping[str, TrialResult], scores: Mapping[str, float], finals: set[str]
    ) -> Leaderboard | None:
        """Write all of it, of how all trials `ended` and their test `scores`: from the `finals`, the final runs of what is best now;
        those of former bests are set aside. None when no entry has a final run.

        The former rows are removed last, so that there are some whenever this is cut off.
        """
        store, name, board = self.store, self.name, None
        former = store.find(sweep=name, kind=RunKind.LEADERBOARD)
        if self.recording.settled and self._there(former, ended, finals):
            return read_leaderboard(store, Query(name, target=self.study.target))
        for run_id, trial_id in store.trials(name).items():
            if self.recording.recorded.get(trial_id, run_id) != run_id:
                store.delete(run_id)  # a request that a server took, and lost the answer to
        self._set_aside(finals)
        searches = self._write_down(ended, scores)
        if any(ended[trial_id].status != Status.FAILED for trial_id in finals):
            query = Query(name, target=self.study.target, interim=False)
            held = Held.of(store, query, searches)
            board = board_of(store, query, held)
            for scenario, row in enumerate(board.rows):
                runs = [run for run in held.finals if run.tags.entry_id == row.entry_id]
                tuned = tuned_of(runs, searches[name, row.entry_id], row, board.rows)
                self._publish(row, tuned, scenario)
        for record in former:
            store.delete(record.run_id)
        self.recording.close("FINISHED")
        return board

    def _there(
        self, rows: list[Record], ended: Mapping[str, TrialResult], finals: set[str]
    ) -> bool:
        """Whether each entry with a final run has its row in the store, and its tuned file."""
        requests, entries = self.recording.search.requests, self.recording.entries
        due = {requests[i].entry_id for i in finals if ended[i].status != Status.FAILED}
        if not due or sorted(row.tags.get("entry_id", "") for row in rows) != sorted(due):
            return False
        files = (
            file_path(one.algorithm, one.scenario)
            for one in (entries[r.tags.entry_id] for r in rows)
        )
        texts = (_text(self.folder / path) for path in files)
        return all(text == row.tags.get("tuned") for text, row in zip(texts, rows, strict=True))

    def _set_aside(self, finals: Collection[str]) -> None:
        """Of the final runs let those count that are of what is best now, and no others."""
        store, name, requests = self.store, self.name, self.recording.search.requests
        if all(of.counted or i in finals for i, of in requests.items()):
            return  # nothing was ever the best but what is now
        # What comes back first: at no moment is an entry without final runs.
        for record in store.sound(sweep=name, kind=RunKind.SUPERSEDED):
            if (trial_id := record.tags.trial_id) in finals:
                kind = recorded_as(requests[trial_id])
                store.log(record.run_id, tags=written(kind=kind))
        for record in store.sound(sweep=name, kind=RunKind.FINAL):
            if record.tags.trial_id not in finals:
                store.log(record.run_id, tags=written(kind=RunKind.SUPERSEDED))

    def _write_down(
        self, ended: Mapping[str, TrialResult], scores: Mapping[str, float]
    ) -> dict[Key, list[Searched]]:
        """Write the search trials of each entry down with its run, for leaderboards, and give them."""
        entries, searches = self.recording.entries, self.recording.search.entries
        found: dict[Key, list[Searched]] = {(self.name, entry_id): [] for entry_id in entries}
        for trial_id, outcome in ended.items():
            request = self.recording.search.requests[trial_id]
            if request.counted:
                entry, candidates = entries[request.entry_id], searches[request.search].candidates
                keeps = not entry.constraints or candidates.feasible(ValidationResult.of(outcome))
                made = trial_id, request.origin, request.params
                one = Searched.ended(*made, outcome, scores.get(trial_id), keeps)
                found[self.name, request.entry_id].append(one)
        for (_, entry_id), trials in found.items():
            trials.sort(key=lambda one: one[:3])  # in whatever order they ended
            tags = {Tags.searched.name: text(trials)}
            self.store.log(self.recording.entry_runs[entry_id], tags=tags)
        return found

    def _publish(self, row: Row, tuned: Tuned, scenario: int) -> None:
        """One leaderboard row as a run of its own and as a tuned file; sorted by the tag `row`, such
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
            **identity(entry, row.params),
            **written(
                kind=RunKind.LEADERBOARD,
                study=self.recording.study_name,
                sweep=name,
                tuned=tuned.text(),
                status=Status.FINISHED,
                row=f"{name} {scenario:04d}",
                score=mean_text(row),
                importance=self._importance(entry),
            ),
            **versions(),
        }
        scenarios = [one.scenario for one in self.recording.entries.values()]
        apart = [i for i, parts in enumerate(zip(*scenarios, strict=True)) if len(set(parts)) > 1]
        run_id = store.create(
            self.recording.experiment,
            title(row, apart),
            tags,
            self.recording.entry_runs[entry.id],
        )
        about = f"{entry.name}: {row.metric} {mean_text(row)} over {row.seeds} seeds"
        store.describe(run_id, f"{about}\n\n```yaml\n{tuned.text()}```\n")
        store.log(run_id, row.params, [{**numbers(row), "round": 0}])
        told = {key: value for key, value in numbers(row).items() if key in METRICS}
        store.log(self.recording.entry_runs[entry.id], history=[{**told, "round": 0}])
        store.set_status(run_id, "FINISHED")

    def _importance(self, entry: Entry) -> dict[str, float]:
        """What each hyperparameter mattered in the search, for reports."""
        searches = [of for of in self.recording.search.entries.values() if of.entry is entry]
        ends = [
            (request, of.ends.get(request.trial_id)) for of in searches for request in of.requests
        ]
        points = [
            ({name: schedule.last(value) for name, value in request.params.items()}, end.value)
            for request, end in ends
            if end is not None and end.status == Status.FINISHED and end.value is not None
        ]
        return importance(points, entry.task.sign > 0)


def _text(path: Path) -> str | None:
    """What a file says; None where there is none that can be read."""
    with suppress(OSError, ValueError):
        return plain(path, "tuned file").read_text(encoding="utf-8")
    return None
