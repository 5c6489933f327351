"""The data of `suite report`, read from tables, and its files."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path

from reports.charts.drawing import SIGN
from reports.leaderboard.board import Curve, Failure, Leaderboard, ReportData, SweepFacts
from reports.wording.words import spell
from suite.results.leaderboards import Query, read_leaderboard
from suite.results.table import FINALS, SEARCHES, Tables, each, is_lost
from suite.tracking.tags import run_page
from suite.yaml_files import dump, write_files
from trials.common.mappings import stated
from trials.run.outcome import Status, reason
from trials.scoring.metrics import COSTS, cost_until

FAILED = ("sweep", "entry", "trial_id", "kind", "seed", "status", "metric")
"""The columns to read of runs that may have failed, besides the reason of the failure."""


@dataclass(frozen=True)
class WrittenReport:
    """The paths of the page and of the charts that `suite report` wrote."""

    page: Path
    figures: tuple[Path, ...]


def write(
    tables: Tables,
    query: Query,
    folder: Path,
    server: str,
    forms: Iterable[str] = (),
) -> WrittenReport:
    """Write `report.html` to a folder, and its charts to the subfolder `figures`. `forms` has the charts' file formats, and
    `server` is the address of MLflow's pages. Raise `UserError` rather than overwrite a file that no report has
    written.
    """
    from reports.page.page import build

    page, drawn = build(read(tables, query, server), forms)
    figures = {folder / "figures" / name: drawn[name] for name in sorted(drawn)}
    write_files({folder / "report.html": page.encode(), **figures}, SIGN)
    return WrittenReport(folder / "report.html", tuple(figures))


def read(tables: Tables, query: Query, server: str) -> ReportData:
    """Return the data of a report on the final runs that a query selects. `server` is the address of MLflow's pages."""
    board = read_leaderboard(tables, query)
    trials = {}
    for row in board.rows:
        key = row.sweep, row.entry_id
        if (tried := tables.searches.get(key)) is not None:
            trials[key] = tried[tried["kind"] == "search"]
    return ReportData(
        board=board,
        curves=tuple(_curves(tables, board)),
        trials=trials,
        failures=tuple(_failures(tables, query)),
        sweeps=tuple(starmap(partial(_sweep, tables), board.searched.items())),
        tuned={(row.sweep, row.entry_id): row.facts.tuned for row in each(tables.entries)},
        server=server,
    )


def _curves(tables: Tables, board: Leaderboard) -> Iterable[Curve]:
    """Yield the test curve of each final run on the leaderboard. Skip runs that diverged or have no finite score."""
    finals = {final["run_id"]: final for final in tables.finals.to_dict("records")}
    histories = tables.histories(["test", *map("{}_curve".format, COSTS["bytes"])])
    for row in board.rows:
        for final in map(finals.__getitem__, row.runs):
            name = f"test_{final['metric']}"
            if is_lost(final, name):
                continue
            points = []
            for entry in histories[final["sweep"], final["trial_id"]]:
                if name in entry:
                    points.append((int(entry["round"]), entry[name], cost_until(entry, "bytes")))
            rounds, scores, sent_bytes = zip(*points, strict=True) if points else ((), (), ())
            yield Curve(
                row.group,
                final["algorithm"],
                final["seed"],
                rounds=rounds,
                scores=scores,
                sent_bytes=sent_bytes,
                replicate=(final["split"], final["partition"], final["tuning"]),
            )


def _failures(tables: Tables, query: Query) -> Iterable[Failure]:
    """Yield a query's failed and diverged runs, and its final runs without a finite score."""
    names = dict.fromkeys((*FAILED, "not_finite", "error", "run_id", *query.where))
    runs = query.rows(tables.frame(names, (*SEARCHES, *FINALS)))
    bad = runs["status"].isin([Status.FAILED, Status.DIVERGED])
    runs = runs[bad | runs["kind"].eq("final")].sort_values(["kind", "status"], ascending=False)
    for run in runs.to_dict("records"):
        if run["status"] == Status.FAILED or is_lost(run, f"test_{run['metric']}"):
            final = run["kind"] == "final"
            page = run_page(tables.facts[run["sweep"]].experiment, run["run_id"] or "")
            why = f"not finite: {run['not_finite']}" if run["not_finite"] else ""
            yield Failure(
                f"{run['entry']} · {'seed ' + str(run['seed']) if final else run['trial_id']}",
                "final" if final else "search",
                run["status"],
                reason(run["error"] or "") or why,
                page if run["run_id"] else "",
            )


def _sweep(tables: Tables, name: str, searched: str) -> SweepFacts:
    """Return the facts that a report states about a sweep, such as its study, versions, seeds and partition fingerprints."""
    sweep, finals = tables.facts[name], tables.finals[tables.finals["sweep"] == name]
    study = {key: value for key, value in sweep.study.items() if value not in (None, {}, "")}
    settings = stated(study.get("settings", {}))
    labels = {"version": "suite", "torch_version": "torch", "git_commit": "commit"}
    facts = {word: sweep.versions[key] for key, word in labels.items() if key in sweep.versions}
    facts |= {"search": searched, "search seed": str(study.get("seed", 0))}
    facts["final seeds"] = ", ".join(map(str, sorted(set(finals["seed"]))))
    prints = finals.groupby(["dataset", "heterogeneity"], sort=False)["partition_fingerprint"]
    for (dataset, level), values in prints:
        facts[f"fingerprint of {dataset} · {level}"] = ", ".join(sorted(set(values)))
    keys = ("rounds", "clients", "participation")
    setting = {key: str(settings[key]) for key in keys if key in settings}
    setting["budget"] = f"{study['trials']} trials an entry, {study['seeds']} final seeds"
    setting["date"] = time.strftime("%Y-%m-%d %H:%M", time.gmtime(sweep.began)) + " UTC"
    if sweep.ended is not None:
        setting["duration"] = spell(sweep.ended - sweep.began)
    page = run_page(sweep.experiment, sweep.run_id) if sweep.run_id else ""
    text = dump({**study, "settings": settings})
    return SweepFacts(name, sweep.study_name, text, facts, page, setting)
