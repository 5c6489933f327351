"""The snapshot of a sweep from its journal's events and what its running trials report."""

import math
from collections import Counter

from reports.leaderboard.names import classes_of_files
from reports.snapshot import EntrySnapshot, Snapshot, Trial
from suite.search.trial import TrialRequest
from suite.studies.replicates import confirms_of, finals_of
from suite.sweeps.eta import Eta
from suite.sweeps.journal.events import SweepState, Tally
from suite.sweeps.running import Reported
from trials.engine import schedule
from trials.run.outcome import Status, TrialKind
from trials.run.scenario import Scenario


def snapshot(
    name: str, state: SweepState, reported: Reported, active: bool, asked_to: str
) -> Snapshot:
    """How far a sweep is: the same for the process that runs it and for those that read its files."""
    begun = state.begun
    assert begun is not None
    rate = (reported.per_second if active else None) or pace(state)
    names = classes_of_files(about["algorithm"] for about in begun.entries.values())
    repeats = _repeats(state)
    entries = []
    for entry_id, about in begun.entries.items():
        tally, finals = state.tallies.get(entry_id, Tally()), repeats.get(entry_id, [])
        ended = Counter(dict(tally.ended))
        over = [one for one in finals if one.trial_id in state.ended]
        ended.update((one.kind, state.ended[one.trial_id].status) for one in over)
        runs = {i: reported.trials[i] for i in reported.trials if i in tally.open and active}
        scores = tuple(score for score in tally.scores.copy().values() if score is not None)
        named = about["algorithm"]
        kept = [one for one in finals if one.kind == TrialKind.FINAL]
        planned, confirms = state.planned.get(entry_id, 0), confirms_of(begun.study)
        if len(kept) == finals_of(begun.study):
            # Fewer were confirmed where few trials ran to their end, more where the sweep grew.
            more = sum(n for (kind, _), n in ended.items() if kind == TrialKind.CONFIRM) - confirms
            planned = max(planned + min(0, more), ended.total() - max(0, more))
        entries.append(
            EntrySnapshot(
                entry_id=entry_id,
                algorithm=named,
                method=names.get(named, named),
                scenario=Scenario(*(about[part] for part in Scenario._fields)),
                metric=about["metric"],
                planned=planned,
                confirms=confirms,
                ended=dict(ended),
                running=runs,
                scores=scores,
                recorded=sum(one.trial_id in state.recorded for one in kept),
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
        attempts_died=sum(map(len, state.deaths.values())),
        spent=round(state.seconds, 3),
        trials=int(begun.study["trials"]),
        seeds=finals_of(begun.study),
        per_second=rate,
        processes=reported.processes if active else 0,
        shares=reported.shares if active else 0.0,
        entries=entries,
        failures=[(trial_id, how, why) for _, trial_id, how, why in state.failures],
        dashboard=reported.dashboard,
        experiment=reported.experiment,
        hardware=reported.hardware if active else "",
    )


def trials(seen: Snapshot, state: SweepState) -> list[Trial]:
    """All trials that were handed out, the last one first."""
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


def _repeats(state: SweepState) -> dict[str, list[TrialRequest]]:
    """The runs that repeat the best configuration of each entry."""
    found: dict[str, list[TrialRequest]] = {}
    for group in state.finals.values():
        found.setdefault(group[0].entry_id, []).extend(group)
    return found


def pace(state: SweepState) -> float | None:
    """Trials per second in the last session."""
    if not state.ends:
        return None
    found = Eta()
    found.begin(min(state.ends), 1.0, state.full)
    return found.rate(max(state.ends), len(state.ends))
