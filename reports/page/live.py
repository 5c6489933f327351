"""The live page of a sweep: how far it is, how its scenarios stand, what its running trials report.

Everything here is of validation data: final runs are compared on the leaderboard alone.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.charts import line_charts
from reports.charts.data import ReportData, TrialPoint
from reports.charts.line_charts import Trace
from reports.charts.search_charts import search
from reports.charts.style import Chart, Look, slug, styles
from reports.charts.tuning import importance
from reports.leaderboard.board import Contest, Leaderboard
from reports.leaderboard.interim import ABOUT, MARK, ranks
from reports.leaderboard.names import told_apart
from reports.page.board_table import tables
from reports.page.gallery import look_of
from reports.page.page import SEARCH, audit, chips, inlined, legend_blocks, render
from reports.page.trial_table import Asked, table
from reports.snapshot import Curve, EntrySnapshot, Snapshot, Trial, spell
from reports.wording.words import params_text
from trials.run.outcome import ENDINGS, TrialKind

COUNTS = ("running", "pruned", "diverged", "failed")
FAILURES = 50
"""The last ones that are listed; all are in the table of trials."""


Links = Mapping[str, str]


@dataclass(frozen=True)
class Live:
    """What the page of a sweep shows: its snapshot, the ids of entries without a rank, the leaderboard of the
    scenarios whose final runs are all there, links, where MLflow's pages are, and all trials.
    """

    sweep: Snapshot
    references: Collection[str] = ()
    board: Leaderboard | None = None
    links: Links = field(default_factory=dict)
    server: str = ""
    trials: Sequence[Trial] = ()


@dataclass(frozen=True)
class Frame:
    """What all pages have: (name, address) of those that each leads to, and the address of the chart library."""

    bar: Sequence[tuple[str, str]] = ()
    script: str = ""


def live_page(live: Live, asked: Asked, frame: Frame) -> str:
    """The page."""
    return render("live.html", **_content(live, asked), frame=frame, here="")


def live_parts(live: Live, asked: Asked) -> str:
    """What of the page changes while the sweep runs."""
    return render("live_parts.html", **_content(live, asked))


def home_page(
    found: Sequence[Live],
    boards: ReportData | None,
    frame: Frame,
    faults: Sequence[str] = (),
) -> str:
    """The first page: the sweeps that there are, those that run first, and the leaderboards; `faults` say what is
    wrong with other sweeps.
    """
    order = sorted(found, key=lambda live: not live.sweep.active)
    look = look_of(boards) if boards else {}
    return render(
        "home.html",
        title="suite",
        sweeps=[{**_summary(live.sweep), "links": live.links} for live in order],
        tables=tables(boards, look) if boards else [],
        legend=legend_blocks(boards.board) if boards else [],
        faults=faults,
        frame=frame,
        here="/",
        script="",
    )


def trial_page(live: Live, trial: Trial, curve: Curve, frame: Frame) -> str:
    """The page of a trial."""
    return render("trial.html", **_trial(live, trial, curve), frame=frame, here="")


def trial_parts(live: Live, trial: Trial, curve: Curve) -> str:
    """What of it changes while the trial runs."""
    return render("trial_parts.html", **_trial(live, trial, curve))


def _trial(live: Live, trial: Trial, curve: Curve) -> dict[str, Any]:
    """What of a trial is known; `repeats` are those of the same configuration."""
    order = [one for one in reversed(live.trials) if one.entry_id == trial.entry_id]
    at = order.index(trial)
    look = styles([trial.name])
    points = [(x, y) for x, y in curve if math.isfinite(y)]
    drawn = []
    if points:
        metric = f"validation {trial.metric}"
        traces = [Trace(trial.name, [x for x, _ in points], [y for _, y in points])]
        spans = line_charts.spans(traces, 1)
        spec = line_charts.lines(traces, look, ("rounds", metric), spans)
        alt = f"{metric} against rounds, {points[-1][1]:.4f} at round {points[-1][0]}"
        drawn = [Chart("trial", f"Validation {trial.metric} against rounds", alt, spec)]
    facts = {
        "scenario": str(trial.scenario),
        "kind": str(trial.kind),
        "origin": trial.origin,
        f"validation {trial.metric}": "" if trial.score is None else f"{trial.score:.4f}",
        "rounds": "" if trial.rounds is None else str(trial.rounds),
        "seconds": "" if trial.seconds is None else f"{trial.seconds:.1f}",
        "seed": str(trial.seed),
    }
    return {
        "title": f"{trial.name} {trial.number} · {live.sweep.name}",
        "sweep": live.sweep.name,
        "trial": trial,
        "found": [(name, text) for name, text in facts.items() if text],
        "params": [
            (name, f"{value:.6g}" if isinstance(value, float) else str(value))
            for name, value in trial.params.items()
        ],
        "charts": inlined(drawn, still=False),
        "before": order[at - 1].trial_id if at else "",
        "after": order[at + 1].trial_id if at + 1 < len(order) else "",
        "links": live.links,
        "script": "",
    }


def _content(live: Live, asked: Asked) -> dict[str, Any]:
    sweep = live.sweep
    ranked = {entry.method for entry in sweep.entries if entry.entry_id not in live.references}
    names = [entry.method for entry in sweep.entries]
    look = styles(names, set(names) - ranked)
    found = live.board and told_apart(live.board, [entry.algorithm for entry in sweep.entries])
    board = ReportData(found, server=live.server) if found else None
    whole = {str(row.scenario) for row in found.rows} if found else set()
    trials = {trial.trial_id: trial for trial in live.trials}
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
        "legend": legend_blocks(found) if found else [],
        "tables": tables(board, look) if board else [],
        "audit": audit(found) if found else [],
        "failures": [
            (trials[trial_id], params_text(trials[trial_id].params), how, why)
            for trial_id, how, why in sweep.failures[: -FAILURES - 1 : -1]
            if trial_id in trials
        ],
        "failed": len(sweep.failures),
        "trials": table(live.trials, asked),
        "entries": [
            (entry.entry_id, f"{entry.name} · {entry.scenario}") for entry in sweep.entries
        ],
        "search": inlined(_search(live, asked), still=False),
        "search_about": SEARCH,
        "links": live.links,
        "mark": MARK,
        "about": ABOUT,
        "script": "",
    }


def _search(live: Live, asked: Asked) -> list[Chart]:
    """Importance, slices and parallel coordinates of the search trials of the entry that is asked for, as far as they have ended."""
    mine = [t for t in live.trials if t.entry_id == asked.entry and t.kind == TrialKind.SEARCH]
    scored = [(t.params, t.score) for t in mine if t.score is not None]
    entry = next((e for e in live.sweep.entries if e.entry_id == asked.entry), None)
    if entry is None or len({str(params) for params, _ in scored}) < 2:
        return []
    points = [
        TrialPoint(
            Contest(live.sweep.name, entry.scenario, False),
            *(t.name, int(t.number.rpartition("s")[2]), t.origin, t.status, t.score, t.params),
            t.number.rpartition("-")[0],
        )
        for t in reversed(mine)
        if t.status in ENDINGS
    ]
    shares = importance(scored, entry.sign > 0)
    title = f"{entry.name} · {entry.scenario}"
    alt = f"{title}: importance " + ", ".join(f"{k} {v:.2f}" for k, v in shares.items())
    spec = search(points, shares, entry.sign > 0)
    return [Chart(f"search-{entry.entry_id}", title, alt, spec)]


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
        "hardware": sweep.hardware,
    }


def _scenario(scenario: str, entries: Sequence[EntrySnapshot], live: Live) -> dict[str, Any]:
    first = entries[0]
    rivals = [None if e.entry_id in live.references else e.best for e in entries]
    rows: list[dict[str, Any]] = [
        {
            "rank": place,
            "label": entry.name,
            "entry": entry.entry_id,
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
