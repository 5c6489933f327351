"""The snapshot of a sweep from its journal's events and what its running trials report."""

from reports.leaderboard.names import classes_of_files
from reports.snapshot import EntrySnapshot, Snapshot
from suite.studies.replicates import finals_of
from suite.sweeps.eta import Eta
from suite.sweeps.journal.events import SweepState, Tally
from suite.sweeps.running import Reported
from trials.run.outcome import TrialKind
from trials.run.scenario import Scenario


def snapshot(
    name: str, state: SweepState, reported: Reported, active: bool, asked_to: str
) -> Snapshot:
    """How far a sweep is: the same for the process that runs it and for those that read its files."""
    begun = state.begun
    assert begun is not None
    rate = pace(state)
    left = rate and active and state.done < begun.planned
    names = classes_of_files(about["algorithm"] for about in begun.entries.values())
    final: dict[str, int] = {}
    for (_, kind), group in state.finals.items():
        if kind == TrialKind.FINAL:
            there = {one.trial_id for one in group} & state.recorded.keys()
            final[group[0].entry_id] = final.get(group[0].entry_id, 0) + len(there)
    entries = []
    for entry_id, about in begun.entries.items():
        tally = state.tallies.get(entry_id, Tally())
        runs = {i: reported.trials[i] for i in reported.trials if i in tally.open and active}
        scores = tuple(score for score in tally.scores.copy().values() if score is not None)
        named = about["algorithm"]
        place = Scenario(*(about[part] for part in Scenario._fields))
        entries.append(
            EntrySnapshot(
                entry_id, named, names.get(named, named), place, about["metric"],
                dict(tally.ended), runs, scores, final.get(entry_id, 0),
            )
        )  # fmt: skip
    called = {entry.entry_id: f"{entry.name} · {entry.scenario}" for entry in entries}
    return Snapshot(
        name=name,
        study=begun.study_name,
        active=active,
        asked_to=asked_to,
        sessions=state.sessions,
        planned=begun.planned,
        requested=len(state.requested),
        ended=len(state.ended),
        superseded=len(state.ended) - state.done,
        recorded=len(state.recorded),
        attempts_died=sum(map(len, state.deaths.values())),
        spent=round(state.seconds, 3),
        trials=int(begun.study["trials"]),
        seeds=finals_of(begun.study),
        per_minute=None if rate is None else round(60 * rate, 1),
        seconds_left=round((begun.planned - state.done) / rate, 1) if left and rate else None,
        entries=entries,
        failures=[
            (f"{called.get(entry, entry)} · {trial_id.rpartition('-')[2]}", how, why)
            for entry, trial_id, how, why in state.failures
        ],
        dashboard=reported.dashboard,
        experiment=reported.experiment,
    )


def pace(state: SweepState) -> float | None:
    """Trials per second in the last session."""
    if not state.ends:
        return None
    found = Eta()
    found.begin(min(state.ends), 1.0, state.full)
    return found.rate(max(state.ends), len(state.ends))
