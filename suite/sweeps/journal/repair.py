"""A damaged journal made one again: lines that do not belong are set aside, and what they said is taken
from the store's records, as far as it is there.
"""

import itertools
import math
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from suite.console import say
from suite.formats import FormatError
from suite.search.sweep_search import SweepSearch
from suite.search.trial import TrialRequest
from suite.studies.entries import make_entries
from suite.studies.study import Study
from suite.sweeps.journal.events import (
    Begun,
    Died,
    Ended,
    Event,
    Recorded,
    Requested,
    SweepState,
    read_raw,
)
from suite.sweeps.journal.file import alone, line, refuse_others
from suite.sweeps.journal.paths import MARKER, SweepPaths
from suite.tracking.schema.tags import RunKind
from suite.tracking.store import Record, Store, open_existing
from suite.yaml_files import writable
from trials.common.errors import UserError
from trials.run.result import TrialResult
from trials.run.trial_id import TrialId
from trials.scoring.metrics import DERIVED, score

ASIDE = "journal-aside-{}.jsonl"
TRIALS = (RunKind.SEARCH, RunKind.FINAL, RunKind.PARETO, RunKind.SUPERSEDED)
"""Runs that record a sweep's trials."""
Found = tuple[bytes, Event | None]
"""A line, and the event that it says; None where it says none."""


def repair(paths: SweepPaths) -> None:
    """Mend the journal of a sweep that nobody runs, and say what was done; nothing where it is sound.

    Lines are taken in their order, and those that came too early again after the others, until none can
    be added; then, search by search, one record of the store, and so on. A trial of which neither knows runs again.
    Raises `UserError` where too little is left, or another version began it.
    """
    path = paths.journal
    if not (path.exists() and (path.with_name(MARKER).exists() or paths.begun)):
        return
    refuse_others(path)
    with alone(path), writable(paths.folder):
        lines = path.read_bytes().split(b"\n")[:-1]
        state, kept = SweepState(), list[bytes]()
        left = _add(state, [(raw, _event(path, raw)) for raw in lines], kept)
        if kept == lines:
            return
        sound = len(kept)
        told = _records(open_existing(paths.tracking_uri, paths.storage), paths.name)
        left = _complete(state, left, told, kept)
        if state.begun is None:
            raise UserError(
                f"journal {path} does not say how the sweep began, and neither does the store: move the "
                "folder away, or choose another --name"
            )
        aside = next(
            p for n in itertools.count(1) if not (p := path.with_name(ASIDE.format(n))).exists()
        )
        aside.write_bytes(b"".join(raw + b"\n" for raw, _ in left))
        part = path.with_suffix(".part")
        made = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # as a journal is made
        with os.fdopen(made, "wb") as file:
            file.write(b"".join(raw + b"\n" for raw in kept))
            file.flush()
            os.fsync(made)
        part.replace(path)
    ended = len(state.ended)
    say(
        f"journal {path}: {len(left)} of {len(lines)} lines are set aside in {aside.name}, "
        f"{len(kept) - sound} events are from the store's records; {ended} trials have ended"
    )


def _event(path: Path, raw: bytes) -> Event | None:
    try:
        return read_raw(path, 0, raw)
    except FormatError:
        raise
    except ValueError:
        return None


def _add(state: SweepState, found: Iterable[Found], kept: list[bytes]) -> list[Found]:
    """Add what can be, line after line, until nothing can; what is left."""
    left = list(found)
    while True:
        rest = []
        for raw, event in left:
            try:
                if event is None:
                    raise ValueError
                state.add(event)
                kept.append(raw)
            except ValueError:
                rest.append((raw, event))
        if len(rest) == len(left):
            return rest
        left = rest


def _complete(
    state: SweepState, left: Iterable[Found], told: Iterable[Found], kept: list[bytes]
) -> list[Found]:
    """Add what can be of lines and, where none can, of the store's records; the lines that are left. No
    event of a search waits for one of another, so each is completed by itself: first what is of none.
    """
    searches: dict[str, tuple[list[Found], list[Found]]] = {"": ([], [])}
    for found, place in ((left, 0), (told, 1)):
        for one in found:
            searches.setdefault(_search(one[1]), ([], []))[place].append(one)
    rest: list[Found] = []
    for lines, records in searches.values():
        lines = _add(state, lines, kept)
        while _add_one(state, records, kept):
            lines = _add(state, lines, kept)
        rest += lines
    return rest


def _search(event: Event | None) -> str:
    """The search that an event is of; "" where it is of none."""
    match event:
        case Requested(request):
            return request.search
        case Ended() | Died() | Recorded():
            with suppress(ValueError):
                of = TrialId.parse(event.trial_id)
                return "-".join(filter(None, (of.entry_id, of.replicate)))
    return ""


def _add_one(state: SweepState, found: list[Found], kept: list[bytes]) -> bool:
    """Add the first that can be, and take it out; whether there was one."""
    for at, one in enumerate(found):
        if not _add(state, [one], kept):
            del found[at]
            return True
    return False


def _records(store: Store, name: str) -> list[Found]:
    """The events that a store's runs of a sweep tell, as lines."""
    found: list[Event] = [_begun(run) for run in store.sound(sweep=name, kind=RunKind.SWEEP)]
    runs = [
        run
        for kind in TRIALS
        for run in store.sound(sweep=name, kind=kind)
        if run.tags.run_status in ("FINISHED", "FAILED")
    ]
    for run in sorted(runs, key=lambda run: run.tags.number.index):
        request, outcome = _request(run), _outcome(store, run)
        found += [
            Requested(request),
            Ended(request.trial_id, outcome, test_score=run.metrics.get("test_score")),
            Recorded(request.trial_id, run.run_id),
        ]
    return [(line(event.name, event.fields()), event) for event in found]


def _begun(run: Record) -> Begun:
    """How the sweep of a run began, without configurations to start from, which are not recorded."""
    study = Study.model_validate(run.tags.study_json)
    search = SweepSearch(make_entries(study, f"sweep {run.tags.sweep}"), study)
    return Begun.of(run.tags.study, study, search, {}, run.tags.sweep_id, {})


def _request(run: Record) -> TrialRequest:
    tags, number = run.tags, run.tags.number
    return TrialRequest(
        trial_id=tags.trial_id,
        entry_id=number.entry_id,
        kind=number.kind,
        index=number.index if number.number is None else number.number,
        origin=tags.origin,
        params=tags.params,
        seed=tags.seed,
        partition_seed=tags.spec.settings.partition_seed,
        source=tags.get("source"),
        replicate=number.replicate,
    )


def _outcome(store: Store, run: Record) -> TrialResult:
    """What a run recorded; what was not finite is NaN, and validation scores are of every evaluation."""
    tags, metric = run.tags, f"val_{run.tags.metric}"
    history = store.curve(run, run.metrics.keys() - set(DERIVED))
    if history:
        history[-1] |= dict.fromkeys(tags.not_finite or (), math.nan)
    scores = {
        int(entry["round"]): score(history[: at + 1], metric) for at, entry in enumerate(history)
    }
    return TrialResult(
        tags.status,
        history,
        {at: value for at, value in scores.items() if math.isfinite(value)},
        tags.partition_fingerprint,
        tags.error or "",
        execution=tags.execution or "",
        chunk=tags.chunk,
        device=tags.device or "",
    )
