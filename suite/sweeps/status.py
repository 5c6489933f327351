"""The progress of a sweep, as its terminal draws it, and as `suite status` reads it from another process."""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from reports.leaderboard.names import classes_of_files
from suite.execution.stop_signal import WORDS, Control
from suite.search.trial import TrialRequest
from suite.studies.replicates import confirms_of, finals_of
from suite.sweeps.journal.events import SweepState, begun, check_first, is_locked
from suite.sweeps.journal.paths import JOURNAL, STATUS
from suite.yaml_files import replacing, writing
from trials.common.errors import unknown
from trials.run.outcome import ENDINGS, Status, TrialKind

LEAST = 0.05
"""No pace is shown before this share of a trial is done, since it would say nothing of the time left."""


def standing(name: str, state: SweepState, active: bool) -> dict[str, Any]:
    """Return a sweep's progress as plain data: `best` has a row per entry, `now` a row per running trial. `active` says
    whether a process runs it; only that process knows what runs, and how fast.
    """
    begun = state.begun
    assert begun is not None
    running = state.running.copy() if active else {}  # another thread may add one
    names = classes_of_files(about["algorithm"] for about in begun.entries.values())
    finals: dict[str, list[TrialRequest]] = defaultdict(list)
    for group in state.finals.values():
        finals[group[0].entry_id] += group
    rows, sums = dict[str, dict[str, Any]](), Counter[str]()
    for entry_id, about in begun.entries.items():
        short = names.get(about["algorithm"], about["algorithm"]).rpartition(":")[2]
        row = {"entry_id": entry_id, **about, "name": short, "running": 0}
        row = rows[entry_id] = row | _progress(state, entry_id, finals[entry_id])
        sums.update({key: row[key] for key in ("planned", "done", *ENDINGS)})
    now, shares = [], 0.0
    for trial_id, (at, score) in running.items():
        request, rounds = state.requests[trial_id], begun.study["settings"]["rounds"]
        shares += at / rounds
        rows[request.entry_id]["running"] += 1
        row = {key: rows[request.entry_id][key] for key in ("entry_id", "name", "metric")}
        row |= {"trial_id": trial_id, "kind": request.kind.value, "params": request.params}
        now.append(row | {"round": at, "rounds": rounds, "score": score})
    # Workers start before the first trial does, and of little that is done nobody tells a pace.
    work, seconds = len(state.ended) - state.ended_before + shares, time.monotonic() - state.since
    pace = work / seconds if active and seconds > 0 and work >= LEAST else None
    left = sums["planned"] - sums["done"] - shares if sums["done"] < sums["planned"] else None
    return {
        "name": name,
        "study": begun.study_name,
        "running": active,
        "entries": len(rows),
        "expected": sums["planned"],
        "requested": len(state.requests),
        "running_trials": len(running),
        "ended": len(state.ended),
        "superseded": len(state.ended) - sums["done"],
        "recorded": len(state.recorded),
        **{status.value: sums[status] for status in ENDINGS},
        "died": state.kills + sum(map(len, state.deaths.values())),
        "per_minute": pace and round(60 * pace, 1),
        "seconds_left": round(left / pace, 1) if pace and left is not None else None,
        "best": list(rows.values()),
        "now": now,
    }


def _progress(state: SweepState, entry_id: str, finals: Sequence[TrialRequest]) -> dict[str, Any]:
    """Return how many trials an entry has, and its best search trial; final runs of a former best are not `done`."""
    assert state.begun is not None
    tally, study = state.tallies[entry_id], state.begun.study
    planned, confirms = state.planned.get(entry_id, 0), confirms_of(study)
    counts = Counter(state.ended[i.trial_id].status for i in finals if i.trial_id in state.ended)
    for (_, status), count in tally.items():
        counts[status] += count
    confirmed = sum(n for (kind, _), n in tally.items() if kind == TrialKind.CONFIRM)
    done = counts.total() - max(0, confirmed - confirms)
    if len(finals) == finals_of(study):
        # Fewer were confirmed where few trials ran to their end, more where the sweep grew.
        planned = max(planned + min(0, confirmed - confirms), done)
    ends = {status.value: counts[status] for status in ENDINGS}
    best, full = state.best.get(entry_id), tally[TrialKind.SEARCH, Status.FINISHED]
    return {"planned": planned, "done": done, **ends, "best": best, "trials": full}


def sweeps(storage: Path) -> list[str]:
    """Return the names of the sweeps under a storage root, those with a damaged journal included."""
    return sorted(path.parent.name for path in storage.glob(f"*/{JOURNAL}") if begun(path))


def status(storage: Path, name: str) -> dict[str, Any]:
    """Return the JSON document of `suite status`: how far a sweep is, and `idle_seconds`, the time since anything happened. Raises
    `UserError` when there is no such sweep, or its journal is damaged or of another version.
    """
    folder = _folder(storage, name)
    journal, seen = folder / JOURNAL, dict[str, Any]()
    active = is_locked(journal)
    with suppress(OSError, ValueError):  # what `keep` wrote may be damaged
        seen = json.loads((folder / STATUS).read_text(encoding="utf-8"))
    # What a process that runs says is a moment old; what one said that has ended is all, unless another one wrote on.
    size = journal.stat().st_size
    if seen.get("running") != active or not (active or seen.get("journal") == size):
        seen = standing(name, SweepState().read(journal), active)
    seen.pop("journal", None)
    word = Control(folder).asked
    return {
        **seen,
        "name": name,  # a folder may have been copied
        "idle_seconds": round(time.time() - journal.stat().st_mtime, 1),
        "asked_to": word if word in WORDS else None,
    }


def keep(folder: Path, seen: Mapping[str, Any]) -> None:
    """Write a sweep's progress beside its journal, for watchers only: nothing is rebuilt from it."""
    with suppress(OSError):  # no sweep ends because nobody can watch it
        size = (folder / JOURNAL).stat().st_size
        with replacing(folder / STATUS) as part:
            part.write_text(json.dumps({**seen, "journal": size}), encoding="utf-8")


def ask(storage: Path, name: str, word: str) -> bool:
    """Ask a running sweep to `stop` or `cancel`; return whether a process of this machine runs it."""
    folder = _folder(storage, name)
    with writing(folder):
        Control(folder).ask(word)
    return is_locked(folder / JOURNAL)


def _folder(storage: Path, name: str) -> Path:
    if name not in sweeps(storage):
        raise unknown(f"sweep in {storage}", name, sweeps(storage))
    check_first(storage / name / JOURNAL)
    return storage / name
