"""`suite publish`: what a store holds of sweeps as a bundle."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reports.leaderboard.board import Leaderboard
from suite import json_files
from suite.boards.bundle import BOARD, KEPT, LISTING, SIGN, BundleListing, Kept, Stretch
from suite.boards.files import zipped
from suite.boards.folders import digest, listed, write_listed
from suite.configurations import configuration
from suite.configurations.configuration import today
from suite.console import finite
from suite.formats import FORMAT
from suite.results.leaderboards import read_leaderboard
from suite.results.query import NONE_YET, Query
from suite.results.report import study_text
from suite.sweeps.journal.paths import check_name
from suite.tracking.machine import machine
from suite.tracking.reader import Reader, Together
from suite.tracking.record import LARGEST, Record
from suite.tracking.schema.inherited import OF_TRIALS
from suite.tracking.schema.tags import RunKind, versions
from suite.yaml_files import write_files
from trials.common.errors import UserError
from trials.scoring.metrics import DERIVED

TIMES = ("round_seconds", "evaluation_seconds")
"""Metrics that no two runs share; they are not published by round."""
OF_FINALS = (
    *("spec", "execution", "chunk", "halved", "device", "partition_fingerprint"),
    *("torch_version", "numba_version", "git_commit"),
)
"""Tags that repeat a run, which are published of final runs alone: search trials are many."""

FOR_TRIALS = (OF_TRIALS, "searched")
"""Tags of an entry that say what its search trials say, which are published themselves."""


@dataclass(frozen=True)
class PublishedBundle:
    """A bundle that was written: the SHA-256 of its list, by which one knows it, and what it holds."""

    path: Path
    sha256: str
    sweeps: Sequence[str]
    rows: int
    finals: int
    searches: int
    bytes: int


def publish(reader: Reader, query: Query, output: Path) -> PublishedBundle:
    """Write the sweeps that a query asks for as a bundle: a folder, or where the name ends in .zip, a zip.

    Raises `UserError` where there is nothing to rank, or a file is in the way.
    """
    board = read_leaderboard(reader, query)
    if not board.rows:
        raise UserError(NONE_YET)
    sweeps = sorted({row.sweep for row in board.rows})
    for name in sweeps:
        check_name(name, "sweep")
    found = {name: _kept_of(reader, name) for name in sweeps}
    files: dict[str, bytes] = {BOARD: _json({"rows": rows_of(board)})}
    for name, parts in found.items():
        files |= _files(name, parts)
    finals = [kept.record() for parts in found.values() for kept in parts["finals"]]
    facts = BundleListing(
        made_by=SIGN,
        format=FORMAT,
        date=today(),
        versions=versions(),
        machine=machine(),
        sweeps=sweeps,
        code={name: sha256 for run in finals for name, sha256 in (run.tags.code or {}).items()},
        files={},
    ).model_dump(exclude={"files"})
    if output.suffix == ".zip":
        content = zipped({**files, LISTING: listed(facts, files)}, SIGN)
        write_files({output: content}, SIGN)
    else:
        write_listed(output, LISTING, facts, files)
    return PublishedBundle(
        output,
        digest(listed(facts, files)),
        sweeps,
        len(board.rows),
        len(finals),
        sum(len(parts["searches"]) for parts in found.values()),
        sum(map(len, files.values())),
    )


def rows_of(board: Leaderboard) -> list[dict[str, Any]]:
    """The rows of a leaderboard as they are published: without pages and commands, which are of one store."""
    left_out = ("audit", "lacking", "page")
    return [
        {key: value for key, value in finite(asdict(row)).items() if key not in left_out}
        for row in board.rows
    ]


def _kept_of(reader: Reader, sweep: str) -> dict[str, list[Kept]]:
    """The records of a sweep by the file that they are in."""

    def kept(*kinds: RunKind, curve: bool = False) -> list[Kept]:
        runs = [run for kind in kinds for run in reader.sound(kind=kind, sweep=sweep)]
        together = Together(reader, runs)
        return [_kept(together, run, curve) for run in runs]

    return {
        "records": kept(RunKind.SWEEP, RunKind.ENTRY, RunKind.LEADERBOARD),
        "searches": [_short(one) for one in kept(RunKind.SEARCH)],
        "finals": kept(RunKind.FINAL, curve=True),
    }


def _kept(reader: Reader, run: Record, curve: bool) -> Kept:
    tags = {key: text for key, text in run.tags.items() if key not in FOR_TRIALS}
    if "error" in tags:  # a traceback has the paths of a machine; its last line says what was wrong
        tags["error"] = (tags["error"].strip().splitlines() or [""])[-1]
    found = {
        "run_id": run.run_id,
        "tags": tags,
        "metrics": {name: v for name, v in run.metrics.items() if abs(v) <= LARGEST},
        "began": run.began,
        "ended": run.ended,
        "curve": _curve(reader, run) if curve else [],
    }
    return json_files.check(found, KEPT, f"run {run.run_id}")


def _short(kept: Kept) -> Kept:
    """A search trial without what only repeats it, and with the metrics by which trials are compared."""
    metric = kept.tags.get("metric", "")
    named = {"val_score", "test_score", f"test_{metric}"}
    return kept.model_copy(
        update={
            "tags": {key: text for key, text in kept.tags.items() if key not in OF_FINALS},
            "metrics": {name: value for name, value in kept.metrics.items() if name in named},
        }
    )


def _curve(reader: Reader, run: Record) -> list[Stretch]:
    """A run's metrics by round, those together that were recorded at the same rounds; values that are not finite
    are not published.
    """
    found: dict[tuple[int, ...], dict[str, list[float]]] = defaultdict(dict)
    for metric in sorted(run.metrics.keys() - {*TIMES, *DERIVED}):
        curve = [one for one in reader.history(run.run_id, metric) if abs(one[1]) <= LARGEST]
        found[tuple(at for at, _ in curve)][metric] = [value for _, value in curve]
    return [Stretch(rounds=list(at), values=values) for at, values in found.items()]


def _files(sweep: str, parts: Mapping[str, Sequence[Kept]]) -> dict[str, bytes]:
    """The files of a sweep."""
    below = f"sweeps/{sweep}"
    files = {f"{below}/{part}.json": _json(list(map(_plain, kept))) for part, kept in parts.items()}
    for kept in parts["records"]:
        tags = kept.record().tags
        if tags.kind == RunKind.SWEEP:
            files[f"{below}/study.yaml"] = study_text(tags).encode()
        elif tags.kind == RunKind.LEADERBOARD:
            path = configuration.parse(tags.tuned, f"run {kept.run_id}").path
            files[f"tuned/{sweep}/{path.as_posix()}"] = tags.tuned.encode()
    return files


def _plain(kept: Kept) -> dict[str, Any]:
    """A record as JSON holds it; counters are whole."""
    found = kept.model_dump(exclude_defaults=True)
    found["metrics"] = {name: _whole(value) for name, value in kept.metrics.items()}
    for stretch in found.get("curve", ()):
        stretch["values"] = {k: list(map(_whole, v)) for k, v in stretch["values"].items()}
    return found


def _whole(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _json(content: Any) -> bytes:
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()
