"""How a sweep stands, read from its journal by another process than the one that runs it."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

from suite.configurations.warm_start import journaled
from suite.execution.stop_signal import WORDS, Control
from suite.search.sweep_search import SweepSearch
from suite.studies.study import Study, make_cells
from suite.sweeps.journal import begun, is_locked, peek
from suite.sweeps.paths import check_name
from trials.errors import UserError, unknown


def sweeps(storage: Path) -> list[str]:
    """Names of the sweeps under a storage root."""
    found = storage.glob("*/journal.jsonl")
    return sorted(path.parent.name for path in found if begun(path))


def status(storage: Path, name: str) -> dict[str, Any]:
    """Counts of a sweep. `running` says whether a process has its journal locked, as far as this
    machine can see; `idle_seconds` is the time since anything happened.

    Raises `UserError` when there is no such sweep.
    """
    folder = _folder(storage, name)
    path = folder / "journal.jsonl"
    events = peek(path)
    begin = [event for event in events if event["event"] == "begin"][-1]
    asks = {event["trial_id"]: event for event in events if event["event"] == "ask"}
    ends = {event["trial_id"]: event for event in events if event["event"] == "end"}
    kinds = Counter(event["event"] for event in events)
    study = Study.model_validate(begin["study"])
    cells = make_cells(study, f"sweep {name}")
    statuses = Counter(end.get("status", "failed") for end in ends.values())
    return {
        "name": name,
        "study": begin["study_name"],
        "running": is_locked(path),
        "cells": len(cells),
        "expected": SweepSearch(cells, study, begin["lag"], journaled(events)).planned,
        "asked": len(asks),
        "ended": len(ends),
        "recorded": len({e["trial_id"] for e in events if e["event"] == "recorded"}),
        **{key: statuses[key] for key in ("finished", "pruned", "diverged", "failed")},
        "died": kinds["died"],
        "sessions": kinds["begin"],
        "idle_seconds": round(time.time() - path.stat().st_mtime, 1),
        "asked_to": _asked(folder),
    }


def ask(storage: Path, name: str, word: str) -> bool:
    """Ask a running sweep to `stop` or `cancel`; False when no process of this machine runs it, which
    a process of another machine may, by the same storage.
    """
    folder = _folder(storage, name)
    try:
        Control(folder).ask(word)
    except OSError as error:
        raise UserError(f"storage {folder} cannot be written: {error.strerror}") from None
    return is_locked(folder / "journal.jsonl")


def _asked(folder: Path) -> str | None:
    word = Control(folder).asked
    return word if word in WORDS else None


def _folder(storage: Path, name: str) -> Path:
    check_name(name, "sweep")
    if name not in sweeps(storage):
        raise unknown(f"sweep in {storage}", name, sweeps(storage))
    return storage / name
