"""A sweep's folder without training: a journal as a sweep writes it, for pages."""

from pathlib import Path
from typing import Any

from suite.search.trial import TrialRequest
from suite.sweeps.journal import events as journal
from suite.sweeps.journal.events import Begun, Event, Recorded, Requested
from tests.support.searches import a_study, entries_of
from trials.run.outcome import Status, TrialKind, TrialResult, trial_id

BAD = 7
"""Every such search trial diverges, at a large learning rate."""


def swept(storage: Path, name: str, trials: int = 30, rounds: int = 10, **study: Any) -> list[str]:
    """Write the journal of a sweep whose search trials have all ended but the last of each entry; the entries' ids."""
    study = {"algorithms": ["fedavg", "fedprox"], "trials": trials, "seeds": 2, **study}
    entries = entries_of(**study)
    content = a_study(**study).model_dump(mode="json")
    about = {entry.id: entry.about() for entry in entries}
    planned = {entry.id: trials + 2 for entry in entries}
    events: list[Event] = [
        Begun(study_name="study", study=content, lag=2, planned=planned, id="x", entries=about)
    ]
    for index in range(trials):
        for place, entry in enumerate(entries):
            request = asked(entry.id, index, place)
            events.append(Requested(request=request))
            if index < trials - 1:
                events += ended(request, index, rounds)
    folder = storage / name
    folder.mkdir(parents=True)
    lines = [f"{event.model_dump_json()}\n" for event in events]
    (folder / "journal.jsonl").write_text("".join(lines))
    return [entry.id for entry in entries]


def asked(entry: str, index: int, place: int) -> TrialRequest:
    """Search trial `index` of an entry; `place` is the entry's."""
    params: dict[str, Any] = {"lr": round(0.01 * (index + 1), 4)} | (
        {"mu": 0.1 / (index + 1)} if place % 2 else {}
    )
    if index % BAD == BAD - 1:
        params["lr"] = 100.0 + index
    name = trial_id(entry, TrialKind.SEARCH, index)
    return TrialRequest(name, entry, TrialKind.SEARCH, index, "sampled", params, 0, 0)


def ended(request: TrialRequest, index: int, rounds: int) -> list[Event]:
    """Its end, and its record."""
    score = 0.5 + index % 17 / 50
    history = [
        {"round": r, "val_accuracy": score * (r + 1) / (rounds + 1)} for r in range(rounds + 1)
    ]
    if index % BAD == BAD - 1:
        history[-1] = {"round": rounds, "val_accuracy": score, "val_loss": float("nan")}
        outcome = TrialResult(Status.DIVERGED, history, {rounds: score}, seconds=1.5)
    else:
        outcome = TrialResult(Status.FINISHED, history, {rounds: score}, seconds=1.5)
    run = f"{request.trial_id.replace('-', ''):0<32}"
    end = journal.ended(request.trial_id, outcome, at=float(index))
    return [*end, Recorded(trial_id=request.trial_id, run_id=run)]
