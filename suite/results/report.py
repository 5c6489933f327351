"""`suite report`: what a report shows, read from tables, and written."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from reports.charts.drawing import SIGN
from reports.leaderboard.board import Curve, Failure, Leaderboard, ReportData, SweepFacts
from reports.wording.words import spell
from suite.results.leaderboards import Query, board_of, searched, without_row
from suite.results.table import TableFacts
from suite.results.tables import (
    KEYS,
    SEARCHES,
    Tables,
    each,
    is_lost,
    run_id,
    within,
)
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
        from reports.page.notebook import board_html

        return board_html(self.data.board)


def write(
    tables: Tables,
    query: Query,
    folder: Path,
    server: str,
    forms: Iterable[str] = (),
) -> WrittenReport:
    """Write `report.html` and `figures/` in these forms below a folder. Raises `UserError` where one of the files is someone else's."""
    from reports.page.page import build

    data = read(tables, query, server)
    page, drawn = build(data, forms)
    figures = {folder / "figures" / name: drawn[name] for name in sorted(drawn)}
    write_files({folder / PAGE: page.encode(), **figures}, SIGN)
    return WrittenReport(folder / PAGE, tuple(figures), data)


def read(tables: Tables, query: Query, server: str) -> ReportData:
    """Return the data of a report: everything it shows."""
    tables = tables.of(query.sweep, query.studies)
    board = board_of(tables, query)
    shown = {row.sweep for row in board.rows} | {row.sweep for row in board.interim}
    sweeps = [_sweep(tables, facts) for name, facts in tables.facts.items() if name in shown]
    tuned = [row for row in each(tables.entries) if row.entry.tuned]
    return ReportData(
        board=board,
        curves=tuple(_curves(tables, board)),
        trials={
            key: trials[trials["kind"] == "search"]
            for key, trials in tables.searches.items()
            if key in {(row.sweep, row.entry_id) for row in board.rows}
        },
        failures=tuple(_failures(tables, query, board)),
        sweeps=tuple(sweeps),
        tuned={(row.sweep, row.entry_id): row.entry.tuned for row in tuned},
        server=server,
    )


def _curves(tables: Tables, board: Leaderboard) -> Iterable[Curve]:
    """Yield the curves of the rows' final runs, but for those that are lost."""
    finals = {run_id(final): final for final in tables.finals.to_dict("records")}
    histories = tables.histories(["test", *(f"{name}_curve" for name in COSTS["bytes"])])
    for row in board.rows:
        for final in map(finals.__getitem__, row.runs):
            name = f"test_{final['metric']}"
            history = histories[final["sweep"], final["trial_id"]]
            evaluations = [entry for entry in history if name in entry]
            if not is_lost(final, name):
                yield Curve(
                    row.group,
                    final["algorithm"],
                    final["seed"],
                    tuple(int(entry["round"]) for entry in evaluations),
                    tuple(entry[name] for entry in evaluations),
                    tuple(cost_until(entry, "bytes") for entry in evaluations),
                    (final["split"], final["partition"], final["tuning"]),
                )


FAILED = ("sweep", "entry_id", "entry", "trial_id", "kind", "seed", "status", "metric")


def _failures(tables: Tables, query: Query, board: Leaderboard) -> Iterable[Failure]:
    """Yield the trials of what is shown that failed or diverged, and its final runs without a score of their own."""
    import pandas as pd

    keys = [(row.sweep, row.entry_id) for row in (*board.rows, *board.interim)]  # type: ignore[attr-defined]
    shown = pd.concat([pd.DataFrame(keys, columns=KEYS), without_row(tables, query)])
    trials = tables.frame((*FAILED, "not_finite", "error", "run_id"), SEARCHES)
    trials = trials[trials["status"].isin(["failed", "diverged"]) & within(trials, shown)]
    trials = trials.sort_values("status", ascending=False, kind="stable")
    finals = query.rows(tables.finals)
    for trial in [*trials.to_dict("records"), *finals.to_dict("records")]:
        final = trial["kind"] == "final"
        if final and trial["status"] != "failed" and not is_lost(trial, f"test_{trial['metric']}"):
            continue
        lost = f"not finite: {trial['not_finite']}" if trial["not_finite"] else ""
        page = run_page(tables.facts[trial["sweep"]].experiment, trial["run_id"])
        yield Failure(
            f"{trial['entry']} · {'seed ' + str(trial['seed']) if final else trial['trial_id']}",
            "final" if final else "search",
            trial["status"],
            reason(trial["error"] or "") or lost,
            page if trial["run_id"] else "",
        )


def _sweep(tables: Tables, sweep: TableFacts) -> SweepFacts:
    """Return the study, versions, seeds and fingerprints behind a sweep's rows, and what all its algorithms had alike."""
    finals = tables.finals[tables.finals["sweep"] == sweep.name]
    facts = {name: sweep.versions[key] for key, name in FACTS.items() if key in sweep.versions}
    facts["search"] = searched(sweep)
    facts["search seed"] = str(sweep.study.get("seed", 0))
    facts["final seeds"] = ", ".join(map(str, sorted(set(finals["seed"]))))
    prints = finals.groupby(["dataset", "heterogeneity"], sort=False)["partition_fingerprint"]
    for (dataset, level), own in prints:
        facts[f"fingerprint of {dataset} · {level}"] = ", ".join(sorted(set(own)))
    study = {key: value for key, value in sweep.study.items() if value not in (None, {}, "")}
    settings = {k: v for k, v in study.get("settings", {}).items() if v is not None}
    setting = {name: f"{settings[name]}" for name in SHARED if name in settings}
    setting["budget"] = f"{study['trials']} trials an entry, {study['seeds']} final seeds"
    setting["date"] = time.strftime("%Y-%m-%d %H:%M", time.gmtime(sweep.began)) + " UTC"
    if sweep.ended is not None:
        setting["duration"] = spell(sweep.ended - sweep.began)
    page = run_page(sweep.experiment, sweep.run_id) if sweep.run_id else ""
    text = dump({**study, "settings": settings})
    return SweepFacts(sweep.name, sweep.study_name, text, facts, page, setting)
