"""The report of a study: one HTML file that needs nothing else, and its figures as files.

`build` draws and writes; what is shown comes from `ReportData` alone.
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reports.leaderboard.leaderboard import Contest, Leaderboard, Row
from reports.leaderboard.pareto import Front
from reports.leaderboard.wording import (
    behind_text,
    label,
    legend,
    mean_text,
    number,
    overall,
    overall_title,
    params_text,
    rank_text,
    short,
    standings,
    title_of,
    to_target_text,
    total_bytes,
    verdict,
)
from reports.page import figures, tuning, tuning_figures
from reports.page.data import ReportData, Trial
from reports.page.figures import SIGN, STYLE, Drawn, Style, slug
from trials.metrics import direction, sign
from trials.outcome import Status


def build(data: ReportData, folder: Path | None = None) -> str:
    """The page; with a folder, its figures are written there as SVG, PNG and PDF too."""
    names = dict.fromkeys(
        [*(row.algorithm for row in data.board.rows), *(t.algorithm for t in data.trials)]
    )
    look = figures.styles(list(names))
    drawn = _drawn(data, look)
    page = _page(data, look, drawn)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for group in drawn.values():
            for one in group:
                figures.files(one, folder)
    return page


def leaderboard_page(board: Leaderboard) -> str:
    """A leaderboard alone as a page: no figures, no search."""
    data = ReportData(board)
    look = figures.styles(list(dict.fromkeys(row.algorithm for row in board.rows)))
    return _page(data, look, defaultdict(list))


Figures = dict[str, list[Drawn]]
"""By section."""


def _drawn(data: ReportData, look: Style) -> Figures:
    found: Figures = defaultdict(list)
    rows_of = {group: list(rows) for group, rows in _groups(data.board).items()}
    for group, rows in rows_of.items():
        name, where = _slug(group), place(group)
        title = f"{where}: {title_of(rows[0].metric)}, mean and 95 % interval over seeds"
        found["dots"].append(Drawn(f"leaderboard-{name}", where, title, _dots(rows, look)))
        mine = [c for c in data.curves if c.group == group]
        if mine:
            for against in ("rounds", "bytes"):
                alt = f"{where}: {title_of(rows[0].metric)} against {against}, bands are intervals"
                fig = figures.curves(mine, look, rows[0].metric, against)
                found[against].append(Drawn(f"{against}-{name}", where, alt, fig))
    for metric, compared in data.board.overall.items():
        if compared.critical_difference is not None and len(compared.datasets) > 1:
            alt = "Average ranks: " + ", ".join(
                f"{short(a)} {r:.2f}"
                for a, r in zip(compared.algorithms, compared.ranks, strict=True)
            )
            fig = figures.critical_difference(compared)
            title = overall_title(metric, compared)
            found["cd"].append(Drawn(f"critical-difference-{slug(metric)}", title, alt, fig))
        found["heat"].append(_heat(metric, rows_of))
    _fronts(data.board, look, found)
    _tuning(data, look, rows_of, found)
    return found


def _fronts(board: Leaderboard, look: Style, found: Figures) -> None:
    """The Pareto fronts of a place's algorithms, each against the same cost."""
    for where, fronts in front_groups(board).items():
        alt = f"{where}: best validation score at each cost, a line for each algorithm"
        drawn = Drawn(f"front-{slug(where)}", where, alt, figures.fronts(fronts, look))
        found["fronts"].append(drawn)


def front_groups(board: Leaderboard) -> dict[str, list[Front]]:
    """The fronts that answer the same question, by its name."""
    groups: dict[str, list[Front]] = defaultdict(list)
    for front in board.pareto:
        cost = front.cost.replace("_", " ")
        groups[f"{front.place} · {cost} · {front.sweep}"].append(front)
    return groups


