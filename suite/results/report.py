"""`suite report`: what a report shows, read from tables, and written."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.charts.data import Curve, Failure, ReportData, SweepFacts, TrialPoint
from reports.charts.drawing import SIGN
from reports.leaderboard.board import Leaderboard, Row
from suite.results.final_runs import is_lost, number, run_id
from suite.results.leaderboards import board_of, entries_of, searched, without_finals
from suite.results.query import Query
from suite.results.table import TableFacts
from suite.results.tables import SEARCHES, Tables, records
from suite.tracking.schema.leaderboard_view import run_page
from suite.yaml_files import dump, write_files
from trials.run.outcome import reason
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
    tables: Tables,
    query: Query,
    folder: Path,
    server: str,
    forms: Iterable[str] = (),
    aliases: Mapping[str, str] | None = None,
    attach: Callable[[str, Path], object] | None = None,
) -> WrittenReport:
    """Write `report.html` below a folder, and `figures/` in the forms that are wanted; `attach` keeps the page with the runs of the
    sweeps it is about. Data sets have `aliases`. Raises `UserError` where one of the files is someone else's.
    """
    from reports.leaderboard.names import aliased
    from reports.page.page import build

    tables = tables.of(query.sweep, query.studies)
    data = data_of(tables, query, server)
    data = aliased(data, data.board, aliases or {})
    page, drawn = build(data, forms)
    figures = {folder / "figures" / name: drawn[name] for name in sorted(drawn)}
    write_files({folder / PAGE: page.encode(), **figures}, SIGN)
    for facts in _shown(tables, data.board):
        if attach is not None and facts.run_id:
            attach(facts.run_id, folder / PAGE)
    return WrittenReport(folder / PAGE, tuple(figures), data)


def read(tables: Tables, query: Query, server: str) -> ReportData:
    """Return the data of a report: everything it shows."""
    return data_of(tables.of(query.sweep, query.studies), query, server)


def data_of(tables: Tables, query: Query, server: str) -> ReportData:
    """Return the data of a report of all of these tables."""
    board = board_of(tables, query)
    rows = {(row.sweep, row.entry_id): row for row in board.rows}
    ended = [(of.name, entry) for of, entry in entries_of(tables) if entry.tuned]
    return ReportData(
        board=board,
        curves=_curves(tables, board),
        trials=tuple(
            _trial(trial, rows[key])
            for key, trials in tables.searches.items()
            if key in rows
            for trial in trials[trials["kind"] == "search"].itertuples()
        ),
        failures=tuple(_failures(tables, query, board)),
        sweeps=tuple(_sweep(tables, facts) for facts in _shown(tables, board)),
        tuned={(sweep, entry.id): entry.tuned for sweep, entry in ended},
        server=server,
    )


def _shown(tables: Tables, board: Leaderboard) -> list[TableFacts]:
    """Return what is said of the sweeps that a leaderboard shows."""
    named = {row.sweep for row in board.rows} | {one.sweep for one in board.interim}
    return [facts for name, facts in tables.facts.items() if name in named]


def _curves(tables: Tables, board: Leaderboard) -> tuple[Curve, ...]:
    """Return the curves of the rows' final runs, but for those that are lost."""
    finals = {run_id(final): final for final in tables.final_rows}
    costs = [f"{name}_curve" for name in COSTS["bytes"]]
    histories = tables.histories(["test", *costs])
    found = []
    for row in board.rows:
        for final in (finals[run] for run in row.runs):
            name = f"test_{final['metric']}"
            if is_lost(final, name):
                continue
            evaluations = [e for e in histories[final["sweep"], final["trial_id"]] if name in e]
            found.append(
                Curve(
                    row.group,
                    final["algorithm"],
                    final["seed"],
                    tuple(int(entry["round"]) for entry in evaluations),
                    tuple(entry[name] for entry in evaluations),
                    tuple(cost_until(entry, "bytes") for entry in evaluations),
                    (final["split"], final["partition"], final["tuning"]),
                )
            )
    return tuple(found)


