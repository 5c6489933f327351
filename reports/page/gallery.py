"""The charts of a report, by the section they stand in."""

from collections import defaultdict

from reports.charts import charts, line_charts
from reports.charts.data import ReportData
from reports.charts.style import Chart, Look, slug, styles
from reports.wording.tables import groups, scenario_text, several
from reports.wording.words import overall_title, plural, short, title_of
from trials.scoring.metrics import direction

Gallery = dict[str, list[Chart]]
"""Charts by section."""
SECTIONS = ("dots", "rounds", "bytes", "ranks", "budget")
"""The kinds of charts that a leaderboard or a sweep has."""


def look_of(data: ReportData) -> Look:
    """Return colour and dash of each algorithm of a report."""
    rows = data.board.rows
    ranked = {row.algorithm for row in rows if row.rank is not None}
    unranked = {row.algorithm for row in rows} - ranked
    return styles([row.algorithm for row in rows], unranked)


def gallery(data: ReportData, look: Look) -> Gallery:
    """Return all charts of a report."""
    sections: Gallery = defaultdict(list)
    for group, rows in groups(data.board).items():
        where, metric = scenario_text(group), rows[0].metric
        name, title = slug(f"{where} {group.sweeps}"), title_of(metric)
        over = " or ".join(dict.fromkeys(plural(row.over) for row in rows))
        alt = f"{where}: {title}, mean and 95 % interval over {over}"
        sections["dots"].append(Chart(f"leaderboard-{name}", where, alt, charts.dots(rows, look)))
        curves = [curve for curve in data.curves if curve.group == group]
        for against in ("rounds", "bytes") if curves else ():
            alt = f"{where}: {title} against {against}, bands are intervals"
            spec = line_charts.curves(curves, look, metric, against)
            sections[against].append(Chart(f"{against}-{name}", where, alt, spec))
        best = {}
        for row in rows:
            trials = data.trials.get((row.sweep, row.entry_id))
            if trials is not None:
                up = direction(metric) == "maximize"
                best[row.algorithm] = line_charts.best_so_far(trials, up)
        if best:
            alt = f"{where}: best validation score so far against search trials"
            spec = line_charts.budget(best, look, metric)
            sections["budget"].append(Chart(f"budget-{name}", where, alt, spec))
    for metric, across in several(data.board).items():
        ranks = zip(across.algorithms, across.ranks, strict=True)
        alt = "Average ranks: " + ", ".join(f"{short(a)} {rank:.2f}" for a, rank in ranks)
        spec, title = charts.ranks(across, look), overall_title(metric, across)
        sections["ranks"].append(Chart(f"ranks-{slug(metric)}", title, alt, spec))
    return sections
