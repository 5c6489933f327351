"""`suite report`: what a report shows, read from the store, written, and attached to the sweeps' runs."""

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.charts.data import Curve, Failure, ReportData, SweepFacts, TrialPoint
from reports.charts.drawing import SIGN
from reports.leaderboard.board import Contest, Leaderboard, Row
from suite.results.leaderboards import board_of, searched
from suite.results.missing import without_finals
from suite.results.query import Held, Query
from suite.results.searched import Searched
from suite.tracking.reader import Reader
from suite.tracking.record import Record
from suite.tracking.schema.tags import RunKind, Tags
from suite.tracking.store import Store
from suite.yaml_files import dump, write_files
from trials.engine import schedule
from trials.run.outcome import Status, reason
from trials.scoring.metrics import COSTS, cost_until

FACTS = {"version": "suite", "torch_version": "torch", "git_commit": "commit"}
SHARED = ("rounds", "clients", "participation")
"""The settings that a report names first."""
PAGE = "report.html"


@dataclass(frozen=True)
class WrittenReport:
    """What `suite report` made."""

    page: Path
    figures: tuple[Path, ...]
    data: ReportData

    def __repr__(self) -> str:
        return f"Report {self.page}, {len(self.figures)} figures"

    def _repr_html_(self) -> str:
        return self.data.board._repr_html_()


def write(
    store: Store,
    query: Query,
    folder: Path,
    server: str,
    forms: Iterable[str] = (),
    aliases: Mapping[str, str] | None = None,
) -> WrittenReport:
    """Read, write `report.html` below a folder, and `figures/` in the forms that are wanted, and attach
    the page to the runs of the sweeps it is about; data sets have `aliases`. Raises `UserError` where one of the
    files is someone else's.
    """
    from reports.leaderboard.names import aliased
    from reports.page.page import build

    held = Held.of(store, query)
    data = data_of(store, query, held, server)
    data = aliased(data, data.board, aliases or {})
    page, drawn = build(data, forms)
    figures = {folder / "figures" / name: drawn[name] for name in sorted(drawn)}
    write_files({folder / PAGE: page.encode(), **figures}, SIGN)
    for run in _sweeps(held, data.board):
        store.attach(run.run_id, folder / PAGE, "report")
    return WrittenReport(folder / PAGE, tuple(figures), data)


def read(store: Reader, query: Query, server: str) -> ReportData:
    """The data of a report: everything it shows."""
    return data_of(store, query, Held.of(store, query), server)


def data_of(store: Reader, query: Query, held: Held, server: str) -> ReportData:
    """The data of a report of runs that are read."""
    board = board_of(store, query, held)
    rows = {(row.sweep, row.entry_id): row for row in board.rows}
    shown = rows.keys() | {(one.sweep, one.entry_id) for one in board.interim}
    shown |= {_scenario(entry) for entry in without_finals(query, held)}
    finals = {run.run_id: run for run in held.finals}
    failed = [
        run
        for status in (Status.FAILED, Status.DIVERGED)
        for run in query.find(store, RunKind.SEARCH, status=status, **query.scope)
        if _scenario(run) in shown
    ]
    return ReportData(
        board=board,
        curves=_curves(store, board, finals),
        trials=tuple(
            _trial(one, rows[key])
            for key in held.searches
            if key in rows
            for one in held.searches[key]
            if not one.confirm
        ),
        failures=tuple(map(_failure, [*failed, *filter(_has_no_score, finals.values())])),
        sweeps=tuple(_sweep(run, held.finals) for run in _sweeps(held, board)),
        tuned={place: run.tags.tuned for place, run in held.rows.items()},
        importance={place: run.tags.importance for place, run in held.rows.items()},
        server=server,
    )


def _sweeps(held: Held, board: Leaderboard) -> list[Record]:
    """The runs of the sweeps that are shown."""
    named = {row.sweep for row in board.rows} | {one.sweep for one in board.interim}
    return [run for run in held.sweeps if run.tags.sweep in named]


def _lost(run: Record) -> bool:
    return run.lost(f"test_{run.tags.metric}")


