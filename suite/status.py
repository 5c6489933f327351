"""How a sweep stands, read from its journal by another process than the one that runs it."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

from suite.control import WORDS, Control
from suite.journal import is_locked, peek
from suite.search import SweepSearch
from suite.study import Study, make_cells
from suite.warm import journaled
from trials.errors import UserError, unknown


def sweeps(storage: Path) -> list[str]:
    """Names of the sweeps under a storage root."""
    return sorted(path.parent.name for path in storage.glob("*/journal.jsonl"))


def status(storage: Path, name: str) -> dict[str, Any]:
    """Counts of a sweep. `running` says whether a process has its journal locked, as far as this
    machine can see; `idle_seconds` is the time since anything happened.

    Raises `UserError` when there is no such sweep.
    """
    folder = _folder(storage, name)
    path = folder / "journal.jsonl"
    events = peek(path)
    begun = [event for event in events if event["event"] == "begin"]
    asks = {event["trial_id"]: event for event in events if event["event"] == "ask"}
    ends = {event["trial_id"]: event for event in events if event["event"] == "end"}
    kinds = Counter(event["event"] for event in events)
    document: dict[str, Any] = {"name": name, "study": None, "running": is_locked(path)}
    if begun:
        study = Study.model_validate(begun[-1]["study"])
        cells = make_cells(study, f"sweep {name}")
        expected = SweepSearch(cells, study, begun[-1]["lag"], journaled(events)).planned
        document |= {"study": begun[-1]["study_name"], "cells": len(cells), "expected": expected}
    statuses = Counter(end.get("status", "failed") for end in ends.values())
    return {
        **document,
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
    if name not in sweeps(storage):
        raise unknown(f"sweep in {storage}", name, sweeps(storage))
    return storage / name
