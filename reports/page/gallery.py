"""The charts of a report, by the section they stand in."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from reports.charts import charts, line_charts, tuning
from reports.charts.data import ReportData, TrialPoint
from reports.charts.ranks_chart import critical_difference
from reports.charts.style import Chart, Look, slug, styles
from reports.leaderboard.board import Contest, Row
from reports.wording.tables import groups, scenario_text, several
from reports.wording.words import overall_title, plural, short, title_of
from trials.scoring.metrics import direction, sign

Gallery = dict[str, list[Chart]]
"""Charts by section."""


def look_of(data: ReportData) -> Look:
    """Colour and dash of each algorithm of a report."""
    rows = data.board.rows
    ranked = {row.algorithm for row in rows if row.rank is not None}
    unranked = {row.algorithm for row in rows} - ranked
    return styles([*(row.algorithm for row in rows), *(t.algorithm for t in data.trials)], unranked)


def gallery(data: ReportData, look: Look) -> Gallery:
    """All charts of a report."""
    found: Gallery = defaultdict(list)
    rows_of = groups(data.board)
    for group, rows in rows_of.items():
        name, where = _slug(group), scenario_text(group)
        over = " or ".join(dict.fromkeys(plural(row.over) for row in rows))
        alt = f"{where}: {title_of(rows[0].metric)}, mean and 95 % interval over {over}"
        found["dots"].append(Chart(f"leaderboard-{name}", where, alt, charts.dots(rows, look)))
        mine = [c for c in data.curves if c.group == group]
        for against in ("rounds", "bytes") if mine else ():
            alt = f"{where}: {title_of(rows[0].metric)} against {against}, bands are intervals"
            spec = line_charts.curves(mine, look, rows, against)
            found[against].append(Chart(f"{against}-{name}", where, alt, spec))
    across = several(data.board)
    for metric, compared in data.board.overall.items():
        if compared.critical_difference is not None and metric in across:
            ranks = zip(compared.algorithms, compared.ranks, strict=True)
            alt = "Average ranks: " + ", ".join(f"{short(a)} {r:.2f}" for a, r in ranks)
            title = overall_title(metric, compared)
            name = f"critical-difference-{slug(metric)}"
            found["cd"].append(Chart(name, title, alt, critical_difference(compared)))
        found["heat"].append(_heat(metric, rows_of))
    _tuning(data, look, rows_of, found)
    return found


def told_apart(found: Sequence[Contest]) -> list[str]:
    """Each question by that in which they differ: parts of its place, whether it is warm-started, its sweeps."""
    apart = [i for i in range(3) if len({group.scenario[i] for group in found}) > 1] or [2]
    names = [" · ".join(group.scenario[i] for i in apart) for group in found]
    if len({group.warm for group in found}) > 1:
        names = [n + ", warm-started" * group.warm for n, group in zip(names, found, strict=True)]
    return [
        f"{name} ({group.sweeps})" if names.count(name) > 1 else name
        for name, group in zip(names, found, strict=True)
    ]


def _slug(group: Contest) -> str:
    return slug(f"{scenario_text(group)} {group.sweeps}")


def _heat(name: str, rows_of: Mapping[Contest, list[Row]]) -> Chart:
    scenarios = [group for group, rows in rows_of.items() if rows[0].compared_as == name]
    better = sign(direction(rows_of[scenarios[0]][0].metric))
    score = {(row.algorithm, g): better * row.mean for g in scenarios for row in rows_of[g]}
    rows = list(dict.fromkeys(algorithm for algorithm, _ in score))
    rows.sort(key=lambda n: -sum(score.get((n, g), min(score.values())) for g in scenarios))
    table = [[score.get((row, group)) for group in scenarios] for row in rows]
    columns = told_apart(scenarios)
    alt = f"{title_of(name)} of each algorithm (rows) at each heterogeneity level (columns)"
    return Chart(f"heat-{slug(name)}", title_of(name), alt, charts.heat(table, rows, columns))


def _tuning(
    data: ReportData, look: Look, rows_of: Mapping[Contest, list[Row]], found: Gallery
) -> None:
    """The best so far, and the average ranks by budget."""
    by_group: dict[Contest, dict[str, list[TrialPoint]]] = defaultdict(lambda: defaultdict(list))
    order = [(row.group, row.algorithm) for row in data.board.rows]
    for trial in sorted(data.trials, key=lambda t: order.index((t.group, t.algorithm))):
        by_group[trial.group][trial.algorithm].append(trial)
    signed: dict[Contest, dict[str, list[float]]] = {}
    for group, of_group in by_group.items():
        better = sign(direction(rows_of[group][0].metric))
        best = {name: tuning.best_so_far(trials, better > 0) for name, trials in of_group.items()}
        signed[group] = {n: [better * v for v in values] for n, values in best.items()}
        spec = line_charts.budget(best, look, "best validation score", better)
        alt = f"{scenario_text(group)}: best validation score so far against search trials"
        found["budget"].append(Chart(f"budget-{_slug(group)}", scenario_text(group), alt, spec))
    ranks = tuning.ranks_by_budget(signed)
    if len(signed) > 1 and ranks:
        spec = line_charts.average_ranks(ranks, look)
        title = f"Average rank over {len(signed)} scenarios"
        alt = f"{title} of the best configuration so far, against search trials"
        found["budget"].insert(0, Chart("budget-ranks", title, alt, spec))
