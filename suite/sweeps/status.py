"""How a sweep stands, read from its journal by another process than the one that runs it."""

import os
import time
from collections import Counter, defaultdict
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any

from suite.execution.stop_signal import WORDS, Control
from suite.permissions import others_hand
from suite.sweeps.eta import Eta
from suite.sweeps.journal.events import SweepState, replay
from suite.sweeps.journal.file import (
    begins,
    begun,
    broken,
    check_first,
    in_the_way,
    is_locked,
)
from suite.sweeps.journal.paths import MARKER, check_name
from trials.common.errors import UserError, unknown
from trials.run.outcome import ENDINGS, Status, TrialKind
from trials.scoring.metrics import TASKS, best_of


def sweeps(storage: Path) -> list[str]:
    """Names of the sweeps under a storage root, those with a damaged journal included."""
    found = storage.glob("*/journal.jsonl")
    return sorted(path.parent.name for path in found if begun(path) or _damaged(path))


def _damaged(journal: Path) -> bool:
    return journal.with_name(MARKER).exists() and in_the_way(journal)


def of_study(storage: Path, name: str) -> list[str]:
    """The sweeps under a storage root of a study that has not given one its own name."""
    names = sweeps(storage)
    if name in names:
        return []
    found = []
    for each in names:
        with suppress(UserError):  # a journal that is damaged is said where it is read
            first = begins(storage / each / "journal.jsonl")[:1]
            found += [each for line in first if line.get("study_name") == name]
    return found


def status(storage: Path, name: str) -> dict[str, Any]:
    """Counts of a sweep. `running` says whether a process has its journal locked, as far as this
    machine can see; `superseded` are final runs of a former best, among the `ended`; `idle_seconds` is the time since anything happened; `per_minute` is its pace in this
    session, and `seconds_left` what is left at it (None: not known, or it does not run); `best` has the best
    validation score of each entry.

    Raises `UserError` when there is no such sweep, or its journal is damaged or of another version.
    """
    folder = _folder(storage, name)
    path = folder / "journal.jsonl"
    state = replay(path, brief=True)
    if state.begun is None:
        raise broken(str(path), 1, "the sweep has not begun")
    planned = state.begun.planned
    running, rate = is_locked(path), pace(state)
    left = max(0, planned - state.done)
    statuses = Counter(outcome.status for outcome in state.ended.values())
    return {
        "name": name,
        "study": state.begun.study_name,
        "running": running,
        "entries": len(state.begun.entries),
        "expected": planned,
        "asked": len({ask.trial_id for ask in state.requests}),
        "ended": len(state.ended),
        "superseded": len(state.ended) - state.done,
        "recorded": len(state.recorded),
        **{status.value: statuses[status] for status in ENDINGS},
        "died": sum(map(len, state.deaths.values())),
        "sessions": state.sessions,
        "idle_seconds": round(time.time() - path.stat().st_mtime, 1),
        "asked_to": _asked(folder),
        "per_minute": None if rate is None else round(60 * rate, 1),
        "seconds_left": round(left / rate, 1) if rate and running else None,
        "best": _best(state),
    }


def pace(state: SweepState) -> float | None:
    """Trials per second in the last session."""
    if not state.ends:
        return None
    found = Eta()
    found.begin(min(state.ends), 1.0, state.full)
    return found.rate(max(state.ends), len(state.ends))


def _best(state: SweepState) -> list[dict[str, Any]]:
    """Each entry with the best validation score of its search trials that ran to their end (None: there is
    none yet), in the order of the study.
    """
    assert state.begun is not None
    of = {ask.trial_id: ask for ask in state.requests if ask.kind == TrialKind.SEARCH}
    scores: dict[str, list[float]] = defaultdict(list)
    for trial_id, outcome in state.ended.items():
        if trial_id in of and outcome.status == Status.FINISHED and outcome.value is not None:
            scores[of[trial_id].entry_id].append(outcome.value)
    found = []
    for entry_id, about in state.begun.entries.items():
        better = best_of(TASKS[about["metric"]].direction)
        best = reduce(better, scores[entry_id]) if scores[entry_id] else None
        found.append({"entry_id": entry_id, **about, "best": best, "trials": len(scores[entry_id])})
    return found


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
    check_first(storage / name / "journal.jsonl")
    return storage / name
