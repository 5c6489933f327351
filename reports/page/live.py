"""The live page of a sweep: how far it is, how its scenarios stand, what its running trials report.

Everything here is of validation data: final runs are compared on the leaderboard alone.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.charts import line_charts
from reports.charts.data import ReportData
from reports.charts.line_charts import Trace
from reports.charts.style import Chart, Look, slug, styles
from reports.leaderboard.interim import ABOUT, MARK, ranks
from reports.leaderboard.leaderboard import Leaderboard
from reports.leaderboard.names import told_apart
from reports.page.board_table import tables
from reports.page.gallery import look_of
from reports.page.page import PICTURE, audit, chips, inlined, render
from reports.snapshot import EntrySnapshot, Snapshot, spell
from reports.wording.words import legend

COUNTS = ("running", "pruned", "diverged", "failed")
READ_ONLY = (
    "Open the address that was printed when the pages were started to stop or cancel a sweep here."
)
"""What is said to who has not the address with the secret."""


@dataclass(frozen=True)
class Live:
    """What the page of a sweep shows: its snapshot, the ids of entries without a rank, the leaderboard of the
    scenarios whose final runs are all there, links, and where MLflow's pages are.
    """

    sweep: Snapshot
    references: Collection[str] = ()
    board: Leaderboard | None = None
    links: Mapping[str, str] = field(default_factory=dict)
    server: str = ""


def live_page(live: Live, asks: bool, script: str) -> str:
    """The page; `script` is the address of the chart library, `requests` whether who sees it may stop the sweep."""
    return render("live.html", **_content(live, asks), source=script)


def live_parts(live: Live, asks: bool) -> str:
    """What of the page changes while the sweep runs."""
    return render("live_parts.html", **_content(live, asks))


def home_page(
    found: Sequence[Live],
    boards: ReportData | None,
    links: Sequence[Any],
    faults: Sequence[str] = (),
) -> str:
    """The first page: the leaderboards, and the sweeps that there are, those that run first; `faults` say
    what is wrong with others.
    """
    order = sorted(found, key=lambda live: not live.sweep.active)
    look = look_of(boards) if boards else {}
    return render(
        "home.html",
        title="suite",
        sweeps=[_summary(live.sweep) for live in order],
        tables=tables(boards, look) if boards else [],
        legend=f"{legend(boards.board)} {PICTURE}" if boards else "",
        links=links,
        faults=faults,
        script="",
    )


def _content(live: Live, asks: bool) -> dict[str, Any]:
    sweep = live.sweep
    ranked = {entry.method for entry in sweep.entries if entry.entry_id not in live.references}
    names = [entry.method for entry in sweep.entries]
    look = styles(names, set(names) - ranked)
    found = live.board and told_apart(live.board, [entry.algorithm for entry in sweep.entries])
    board = ReportData(found, server=live.server) if found else None
    whole = {str(row.scenario) for row in found.rows} if found else set()
    return {
        "title": f"{sweep.name} · live",
        "sweep": _summary(sweep),
        "scenarios": [
            _scenario(str(scenario), entries, live)
            for scenario, entries in sweep.scenarios.items()
            if str(scenario) not in whole
        ],
        "charts": inlined(
            [
                chart
                for scenario, entries in sweep.scenarios.items()
                for chart in _charts(str(scenario), entries, look)
            ],
            still=False,
        ),
        "chips": chips(look),
        "legend": f"{legend(found)} {PICTURE}" if found else "",
        "tables": tables(board, look) if board else [],
        "audit": audit(found) if found else [],
        "requests": asks,
        "read_only": READ_ONLY,
        "failures": sweep.failures,
        "links": live.links,
        "mark": MARK,
        "about": ABOUT,
        "script": "",
    }


def _summary(sweep: Snapshot) -> dict[str, Any]:
    state = "running" if sweep.active else "finished" if sweep.over else "not running"
    asked = {"stop": "asked to stop: running trials finish", "cancel": "asked to cancel"}
    if sweep.active and sweep.asked_to:
        state = asked[sweep.asked_to]
    return {
        "name": sweep.name,
        "study": sweep.study,
        "running": sweep.active,
        "planned": sweep.planned,
        "ended": sweep.done,
        "state": state,
        "share": f"{100 * min(1.0, sweep.done / max(1, sweep.planned)):.1f}",
        "pace": f"{sweep.per_minute:.0f} trials/min" if sweep.active and sweep.per_minute else "",
        "left": "" if sweep.seconds_left is None else spell(sweep.seconds_left),
    }


def _scenario(scenario: str, entries: Sequence[EntrySnapshot], live: Live) -> dict[str, Any]:
    first = entries[0]
    rivals = [None if e.entry_id in live.references else e.best for e in entries]
    rows: list[dict[str, Any]] = [
        {
            "rank": place,
            "label": entry.name,
            "best": entry.best,
            "text": "" if entry.best is None else f"{entry.best:.4f}",
            "counts": entry.counts,
            "reference": entry.entry_id in live.references,
        }
        for entry, place in zip(entries, ranks(rivals, first.sign), strict=True)
    ]
    rows.sort(key=lambda row: (row["reference"], row["rank"] or len(rows) + 1))
    return {
        "scenario": scenario,
        "key": slug(scenario),
        "metric": first.metric,
        "better": first.sign,
        "columns": [name for name in COUNTS if any(e.counts[name] for e in entries)],
        "rows": rows,
        "trials": live.sweep.trials,
        "seeds": live.sweep.seeds,
    }


def _charts(scenario: str, entries: Sequence[EntrySnapshot], look: Look) -> list[Chart]:
    """What the running trials report, and the best so far against trials."""
    better = entries[0].sign
    growing = [
        Trace(entry.method, [x for x, _ in points], [y for _, y in points], trial=trial)
        for entry in entries
        for trial, points in entry.running.items()
        if points
    ]
    tuned = {entry.method: _best_so_far(entry.scores, better) for entry in entries if entry.known}
    metric, key = f"validation {entries[0].metric}", slug(scenario)
    found = []
    if growing:
        spans = line_charts.spans(growing, better)
        spec = line_charts.lines(growing, look, ("rounds", metric), spans)
        alt = f"{scenario}: {metric} of the running trials against rounds"
        found.append(Chart(f"running-{key}", f"Running trials · {scenario}", alt, spec))
    if tuned:
        spec = line_charts.budget(tuned, look, f"best {metric} so far", better)
        alt = f"{scenario}: best {metric} so far against search trials"
        found.append(Chart(f"best-{key}", f"Best so far · {scenario}", alt, spec))
    return found


def _best_so_far(scores: Sequence[float], better: int) -> list[float]:
    found: list[float] = []
    for score in scores:
        known = [v for v in (score, *found[-1:]) if math.isfinite(v)]
        found.append(max(known, key=lambda v: better * v) if known else math.nan)
    return found
