"""What of a sweep is in its tracking store: runs of the sweep, its entries, its trials, its leaderboard."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reports.leaderboard.leaderboard import Leaderboard, Row
from reports.leaderboard.wording import mean_text
from reports.page.tuning import importance
from suite.configurations.configuration import SIGN, Tuned
from suite.configurations.library import tuned_of
from suite.console import say
from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.search.sweep_search import SweepSearch
from suite.search.trial import Ask, End, Known
from suite.studies.entry import Entry
from suite.studies.study import Study
from suite.sweeps.glance import numbers, title
from suite.tracking.record import Record
from suite.tracking.store import Store
from suite.tracking.tags import RunKind, run_tags, spec_params, versions, written
from suite.yaml_files import foreign, write_whole
from trials import schedule
from trials.metrics import reach, score
from trials.outcome import Kind, Outcome, Status


class Ledger:
    """Writes the runs of one sweep, each once; what it says of a trial is enough to replay it.

    `recorded` maps trials to the runs that hold them, as far as it is known; `warm` are the
    configurations that entries started from.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        study_name: str,
        study: Study,
        search: SweepSearch,
        warm: Mapping[str, Sequence[Known]],
        recorded: Mapping[str, str],
    ) -> None:
        self.store, self.name, self.search, self.warm = store, name, search, warm
        self.study_name, self.study = study_name, study
        self.entries = {of.entry.id: of.entry for of in search.firsts}
        self.recorded = dict(recorded)
        # An earlier session may have left a half-written run of these in the store.
        self._maybe_recorded = set(search.asks)
        self._shown: dict[str, tuple[str, int]] = {}

    def open(self) -> None:
        """Find or make the runs of the sweep and its entries, which are the parents of the trials'."""
        store, name = self.store, self.name
        self.experiment = store.experiment(self.study_name)
        common = {**written(study=self.study_name, sweep=name), **versions()}
        study = written(
            kind=RunKind.SWEEP,
            study_json=self.study.model_dump(mode="json"),
            opening=self.search.opening,
        )
        found = [record.run_id for record in store.find(sweep=name, kind=RunKind.SWEEP)]
        self.sweep_run = (
            found[0] if found else store.create(self.experiment, name, {**common, **study})
        )
        store.log(self.sweep_run, tags=study)
        entries = {
            record.tags.cell: record.run_id for record in store.sound(sweep=name, kind=RunKind.CELL)
        }
        for entry in self.entries.values():
            own = written(kind=RunKind.CELL, space=entry.space.searched)
            if entry.id not in entries:
                tags = {**common, **identity(entry), **own}
                entries[entry.id] = store.create(self.experiment, entry.name, tags, self.sweep_run)
            else:  # a version before may have begun it, which recorded less
                store.log(entries[entry.id], tags=own)
        self.entry_runs = {entry_id: entries[entry_id] for entry_id in self.entries}
        for record in store.find(sweep=name, kind=RunKind.RUNNING):  # of a session that was killed
            store.delete(record.run_id)
        self.close("RUNNING")

    def close(self, status: str) -> None:
        """Set the status of the runs of the sweep and its entries; trials that still run are shown no more."""
        for run_id, _ in self._shown.values():
            self.store.delete(run_id)
        self._shown.clear()
        for run_id in [*self.entry_runs.values(), self.sweep_run]:
            self.store.set_status(run_id, status)

    def delete(self) -> None:
        """Remove the runs of the sweep and its entries."""
        for run_id in [*self.entry_runs.values(), self.sweep_run]:
            self.store.delete(run_id)

    def missing(self, trial_ids: Iterable[str]) -> list[str]:
        """Which of these trials have no run in the store; all, when the store was lost."""
        there = {record.run_id for record in self.store.sound(sweep=self.name)}
        return [trial_id for trial_id in trial_ids if self.recorded.get(trial_id) not in there]

    def record(self, ask: Ask, outcome: Outcome) -> str:
        """Write one ended trial: once, whatever an earlier attempt left behind. Its run."""
        store, trial_id = self.store, ask.trial_id
        entry, spec = self.entries[ask.cell], self.search.spec(ask)
        target = None if ask.counted else self.study.target
        reached: Mapping[str, float] = {}
        if target is not None and not outcome.lost(f"test_{entry.task.metric}"):
            reached = reach(outcome.history, entry.task.metric, target)
        # Of a write that fails nothing is shown any more: the next one begins anew.
        run_id, seen = self._shown.pop(trial_id, ("", -1))
        shown = bool(run_id)
        if not shown and trial_id in self._maybe_recorded:
            for record in store.find(sweep=self.name, trial_id=trial_id):
                store.delete(record.run_id)
        self._maybe_recorded.add(trial_id)
        tags = {
            **identity(entry, ask.params),
            **run_tags(_recorded_as(ask), spec, outcome),
            **written(
                confirm=True if ask.kind == Kind.CONFIRM else None,
                study=self.study_name,
                sweep=self.name,
                trial_id=trial_id,
                source=ask.source,
                origin=ask.origin,
                metric=entry.task.metric,
                target=self.study.target,
                reached=None if target is None else bool(reached),
                sampler=self.study.sampler,
                scheduler=self.study.scheduler,
                params=ask.params,
            ),
            **self._circumstances(ask, outcome),
        }
        if not shown:
            parent = self.entry_runs[entry.id]
            run_id = store.create(self.experiment, _name(entry, ask), tags, parent, outcome.seconds)
        scores = _scores(ask, outcome, entry)
        if scores and "rounds_to_target" in self.study.costs:
            cost = self.search.entries[ask.search].candidates.cost(
                End.of(outcome), "rounds_to_target"
            )
            scores[0]["rounds_to_target"] = cost
        if scores:
            scores[0] |= reached
        news = [entry for entry in outcome.history if entry["round"] > seen]
        store.log(run_id, spec_params(spec), [*news, *scores], tags if shown else None)
        store.set_status(run_id, "FAILED" if outcome.status == Status.FAILED else "FINISHED")
        self.recorded[trial_id] = run_id
        return run_id

    def show(self, ask: Ask, history: list[dict[str, float]]) -> None:
        """Write what a running trial reported and is not there yet, in a run that no reader of results
        counts before it is recorded.
        """
        trial_id, entry = ask.trial_id, self.entries[ask.cell]
        run_id, seen = self._shown.get(trial_id, ("", -1))
        if not run_id:
            tags = {
                **identity(entry, ask.params),
                **written(
                    kind=RunKind.RUNNING,
                    study=self.study_name,
                    sweep=self.name,
                    trial_id=trial_id,
                    origin=ask.origin,
                    metric=entry.task.metric,
                    seed=ask.seed,
                    params=ask.params,
                ),
                **versions(),
            }
            parent = self.entry_runs[entry.id]
            run_id = self.store.create(self.experiment, _name(entry, ask), tags, parent)
            self._maybe_recorded.add(trial_id)
            self._shown[trial_id] = run_id, seen
        news = [entry for entry in history if entry["round"] > seen]
        self.store.log(run_id, history=news)
        if news:
            self._shown[trial_id] = run_id, int(news[-1]["round"])

    def _circumstances(self, ask: Ask, outcome: Outcome) -> dict[str, str]:
        """Tags of what is not so in every sweep."""
        search, study = self.search.entries[ask.search], self.study
        candidates, entry, of = search.candidates, search.entry, search.replicate
        warm = [known.source for known in self.warm.get(entry.id, [])]
        return written(
            tuning=of.tuning or None,
            deal=of.deal or None,
            split=of.split or None,
            warm_start="; ".join(filter(None, warm)) or None,
            pareto=study.traded,
            joint=", ".join(entry.apart) or None,
            feasible=candidates.feasible(entry, End.of(outcome)) if entry.constraints else None,
        )

    def harvest(self, finals: Mapping[str, Outcome], folder: Path) -> Leaderboard | None:
        """Leaderboard runs of all entries and tuned files below a folder, from the final runs of what is
        best now; those of former bests are set aside. None when no entry has a final run.

        The former rows are removed last, so that there are some whenever this is cut off.
        """
        store, name, board = self.store, self.name, None
        found, former = store.sound(sweep=name), store.find(sweep=name, kind=RunKind.LEADERBOARD)
        by_entry: dict[str, list[Record]] = defaultdict(list)
        # What comes back first: at no moment is an entry without final runs.
        for record in sorted(found, key=lambda run: run.tags.kind != RunKind.SUPERSEDED):
            trial_id, kind = record.tags.get("trial_id", ""), record.tags.kind
            by_entry[record.tags.get("cell", "")].append(record)
            if self.recorded.get(trial_id, record.run_id) != record.run_id:
                store.delete(record.run_id)  # a request that a server took, and lost the answer to
            elif trial_id in finals and kind == RunKind.SUPERSEDED:
                store.log(
                    record.run_id, tags=written(kind=_recorded_as(self.search.asks[trial_id]))
                )
            elif trial_id not in finals and kind in (RunKind.FINAL, RunKind.PARETO):
                store.log(record.run_id, tags=written(kind=RunKind.SUPERSEDED))
        if any(outcome.status != Status.FAILED for outcome in finals.values()):
            board = read_leaderboard(store, Query(name, target=self.study.target, interim=False))
            for place, row in enumerate(board.rows):
                self._publish(row, tuned_of(by_entry[row.cell], row), place, folder)
        for record in former:
            store.delete(record.run_id)
        self.close("FINISHED")
        return board

    def _publish(self, row: Row, tuned: Tuned, place: int, folder: Path) -> None:
        """One leaderboard row as a run of its own and as a tuned file; sorted by the tag `row`, such
        runs are the leaderboard.
        """
        store, name, entry = self.store, self.name, self.entries[row.cell]
        path = folder / tuned.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if foreign(path, SIGN):
            say(f"{path} stays: the suite did not write it. `suite tuned show` has what is tuned")
        else:
            write_whole(path, tuned.text())
        tags = {
            **identity(entry, row.params),
            **written(
                kind=RunKind.LEADERBOARD,
                study=self.study_name,
                sweep=name,
                tuned=tuned.text(),
                status=Status.FINISHED,
                row=f"{name} {place:04d}",
                score=mean_text(row),
                importance=self._importance(entry),
            ),
            **versions(),
        }
        run_id = store.create(
            self.experiment, title(row, len(self.study.models)), tags, self.entry_runs[entry.id]
        )
        about = f"{entry.name}: {row.metric} {mean_text(row)} over {row.seeds} seeds"
        store.describe(run_id, f"{about}\n\n```yaml\n{tuned.text()}```\n")
        store.log(run_id, row.params, [{**numbers(row), "round": 0}])
        store.set_status(run_id, "FINISHED")

    def _importance(self, entry: Entry) -> dict[str, float]:
        """What each hyperparameter mattered in the search, for reports."""
        searches = [of for of in self.search.entries.values() if of.entry is entry]
        ends = [(ask, of.ends.get(ask.trial_id)) for of in searches for ask in of.asks]
        points = [
            ({name: schedule.last(value) for name, value in ask.params.items()}, end.value)
            for ask, end in ends
            if end is not None and end.status == Status.FINISHED and end.value is not None
        ]
        return importance(points, entry.task.sign > 0)