def _trial(trial: Any, row: Row) -> TrialPoint:
    return TrialPoint(
        row.group,
        row.algorithm,
        trial.number,
        trial.status,
        number(trial.val_score),
        trial.replicate,
    )


FAILED = ("sweep", "entry_id", "entry", "trial_id", "kind", "seed", "status", "metric")


def _failures(tables: Tables, query: Query, board: Leaderboard) -> Iterable[Failure]:
    """Yield the trials of what is shown that failed or diverged, and its final runs without a score of their own."""
    shown = {(row.sweep, row.entry_id) for row in board.rows}
    shown |= {(one.sweep, one.entry_id) for one in board.interim}
    shown |= {(of.name, entry.id) for of, entry in without_finals(tables, query)}
    trials = tables.frame((*FAILED, "not_finite", "error", "run_id"), SEARCHES)
    trials = trials[trials["status"].isin(["failed", "diverged"])].sort_values(
        "status", ascending=False, kind="stable"
    )
    searches = records(trials)
    finals = records(query.rows(tables.finals))
    found = [trial for trial in searches if (trial["sweep"], trial["entry_id"]) in shown]
    for final in finals:
        if final["status"] == "failed" or is_lost(final, f"test_{final['metric']}"):
            found.append(final)
    for trial in found:
        final = trial["kind"] == "final"
        why = reason(trial["error"] or "")
        if not why and trial["not_finite"]:
            why = f"not finite: {trial['not_finite']}"
        experiment = tables.facts[trial["sweep"]].experiment
        yield Failure(
            f"{trial['entry']} · {'seed ' + str(trial['seed']) if final else trial['trial_id']}",
            "final" if final else "search",
            trial["status"],
            why,
            run_page(experiment, trial["run_id"]) if trial["run_id"] else "",
        )


def _sweep(tables: Tables, of: TableFacts) -> SweepFacts:
    """Return the study, versions, seeds and fingerprints behind a sweep's rows."""
    finals = tables.finals
    mine = finals[finals["sweep"] == of.name]
    prints = defaultdict(set)
    for dataset, level, print_ in zip(
        mine["dataset"], mine["heterogeneity"], mine["partition_fingerprint"], strict=True
    ):
        prints[f"{dataset} · {level}"].add(print_)
    facts = {name: of.versions[key] for key, name in FACTS.items() if key in of.versions}
    facts["search"] = searched(of)
    facts["search seed"] = str(of.study.get("seed", 0))
    facts["final seeds"] = ", ".join(map(str, sorted(set(mine["seed"]))))
    facts |= {f"fingerprint of {k}": ", ".join(sorted(v)) for k, v in prints.items()}
    page = run_page(of.experiment, of.run_id) if of.run_id else ""
    return SweepFacts(of.name, of.study_name, _study_text(of.study), facts, page, _setting(of))


def _study_text(whole: Mapping[str, Any]) -> str:
    """Return a study as it was run, as a file: without what was left out."""
    study = {key: value for key, value in whole.items() if value not in (None, {}, "")}
    study["settings"] = {k: v for k, v in study.get("settings", {}).items() if v is not None}
    return dump(study)


def _setting(of: TableFacts) -> dict[str, str]:
    """Return what all algorithms of a sweep had alike, when it began, how long it took, and its budget."""
    shared = of.study.get("settings", {})
    found = {name: f"{shared[name]}" for name in SHARED if shared.get(name) is not None}
    found["budget"] = f"{of.study['trials']} trials an entry, {of.study['seeds']} final seeds"
    found["date"] = time.strftime("%Y-%m-%d %H:%M", time.gmtime(of.began)) + " UTC"
    if of.ended is not None:
        found["duration"] = duration(of.ended - of.began)
    return found


def duration(seconds: float) -> str:
    """A time span as people say it."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