def _tuning(
    data: ReportData, look: Style, rows_of: Mapping[Contest, list[Row]], found: Figures
) -> None:
    """Best so far, and for each entry its slices and parallel coordinates."""
    by_cell: dict[Contest, dict[str, list[Trial]]] = defaultdict(lambda: defaultdict(list))
    sources = {(row.group, row.algorithm): (row.sweep, row.cell) for row in data.board.rows}
    places = list(sources)
    for trial in sorted(data.trials, key=lambda t: places.index((t.group, t.algorithm))):
        by_cell[trial.group][trial.algorithm].append(trial)
    signed: dict[Contest, dict[str, list[float]]] = {}
    for group, cells in by_cell.items():
        up = direction(rows_of[group][0].metric) == "maximize"
        best = {name: tuning.best_so_far(trials, up) for name, trials in cells.items()}
        signed[group] = {n: [v if up else -v for v in values] for n, values in best.items()}
        fig = figures.budget(best, look, "best validation score")
        alt = f"{place(group)}: best validation score so far against search trials"
        found["budget"].append(Drawn(f"budget-{_slug(group)}", place(group), alt, fig))
        for name, trials in cells.items():
            if len({str(sorted(t.params.items())) for t in trials}) < 3:
                continue
            cell, title = f"{_slug(group)}-{slug(short(name))}", f"{short(name)} · {place(group)}"
            points = [
                (t.params, t.value)
                for t in trials
                if t.status == Status.FINISHED and t.value is not None
            ]
            if not points:
                continue
            share = data.importance.get(sources[group, name])
            if share is None:  # recorded by an earlier version
                share = tuning.importance(points, up)
            alt = f"{title}: importance " + ", ".join(f"{k} {v:.2f}" for k, v in share.items())
            fig = tuning_figures.slices(trials, share, up)
            found["slices"].append(Drawn(f"slices-{cell}", title, alt, fig))
            alt = f"{title}: search trials as lines through their hyperparameters"
            found["parallel"].append(
                Drawn(f"parallel-{cell}", title, alt, tuning_figures.parallel(trials, up))
            )
    ranks = tuning.ranks_by_budget(signed)
    if len(signed) > 1 and ranks:
        fig = figures.budget(ranks, look, "average rank on validation")
        title = f"Average rank over {len(signed)} cells"
        alt = f"{title} of the best configuration so far, against search trials"
        found["budget"].insert(0, Drawn("budget-ranks", title, alt, fig))


def _dots(rows: list[Row], look: Style) -> Figure:
    with mpl.rc_context(STYLE):
        fig = Figure(figsize=(4.4, 0.75 + 0.2 * len(rows)), layout="constrained", facecolor="white")
        axes = fig.subplots()
        for i, row in enumerate(rows):
            hue, _ = look[row.algorithm]
            gid = f"s-{slug(row.algorithm)}"
            if row.ci_low is not None and row.ci_high is not None:
                axes.plot([row.ci_low, row.ci_high], [i, i], color=hue, lw=2.2, gid=gid)
            face = "none" if row.rank is None else hue
            axes.plot([row.mean], [i], "o", ms=5, color=hue, mfc=face, gid=gid)
        axes.set_yticks(range(len(rows)), [label(row) for row in rows])
        axes.invert_yaxis()
        axes.set_xlabel(title_of(rows[0].metric))
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.grid(axis="y", visible=False)
    return fig


def _heat(name: str, rows_of: Mapping[Contest, list[Row]]) -> Drawn:
    groups = [group for group, rows in rows_of.items() if rows[0].compared_as == name]
    better = sign(direction(rows_of[groups[0]][0].metric))
    score = {
        (row.algorithm, group): better * row.mean for group in groups for row in rows_of[group]
    }
    rows = list(dict.fromkeys(algorithm for algorithm, _ in score))
    rows.sort(key=lambda n: -sum(score.get((n, g), min(score.values())) for g in groups))
    table = [[score.get((row, group)) for group in groups] for row in rows]
    apart = [i for i in range(3) if len({group.place[i] for group in groups}) > 1]
    columns = [" · ".join(group.place[i] for i in apart or [2]) for group in groups]
    alt = f"{title_of(name)} of each algorithm (rows) at each heterogeneity level (columns)"
    fig = figures.heat(table, rows, columns)
    return Drawn(f"heat-{slug(name)}", title_of(name), alt, fig)


