"""How a sweep stands, read from its journal by another process than the one that runs it."""

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from suite.execution.stop_signal import WORDS, Control
from suite.owned import others_hand
from suite.sweeps.events import Begun, replay
from suite.sweeps.journal import begun, broken, in_the_way, is_locked, peek
from suite.sweeps.paths import MARKER, check_name
from trials.errors import UserError, unknown
from trials.outcome import ENDINGS


def sweeps(storage: Path) -> list[str]:
    """Names of the sweeps under a storage root, those with a damaged journal included."""
    found = storage.glob("*/journal.jsonl")
    return sorted(path.parent.name for path in found if begun(path) or _damaged(path))


def _damaged(journal: Path) -> bool:
    return journal.with_name(MARKER).exists() and in_the_way(journal)


def status(storage: Path, name: str) -> dict[str, Any]:
    """Counts of a sweep. `running` says whether a process has its journal locked, as far as this
    machine can see; `idle_seconds` is the time since anything happened.

    Raises `UserError` when there is no such sweep, or its journal is damaged.
    """
    folder = _folder(storage, name)
    path = folder / "journal.jsonl"
    state = replay(peek(path), str(path))
    if state.begun is None:
        raise broken(str(path), 1, "the sweep has not begun")
    entries, planned = _sizes(state.begun, name)
    statuses = Counter(outcome.status for outcome in state.ended.values())
    return {
        "name": name,
        "study": state.begun.study_name,
        "running": is_locked(path),
        "cells": entries,
        "expected": planned,
        "asked": len({ask.trial_id for ask in state.asks}),
        "ended": len(state.ended),
        "recorded": len(state.recorded),
        **{status.value: statuses[status] for status in ENDINGS},
        "died": sum(map(len, state.deaths.values())),
        "sessions": state.sessions,
        "idle_seconds": round(time.time() - path.stat().st_mtime, 1),
        "asked_to": _asked(folder),
    }


def _sizes(begun: Begun, name: str) -> tuple[int, int]:
    """Entries and planned trials; earlier versions did not journal them."""
    if begun.cells is not None and begun.planned is not None:
        return begun.cells, begun.planned
    from suite.search.sweep_search import SweepSearch
    from suite.studies.entries import make_entries
    from suite.studies.study import Study

    study = Study.model_validate(begun.study)
    entries = make_entries(study, f"sweep {name}")
    return len(entries), SweepSearch(entries, study, begun.lag, begun.warm).planned


def ask(storage: Path, name: str, word: str) -> bool:
    """Ask a running sweep to `stop` or `cancel`; False when no process of this machine runs it, which
    a process of another machine may, by the same storage.
    """
    folder = _folder(storage, name)
    if os.getuid() and (whose := others_hand(folder / "journal.jsonl")):
        raise UserError(f"sweep {name} {whose}, and obeys nobody else")
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