def _has_no_score(run: Record) -> bool:
    return run.tags.status == Status.FAILED or _lost(run)


def _scenario(run: Record) -> tuple[str, str]:
    return run.tags.sweep, run.tags.entry_id


def _curves(store: Reader, board: Leaderboard, finals: Mapping[str, Record]) -> tuple[Curve, ...]:
    """The courses of the rows' final runs, but for those that are lost."""
    drawn = [(row.group, finals[run_id]) for row in board.rows for run_id in row.runs]
    drawn = [(group, run) for group, run in drawn if not _lost(run)]
    tasks = {f"test_{run.tags.metric}" for _, run in drawn}
    curves = store.curves([run for _, run in drawn], [*sorted(tasks), *COSTS["bytes"]])
    return tuple(
        _curve(group, run, curve) for (group, run), curve in zip(drawn, curves, strict=True)
    )


def _curve(group: Contest, run: Record, curve: Sequence[Mapping[str, float]]) -> Curve:
    task = f"test_{run.tags.metric}"
    curve = [entry for entry in curve if task in entry]
    return Curve(
        group,
        run.tags.algorithm,
        run.tags.seed,
        tuple(int(entry["round"]) for entry in curve),
        tuple(entry[task] for entry in curve),
        tuple(cost_until(entry, "bytes") for entry in curve),
        (run.tags.split or 0, run.tags.partition or 0, run.tags.tuning or 0),
    )


def _trial(one: Searched, row: Row) -> TrialPoint:
    return TrialPoint(
        row.group,
        row.algorithm,
        one.number,
        one.origin,
        one.status,
        one.value if one.value is not None and math.isfinite(one.value) else None,
        {name: schedule.last(value) for name, value in one.params.items()},
        one.replicate,
    )


def _failure(run: Record) -> Failure:
    number = f"seed {run.tags.seed}" if run.tags.kind == RunKind.FINAL else run.tags.trial_id
    name = f"{run.tags.entry_name} · {number}"
    why = reason(run.tags.error or "")
    if not why and run.tags.not_finite:
        why = "not finite: " + " ".join(run.tags.not_finite)
    return Failure(name, run.tags.kind, run.tags.status, why, run.page)


def _sweep(run: Record, finals: list[Record]) -> SweepFacts:
    """The study file, versions, seeds and fingerprints behind a sweep's rows."""
    mine = [r for r in finals if r.tags.sweep == run.tags.sweep]
    prints = defaultdict(set)
    for final in mine:
        place = f"{final.tags.dataset} · {final.tags.heterogeneity}"
        prints[place].add(final.tags.partition_fingerprint)
    facts = {name: run.tags[tag] for tag, name in FACTS.items() if tag in run.tags}
    facts["search"] = searched(run)
    facts["search seed"] = str(run.tags.study_json.get("seed", 0))
    facts["final seeds"] = ", ".join(map(str, sorted({r.tags.seed for r in mine})))
    facts |= {f"fingerprint of {k}": ", ".join(sorted(v)) for k, v in prints.items()}
    return SweepFacts(
        run.tags.sweep, run.tags.study, _study_text(run.tags), facts, run.page, _setting(run)
    )


def _study_text(tags: Tags) -> str:
    """The study of a sweep as it was run, as a file: without what was left out."""
    study = {key: value for key, value in tags.study_json.items() if value not in (None, {}, "")}
    study["settings"] = {k: v for k, v in study.get("settings", {}).items() if v is not None}
    return dump(study)


def _setting(run: Record) -> dict[str, str]:
    """What all algorithms of a sweep had alike, when it began, how long it took, and its budget."""
    study = run.tags.study_json
    shared = study.get("settings", {})
    found = {name: f"{shared[name]}" for name in SHARED if shared.get(name) is not None}
    found["budget"] = f"{study['trials']} trials an entry, {study['seeds']} final seeds"
    found["date"] = time.strftime("%Y-%m-%d %H:%M", time.gmtime(run.began)) + " UTC"
    if run.ended is not None:
        found["duration"] = duration(run.ended - run.began)
    return found


def duration(seconds: float) -> str:
    """A time span as people say it."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