def place(group: Contest) -> str:
    """The question that a group answers, in a line."""
    return f"{group.place}" + (", warm-started" if group.warm else "")


def _slug(group: Contest) -> str:
    return slug(f"{place(group)} {group.sweeps}")


def _groups(board: Leaderboard) -> dict[Contest, list[Row]]:
    return {key: list(rows) for key, rows in groupby(board.rows, key=lambda row: row.group)}


def _page(data: ReportData, look: Style, drawn: Mapping[str, list[Drawn]]) -> str:
    board = data.board
    inline = {
        section: [{"title": d.title, "width": d.width, "svg": figures.inline(d)} for d in found]
        for section, found in drawn.items()
        if section != "dots"  # each row has its own
    }
    groups = [
        {
            "place": place(group),
            "sweeps": group.sweeps,
            "metric": title_of(rows[0].metric),
            "verdict": verdict(rows),
            "rows": [
                {**_row(data, row, _scale(rows)), "hue": look[row.algorithm][0]} for row in rows
            ],
        }
        for group, rows in _groups(board).items()
    ]
    compared = [
        {
            "title": overall_title(metric, found),
            "standings": standings(found),
            "said": overall(found),
            "pairs": found.pairs,
        }
        for metric, found in board.overall.items()
        if len(found.datasets) > 1
    ]
    chips = [
        {"name": short(name), "slug": slug(name), "hue": hue, "dash": _dash(dash)}
        for name, (hue, dash) in look.items()
    ]
    return (
        _templates()
        .get_template("report.html")
        .render(
            data=data,
            sign=SIGN,
            board=board,
            legend=legend(board),
            groups=groups,
            overall=compared,
            fronts=front_groups(board),
            chips=chips,
            counts=_counts(data),
            figures=defaultdict(list, inline),
            target=board.target,
            several=len({row.dataset for row in board.rows}) > 1,
        )
    )


def _counts(data: ReportData) -> list[tuple[str, int]]:
    """How many there are of what, for the head of the page; crashes also where there are none."""
    rows = data.board.rows
    counts = [
        ("cells", len(rows)),
        ("algorithms", len({row.algorithm for row in rows})),
        ("search trials", len(data.trials)),
        ("final runs", sum(row.seeds for row in rows)),
        ("diverged finals", sum(row.failed_seeds for row in rows)),
        ("crashed", sum(failure.status == Status.FAILED for failure in data.failures)),
    ]
    return [(name, count) for name, count in counts if count or name == "crashed"]


def _scale(rows: list[Row]) -> tuple[float, float]:
    """The least and the largest number of a group's intervals."""
    ends = [v for row in rows for v in (row.mean, row.ci_low, row.ci_high) if v is not None]
    return min(ends), max(ends)


def _row(data: ReportData, row: Row, scale: tuple[float, float]) -> dict[str, Any]:
    start, end = scale

    def at(value: float | None) -> float:
        """The place of a score on the row's picture, 4 to 136."""
        known = row.mean if value is None else value
        return round(4 + 132 * (known - start) / (end - start), 1) if end > start else 70.0

    return {
        "ends": (at(row.ci_low), at(row.mean), at(row.ci_high)),
        "row": row,
        "name": label(row),
        "rank": rank_text(row),
        "slug": slug(row.algorithm),
        "link": data.server + row.page if row.page else "",
        "score": mean_text(row),
        "behind": behind_text(row),
        "target": to_target_text(row),
        "worst": number(row.worst_clients),
        "spread": number(row.client_spread),
        "mb": total_bytes(row) / 1e6,
        "samples": row.sample_gradients / 1e3,
        "params": params_text(row.params),
        "tuned": data.tuned.get((row.sweep, row.cell), ""),
        "best": row.rank is not None and (row.behind == 0 or bool(row.within_noise)),
    }


def _dash(dash: Any) -> str:
    return "" if dash == "-" else " ".join(str(2 * part) for part in dash[1])


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
