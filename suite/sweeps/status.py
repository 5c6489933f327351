"""The progress of a sweep as plain data, for its own terminal and for `suite status` in another process."""

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
"""The share of a trial that must be done before a pace is shown, since less work predicts nothing."""


def standing(name: str, state: SweepState, active: bool) -> dict[str, Any]:
    """Return a sweep's progress as plain data. `best` has a row per entry, and `now` a row per running trial. `active` says
    whether a process runs the sweep. Only that process knows the running trials and the pace.
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
    for trial_id, (last_round, score) in running.items():
        request, rounds = state.requests[trial_id], begun.study["settings"]["rounds"]
        shares += last_round / rounds
        rows[request.entry_id]["running"] += 1
        row = {key: rows[request.entry_id][key] for key in ("entry_id", "name", "metric")}
        row |= {"trial_id": trial_id, "kind": request.kind.value, "params": request.params}
        now.append(row | {"round": last_round, "rounds": rounds, "score": score})
    # `since` is when the first trial began. Workers need seconds to start before.
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
    """Return an entry's best score, and how many of its trials have each status. Final runs count only if they are in `finals`."""
    assert state.begun is not None
    tally, study = state.tallies[entry_id], state.begun.study
    planned, confirms = state.planned.get(entry_id, 0), confirms_of(study)
    counts = Counter(state.ended[f.trial_id].status for f in finals if f.trial_id in state.ended)
    for (_, status), count in tally.items():
        counts[status] += count
    confirmed = sum(n for (kind, _), n in tally.items() if kind == TrialKind.CONFIRM)
    done = counts.total() - max(0, confirmed - confirms)
    if len(finals) == finals_of(study):
        # Fewer trials were confirmed if few had finished, and more if the sweep grew.
        planned = max(planned + min(0, confirmed - confirms), done)
    ends = {status.value: counts[status] for status in ENDINGS}
    best, finished = state.best.get(entry_id), tally[TrialKind.SEARCH, Status.FINISHED]
    return {"planned": planned, "done": done, **ends, "best": best, "trials": finished}


def sweeps(storage: Path) -> list[str]:
    """Return the sorted names of the sweeps in the folder `storage`, including sweeps with a damaged journal."""
    return sorted(path.parent.name for path in storage.glob(f"*/{JOURNAL}") if begun(path))


def status(storage: Path, name: str) -> dict[str, Any]:
    """Return the progress of a sweep, as `suite status --json` prints it. Also return the seconds since the journal changed,
    and any request to stop or cancel the sweep. Raise `UserError` if the sweep is unknown or its journal cannot be read.
    """
    folder = _folder(storage, name)
    journal, progress = folder / JOURNAL, dict[str, Any]()
    active = is_locked(journal)
    with suppress(OSError, ValueError):  # the file may be damaged
        progress = json.loads((folder / STATUS).read_text(encoding="utf-8"))
    # The status file is current while the sweep runs, and afterwards as long as the journal does not grow.
    size = journal.stat().st_size
    if progress.get("running") != active or not (active or progress.get("journal") == size):
        progress = standing(name, SweepState().read(journal), active)
    progress.pop("journal", None)
    word = Control(folder).asked
    return {
        **progress,
        "name": name,  # a folder may have been copied
        "idle_seconds": round(time.time() - journal.stat().st_mtime, 1),
        "asked_to": word if word in WORDS else None,
    }


def keep(folder: Path, progress: Mapping[str, Any]) -> None:
    """Write a sweep's progress to the status file in `folder`, for other processes to read. Ignore write errors."""
    with suppress(OSError):  # the sweep itself does not need the file
        size = (folder / JOURNAL).stat().st_size
        with replacing(folder / STATUS) as part:
            part.write_text(json.dumps({**progress, "journal": size}), encoding="utf-8")


def ask(storage: Path, name: str, word: str) -> bool:
    """Ask a running sweep to end, with `word` "stop" or "cancel". Return whether a process on this machine runs the sweep."""
    folder = _folder(storage, name)
    with writing(folder):
        Control(folder).ask(word)
    return is_locked(folder / JOURNAL)


def _folder(storage: Path, name: str) -> Path:
    if name not in sweeps(storage):
        raise unknown(f"sweep in {storage}", name, sweeps(storage))
    check_first(storage / name / JOURNAL)
    return storage / name
