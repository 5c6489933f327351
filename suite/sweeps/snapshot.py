"""The snapshot of a sweep from its journal's events and what its running trials report."""

import math
from collections import Counter, defaultdict

from reports.leaderboard.names import classes_of_files
from reports.snapshot import Curve, EntrySnapshot, Snapshot, Trial
from suite.search.trial import TrialRequest
from suite.studies.replicates import confirms_of, finals_of
from suite.sweeps.journal.events import SweepState
from suite.sweeps.running import Reported
from trials.engine import schedule
from trials.run.outcome import Status, TrialKind
from trials.run.scenario import Scenario


def snapshot(
    name: str, state: SweepState, reported: Reported, active: bool, asked_to: str
) -> Snapshot:
    """Return how far a sweep is: the same for the process that runs it and for those that read its files."""
    begun = state.begun
    assert begun is not None
    if not active:  # what was reported last is of trials that run no more
        reported = Reported(dashboard=reported.dashboard, experiment=reported.experiment)
    running: dict[str, dict[str, Curve]] = defaultdict(dict)
    for trial_id, curve in reported.trials.items():
        if trial_id in state.requested and trial_id not in state.ended:
            running[state.requested[trial_id].entry_id][trial_id] = curve
    repeats: dict[str, list[TrialRequest]] = defaultdict(list)
    for group in state.finals.values():
        repeats[group[0].entry_id] += group
    names = classes_of_files(about["algorithm"] for about in begun.entries.values())
    seeds, confirms = finals_of(begun.study), confirms_of(begun.study)
    entries = []
    for entry_id, about in begun.entries.items():
        finals, planned = repeats[entry_id], state.planned.get(entry_id, 0)
        ended = Counter(state.over.get(entry_id, {}))
        for final in finals:
            if final.trial_id in state.ended:
                ended[TrialKind.FINAL, state.ended[final.trial_id].status] += 1
        if len(finals) == seeds:
            # Fewer were confirmed where few trials ran to their end, more where the sweep grew.
            more = sum(n for (kind, _), n in ended.items() if kind == TrialKind.CONFIRM) - confirms
            planned = max(planned + min(0, more), ended.total() - max(0, more))
        scores = state.scores.get(entry_id, {}).values()
        entries.append(
            EntrySnapshot(
                entry_id=entry_id,
                algorithm=about["algorithm"],
                method=names.get(about["algorithm"], about["algorithm"]),
                scenario=Scenario(*(about[part] for part in Scenario._fields)),
                metric=about["metric"],
                planned=planned,
                confirms=confirms,
                ended=ended,
                running=running[entry_id],
                scores=tuple(score for score in scores if score is not None),
                recorded=sum(final.trial_id in state.recorded for final in finals),
            )
        )
    return Snapshot(
        name=name,
        study=begun.study_name,
        active=active,
        asked_to=asked_to,
        sessions=state.sessions,
        requested=len(state.requested),
        ended=len(state.ended),
        recorded=len(state.recorded),
        attempts_died=state.kills + sum(map(len, state.deaths.values())),
        spent=round(state.seconds, 3),
        trials=int(begun.study["trials"]),
        seeds=seeds,
        per_second=reported.per_second or state.pace,
        processes=reported.processes,
        shares=reported.shares,
        entries=entries,
        failures=list(state.failures),
        dashboard=reported.dashboard,
        experiment=reported.experiment,
        hardware=reported.hardware,
    )


def trials(seen: Snapshot, state: SweepState) -> list[Trial]:
    """Return all trials that were handed out, the last one first."""
    entries = {entry.entry_id: entry for entry in seen.entries}
    return [
        _trial(entries[request.entry_id], request, state)
        for request in reversed(state.requested.values())
        if request.entry_id in entries
    ]


def _trial(entry: EntrySnapshot, request: TrialRequest, state: SweepState) -> Trial:
    end, curve = state.ended.get(request.trial_id), entry.running.get(request.trial_id, ())
    status = end.status if end else Status.RUNNING if request.trial_id in entry.running else ""
    score = end.value if end and end.status == Status.FINISHED else None
    return Trial(
        trial_id=request.trial_id,
        entry_id=entry.entry_id,
        name=entry.name,
        scenario=entry.scenario,
        kind=request.kind,
        number=request.trial_id.removeprefix(f"{entry.entry_id}-"),
        origin=request.origin,
        status=status or "waiting",
        score=score if score is None or math.isfinite(score) else None,
        metric=entry.metric,
        rounds=end.last_round if end else curve[-1][0] if curve else None,
        seconds=end.seconds if end else None,
        seed=request.seed,
        params={name: schedule.last(value) for name, value in request.params.items()},
        reason=end.fault if end else "",
        run=state.recorded.get(request.trial_id, ""),
    )
