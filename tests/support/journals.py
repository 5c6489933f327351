"""Journals of a small sweep, written line by line."""

from pathlib import Path

from suite.search.trial import TrialRequest
from suite.sweeps.journal import events as journal
from suite.sweeps.journal.events import Event, Requested
from trials.run.outcome import Status, TrialKind, TrialResult

STUDY = {"algorithms": ["fedavg", "fedprox"], "trials": 3, "seeds": 2}


def line(event: Event) -> bytes:
    return event.model_dump_json().encode() + b"\n"


def asked(entry: str, index: int, kind: TrialKind = TrialKind.SEARCH) -> Requested:
    request = {"kind": kind, "index": index, "origin": "sampled", "params": {"lr": 0.1}}
    source = None if kind == TrialKind.SEARCH else f"{entry}-s0000"
    trial = f"{entry}-s{index:04d}" if kind == TrialKind.SEARCH else f"{entry}-f0000-{index}"
    return Requested(
        request=TrialRequest(trial, entry, **request, seed=0, partition_seed=0, source=source)
    )


def ended(
    request: Requested, at: float, value: float | None, status: Status = Status.FINISHED
) -> list[Event]:
    scores = {} if value is None else {50: value}
    history = [{"round": r, "val_accuracy": 0.1} for r in (0, 50)]
    error = "ValueError: no\n" if status == Status.FAILED else ""
    outcome = TrialResult(status, history=history, intermediates=scores, error=error)
    return journal.ended(request.request.trial_id, outcome, at=at)


def add(folder: Path, *events: Event | list[Event], torn: bytes = b"") -> None:
    """Append events, or lists of some."""
    flat = [one for event in events for one in (event if isinstance(event, list) else [event])]
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b"".join(map(line, flat)) + torn)