def identity(entry: Entry, params: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The tags that say which question a run belongs to, and how a configuration (by default the
    anchor) is ranked there.
    """
    return written(
        cell=entry.id,
        cell_name=entry.name,
        algorithm=entry.algorithm,
        paper=entry.paper,
        reference=entry.reference(params),
        outside=entry.outside(params) or None,
        **entry.place.names(),
    )


def _name(entry: Entry, ask: Ask) -> str:
    number = f"trial {ask.index}" if ask.kind == Kind.SEARCH else f"seed {ask.seed}"
    return " · ".join(filter(None, (entry.name, ask.replicate, number)))


def _recorded_as(ask: Ask) -> RunKind:
    return RunKind.SEARCH if ask.counted else RunKind(ask.kind)


def _scores(ask: Ask, outcome: Outcome, entry: Entry) -> list[dict[str, float]]:
    """The scores that are compared, as one more history entry: means of the last three evaluations.

    A final run that is lost counts as the untrained model.
    """
    if not outcome.history:
        return []
    last = {"round": outcome.history[-1]["round"]}
    if outcome.value is not None:
        last["val_score"] = outcome.value
    if not ask.counted:
        metric = f"test_{entry.task.metric}"
        last["test_score"] = score(outcome.history, metric, outcome.lost(metric))
    return [last]
