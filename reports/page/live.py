"""The live page of a sweep: how far it is, how its scenarios stand, what its running trials report.

Everything here is of validation data: final runs are compared on the leaderboard alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.leaderboard.interim import ABOUT, MARK
from reports.leaderboard.leaderboard import Leaderboard
from reports.leaderboard.wording import legend
from reports.page import line_charts
from reports.page.board_table import tables
from reports.page.data import ReportData
from reports.page.gallery import look_of
from reports.page.line_charts import Line
from reports.page.page import PICTURE, audit, chips, inlined, render
from reports.page.style import Chart, Look, slug, styles

COUNTS = ("running", "pruned", "diverged", "failed")
READ_ONLY = (
    "Open the address that was printed when the pages were started to stop or cancel a sweep here."
)
"""What is said to who has not the address with the secret."""


@dataclass(frozen=True)
class LiveEntry:
    """An algorithm in a scenario: the validation scores of its search trials in order (NaN where one did not
    run to its end), how many trials of which kind and ending there are, and the (round, score) of the
    evaluations of each that runs.
    """

    algorithm: str
    label: str
    reference: bool
    scores: Sequence[float]
    counts: Mapping[str, int]
    running: Mapping[str, Sequence[tuple[int, float]]]


@dataclass(frozen=True)
class LiveScenario:
    """One question; `better` is 1 where more of its metric is better, -1 where less."""

    scenario: str
    metric: str
    better: int
    entries: Sequence[LiveEntry]


@dataclass(frozen=True)
class LiveSweep:
    """A sweep at a moment. `planned` and `ended` are trials, `trials` and `seeds` those of an entry. `board`
    holds the scenarios whose final runs are all there; `failures` are (trial, status, reason).
    """

    name: str
    study: str
    running: bool
    over: bool
    asked_to: str
    planned: int
    ended: int
    per_minute: float | None
    left: str
    trials: int
    seeds: int
    scenarios: Sequence[LiveScenario]
    failures: Sequence[tuple[str, str, str]] = ()
    board: Leaderboard | None = None
    links: Mapping[str, str] = field(default_factory=dict)
    server: str = ""


def live_page(sweep: LiveSweep, asks: bool, script: str) -> str:
    """The page; `script` is the address of the chart library, `requests` whether who sees it may stop the sweep."""
    return render("live.html", **_content(sweep, asks), source=script)


def live_parts(sweep: LiveSweep, asks: bool) -> str:
    """What of the page changes while the sweep runs."""
    return render("live_parts.html", **_content(sweep, asks))


def home_page(
    found: Sequence[LiveSweep],
    boards: ReportData | None,
    links: Sequence[Any],
    faults: Sequence[str] = (),
) -> str:
    """The first page: the leaderboards, and the sweeps that there are, those that run first; `faults` say
    what is wrong with others.
    """
    order = sorted(found, key=lambda sweep: not sweep.running)
    look = look_of(boards) if boards else {}
    return render(
        "home.html",
        title="suite",
        sweeps=[_summary(sweep) for sweep in order],
        tables=tables(boards, look) if boards else [],
        legend=f"{legend(boards.board)} {PICTURE}" if boards else "",
        links=links,
        faults=faults,
        script="",
    )


def _content(sweep: LiveSweep, asks: bool) -> dict[str, Any]:
    entries = [entry for scenario in sweep.scenarios for entry in scenario.entries]
    ranked = {entry.algorithm for entry in entries if not entry.reference}
    unranked = {entry.algorithm for entry in entries} - ranked
    look = styles((entry.algorithm for entry in entries), unranked)
    board = ReportData(sweep.board, server=sweep.server) if sweep.board else None
    ranked = {str(row.scenario) for row in sweep.board.rows} if sweep.board else set()
    return {
        "title": f"{sweep.name} · live",
        "sweep": _summary(sweep),
        "scenarios": [
            _scenario(scenario, sweep)
            for scenario in sweep.scenarios
            if scenario.scenario not in ranked
        ],
        "charts": inlined(
            [chart for scenario in sweep.scenarios for chart in _charts(scenario, look)]
        ),
        "chips": chips(look),
        "legend": f"{legend(sweep.board)} {PICTURE}" if sweep.board else "",
        "tables": tables(board, look) if board else [],
        "audit": audit(sweep.board) if sweep.board else [],
        "requests": asks,
        "read_only": READ_ONLY,
        "failures": sweep.failures,
        "links": sweep.links,
        "mark": MARK,
        "about": ABOUT,
        "script": "",
    }


def _summary(sweep: LiveSweep) -> dict[str, Any]:
    state = "running" if sweep.running else "finished" if sweep.over else "not running"
    asked = {"stop": "asked to stop: running trials finish", "cancel": "asked to cancel"}
    if sweep.running and sweep.asked_to:
        state = asked[sweep.asked_to]
    share = 100 * min(1.0, sweep.ended / max(1, sweep.planned))
    pace = "" if sweep.per_minute is None else f"{sweep.per_minute:.0f} trials/min"
    return {**vars(sweep), "state": state, "share": f"{share:.1f}", "pace": pace}


def _scenario(scenario: LiveScenario, sweep: LiveSweep) -> dict[str, Any]:
    rows = [_row(entry, scenario.better) for entry in scenario.entries]
    rows.sort(
        key=lambda row: (
            row["reference"],
            row["best"] is None,
            -scenario.better * (row["best"] or 0),
        )
    )
    bests = [row["best"] for row in rows if not row["reference"] and row["best"] is not None]
    for row in rows:
        ranked = row["best"] in bests and not row["reference"]
        row["rank"] = 1 + bests.index(row["best"]) if ranked else None
    return {
        "scenario": scenario.scenario,
        "key": slug(scenario.scenario),
        "metric": scenario.metric,
        "better": scenario.better,
        "columns": [name for name in COUNTS if any(row["counts"].get(name) for row in rows)],
        "rows": rows,
        "trials": sweep.trials,
        "seeds": sweep.seeds,
    }


def _row(entry: LiveEntry, better: int) -> dict[str, Any]:
    known = [score for score in entry.scores if math.isfinite(score)]
    best = max(known, key=lambda score: better * score) if known else None
    return {**vars(entry), "best": best, "text": "" if best is None else f"{best:.4f}"}


def _charts(scenario: LiveScenario, look: Look) -> list[Chart]:
    """What the running trials report, and the best so far against trials."""
    growing = [
        Line(entry.algorithm, [x for x, _ in points], [y for _, y in points], trial=trial)
        for entry in scenario.entries
        for trial, points in entry.running.items()
        if points
    ]
    tuned = {
        entry.algorithm: _best_so_far(entry.scores, scenario.better) for entry in scenario.entries
    }
    tuned = {name: values for name, values in tuned.items() if any(map(math.isfinite, values))}
    metric = f"validation {scenario.metric}"
    key = slug(scenario.scenario)
    found = []
    if growing:
        spans = line_charts.spans(growing, scenario.better)
        spec = line_charts.lines(growing, look, ("rounds", metric), spans)
        alt = f"{scenario.scenario}: {metric} of the running trials against rounds"
        found.append(Chart(f"running-{key}", f"Running trials · {scenario.scenario}", alt, spec))
    if tuned:
        spec = line_charts.budget(tuned, look, f"best {metric} so far", scenario.better)
        alt = f"{scenario.scenario}: best {metric} so far against search trials"
        found.append(Chart(f"best-{key}", f"Best so far · {scenario.scenario}", alt, spec))
    return found


def _best_so_far(scores: Sequence[float], better: int) -> list[float]:
    found: list[float] = []
    for score in scores:
        known = [v for v in (score, *found[-1:]) if math.isfinite(v)]
        found.append(max(known, key=lambda v: better * v) if known else math.nan)
    return found
