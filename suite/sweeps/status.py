"""How far a sweep is: what its terminal draws, and what `suite status` reads of one that another process runs."""

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
from suite.sweeps.journal.events import SweepState, broken, check_first, sessions
from suite.sweeps.journal.file import begun, in_the_way, is_locked
from suite.sweeps.journal.paths import MARKER, STATUS, check_name
from suite.sweeps.running import Seen
from suite.yaml_files import write_whole
from trials.common.errors import UserError, unknown
from trials.common.files import plain
from trials.run.outcome import ENDINGS, TrialKind

JOURNAL = "journal.jsonl"


def standing(
    name: str,
    state: SweepState,
    active: bool,
    running: Mapping[str, Seen] | None = None,
    pace: float | None = None,
) -> dict[str, Any]:
    """Return how far a sweep is, as plain data, which its terminal and `suite status` show.

    `active` says whether a process runs it. That process alone knows what is `running`, and the `pace` in trials per
    second. `best` has a row an entry, `now` one a running trial.
    """
    begun = state.begun
    assert begun is not None
    trials = running or {}
    requests = {
        i: state.requested[i] for i in trials if i in state.requested and i not in state.ended
    }
    at_once = Counter(request.entry_id for request in requests.values())
    names = classes_of_files(about["algorithm"] for about in begun.entries.values())
    finals: dict[str, list[TrialRequest]] = defaultdict(list)
    for group in state.finals.values():
        finals[group[0].entry_id] += group
    rows = {}
    for entry_id, about in begun.entries.items():
        short = names.get(about["algorithm"], about["algorithm"]).rpartition(":")[2]
        row = {"entry_id": entry_id, **about, "name": short, "running": at_once[entry_id]}
        rows[entry_id] = row | _progress(state, entry_id, finals[entry_id])
    sums = Counter[str]()
    for row in rows.values():
        sums.update({key: row[key] for key in ("planned", "done", "running", *ENDINGS)})
    shares = sum(trials[i].round / trials[i].rounds for i in requests)
    left = sums["planned"] - sums["done"] - shares if sums["done"] < sums["planned"] else None
    return {
        "name": name,
        "study": begun.study_name,
        "running": active,
        "entries": len(rows),
        "expected": sums["planned"],
        "requested": len(state.requested),
        "running_trials": sums["running"],
        "ended": len(state.ended),
        "superseded": len(state.ended) - sums["done"],
        "recorded": len(state.recorded),
        **{status.value: sums[status] for status in ENDINGS},
        "died": state.kills + sum(map(len, state.deaths.values())),
        "trial_seconds": round(state.seconds, 3),
        "sessions": state.sessions,
        "per_minute": pace and round(60 * pace, 1),
        "seconds_left": round(left / pace, 1) if pace and left is not None else None,
        "best": list(rows.values()),
        "now": [
            {
                "trial_id": trial_id,
                "entry_id": request.entry_id,
                "name": rows[request.entry_id]["name"],
                "kind": request.kind.value,
                "params": request.params,
                **trials[trial_id]._asdict(),
                "metric": rows[request.entry_id]["metric"],
            }
            for trial_id, request in requests.items()
            if request.entry_id in rows
        ],
    }


def _progress(state: SweepState, entry_id: str, finals: Sequence[TrialRequest]) -> dict[str, Any]:
    """Return how many trials an entry has, of each status too, and its best search trial; `done` are those of what is
    planned, without final runs of a former best.
    """
    assert state.begun is not None
    tally, study = state.tallies[entry_id], state.begun.study
    planned, confirms = state.planned.get(entry_id, 0), confirms_of(study)
    counts = Counter(state.ended[i.trial_id].status for i in finals if i.trial_id in state.ended)
    for (_, status), count in tally.ended.items():
        counts[status] += count
    confirmed = sum(n for (kind, _), n in tally.ended.items() if kind == TrialKind.CONFIRM)
    done = counts.total() - max(0, confirmed - confirms)
    if len(finals) == finals_of(study):
        # Fewer were confirmed where few trials ran to their end, more where the sweep grew.
        planned = max(planned + min(0, confirmed - confirms), done)
    ends = {status.value: counts[status] for status in ENDINGS}
    return {"planned": planned, "done": done, **ends, "best": tally.best, "trials": tally.scored}


def sweeps(storage: Path) -> list[str]:
    """Return the names of the sweeps under a storage root, those with a damaged journal included."""
    return sorted(
        path.parent.name
        for path in storage.glob(f"*/{JOURNAL}")
        if begun(path) or (path.with_name(MARKER).exists() and in_the_way(path))
    )


def of_study(storage: Path, name: str) -> list[str]:
    """Return the sweeps under a storage root of a study that has not given one its own name."""
    names, own = sweeps(storage), []
    if name in names:
        return []
    for each in names:
        with suppress(UserError):  # a journal that is damaged is said where it is read
            if any(session.study_name == name for session in sessions(storage / each / JOURNAL)):
                own.append(each)
    return own


def status(storage: Path, name: str) -> dict[str, Any]:
    """Return the JSON document of `suite status`: how far a sweep is, and `idle_seconds`, the time since anything happened.

    Raises `UserError` when there is no such sweep, or its journal is damaged or of another version.
    """
    folder = _folder(storage, name)
    journal = plain(folder / JOURNAL, "journal")
    active = is_locked(journal)
    seen = _kept(folder)
    # What a process that runs says is a moment old; what one said that has ended is all, unless another one wrote on.
    if (
        seen is None
        or seen["running"] != active
        or not (active or seen["journal"] == _stamp(journal))
    ):
        state = SweepState().read(journal)
        if state.begun is None:
            raise broken(journal, 1, "the sweep has not begun")
        seen = standing(name, state, active)
    word = Control(folder).asked
    return {
        **{key: value for key, value in seen.items() if key != "journal"},
        "name": name,  # a folder may have been copied
        "idle_seconds": round(time.time() - journal.stat().st_mtime, 1),
        "asked_to": word if word in WORDS else None,
    }


def keep(folder: Path, seen: Mapping[str, Any]) -> None:
    """Write how far a sweep is beside its journal, for those who watch: nothing is rebuilt from it."""
    with suppress(OSError):  # no sweep ends because nobody can watch it
        text = json.dumps({**seen, "journal": _stamp(folder / JOURNAL)})
        write_whole(folder / STATUS, text)


def _kept(folder: Path) -> dict[str, Any] | None:
    """Return what `keep` wrote; None where that is nothing, or another file."""
    with suppress(OSError, ValueError, RecursionError):
        seen = json.loads((folder / STATUS).read_text(encoding="utf-8"))
        if isinstance(seen, dict) and seen.keys() >= {"running", "journal", "best", "now"}:
            return seen
    return None


def _stamp(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]


def ask(storage: Path, name: str, word: str) -> bool:
    """Ask a running sweep to `stop` or `cancel`; return False when no process of this machine runs it, which
    a process of another machine may, by the same storage.
    """
    folder = _folder(storage, name)
    try:
        Control(folder).ask(word)
    except OSError as error:
        raise UserError(f"storage {folder} cannot be written: {error.strerror}") from None
    return is_locked(folder / JOURNAL)


def _folder(storage: Path, name: str) -> Path:
    check_name(name, "sweep")
    if name not in sweeps(storage):
        raise unknown(f"sweep in {storage}", name, sweeps(storage))
    check_first(storage / name / JOURNAL)
    return storage / name
