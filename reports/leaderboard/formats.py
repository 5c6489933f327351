"""A leaderboard as text: a table for the terminal, CSV, Markdown, LaTeX."""

import csv
import io
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from reports.leaderboard import pareto
from reports.leaderboard.leaderboard import OUTSIDE, Leaderboard, Row
from reports.leaderboard.statistics import CANNOT, DIFFERS, Across
from trials import schedule

Columns = list[tuple[str, Callable[[Row], str]]]


def render(board: Leaderboard, form: str) -> str:
    """`csv`, `md`, `latex`, `html` (a page of its own) or `svg` (a picture of the wide table)."""
    return {"csv": _csv, "md": _markdown, "latex": _latex, "html": _html, "svg": _svg}[form](board)


WIDE = 130
"""Terminals of fewer characters are spared the last `COSTS` columns."""
COSTS = 5


def table(board: Leaderboard, width: int) -> Group:
    """For a terminal of `width` characters, which decides how many columns are shown: one table a
    group; bold is the best and what is within its noise.
    """
    parts: list[Any] = []
    for _, members in groupby(board.rows, key=lambda row: row.group):
        rows = list(members)
        shown = Table()
        columns = _columns(board, rows[0].metric)[: None if width >= WIDE else -COSTS]
        for name, _ in columns:
            left = name in ("algorithm", "tuned")
            shown.add_column(
                name, justify="left" if left else "right", no_wrap=name != "tuned", overflow="fold"
            )
        for row in rows:
            style = "bold" if _among_best(row) else None
            shown.add_row(*(Text(cell(row)) for _, cell in columns), style=style)
        title = _title(rows[0]) + _budget(board, rows[0])
        parts += [Text(title, style="bold"), shown, Text(verdict(rows)), Text()]
    parts += pareto.tables(board.pareto)
    for metric, compared in _several(board).items():
        shown = Table()
        for name in ("algorithm", "average rank", "differs from (Wilcoxon-Holm)"):
            shown.add_column(name, justify="right" if name == "average rank" else "left")
        for line in standings(compared):
            shown.add_row(*map(Text, line))
        parts += [Text(overall_title(metric, compared), style="bold"), shown]
        parts += [Text(" ".join(overall(compared))), Text()]
    parts += [Text(f"Note: {note}") for note in board.notes] + [Text()] * bool(board.notes)
    parts.append(Text(legend(board), style="dim"))
    return Group(*parts)


def _columns(board: Leaderboard, metric: str) -> Columns:
    columns: Columns = [
        ("#", rank_text),
        ("algorithm", label),
        (title_of(metric), mean_text),
        ("behind the best", behind_text),
        ("seeds", lambda row: str(row.seeds)),
    ]
    if board.target is not None:
        columns.append((f"rounds to {board.target:g}", to_target_text))
    return [
        *columns,
        ("worst 10 %", lambda row: number(row.worst_clients)),
        ("k samples", lambda row: f"{row.sample_gradients / 1e3:,.0f}"),
        ("MB", lambda row: f"{total_bytes(row) / 1e6:.2f}"),
        ("trials", lambda row: str(row.trials)),
        ("tuned", lambda row: params_text(row.params)),
    ]


def _several(board: Leaderboard) -> dict[str, Across]:
    """Comparisons over more than one cell."""
    return {metric: found for metric, found in board.overall.items() if len(found.cells) > 1}


def overall_title(metric: str, found: Across) -> str:
    """Of the section that compares algorithms over cells."""
    return f"All {len(found.cells)} cells, {metric.replace('_', ' ')}"


def standings(found: Across) -> list[tuple[str, str, str]]:
    """Each algorithm, its average rank, and what it is shown to differ from."""
    rows = []
    for name, rank in zip(found.algorithms, found.ranks, strict=True):
        pairs = [p for p in found.pairs if name in (p.first, p.second) and p.verdict == DIFFERS]
        others = [short(p.second if p.first == name else p.first) for p in pairs]
        rows.append((short(name), f"{rank:.2f}", ", ".join(others)))
    return rows


def overall(found: Across) -> list[str]:
    """What the tests over cells say, in sentences."""
    n, k = len(found.cells), len(found.algorithms)
    said = []
    if found.friedman is None or found.iman_davenport is None:
        said.append(f"Friedman's test {found.friedman_verdict}.")
    else:
        said.append(
            f"Friedman over {n} cells: p = {found.friedman:.2g} (Iman-Davenport "
            f"{found.iman_davenport:.2g}): {found.friedman_verdict}."
        )
    differ = sum(pair.verdict == DIFFERS for pair in found.pairs)
    cannot = [pair for pair in found.pairs if pair.verdict == CANNOT]
    text = f"Wilcoxon-Holm: {differ} of {len(found.pairs)} pairs differ"
    if cannot:
        least, level = min(pair.smallest for pair in cannot), cannot[0].threshold
        text += (
            f"; {CANNOT} for {len(cannot)}: were all cells to point one way, p would still be at "
            f"least {least:.2g}, above the corrected {level:.2g}"
        )
    said.append(text + ".")
    if found.critical_difference is not None:
        more = ", more than any two ranks can be apart" if found.critical_difference > k - 1 else ""
        said.append(f"Nemenyi: average ranks {found.critical_difference:.2f} apart differ{more}.")
    left = [*map(short, found.left_out_algorithms), *found.left_out_cells]
    if left:
        said.append(f"Left out, since every algorithm must have every cell: {', '.join(left)}.")
    return said


def title_of(metric: str) -> str:
    """A metric as the head of a column."""
    name = metric.replace("_", " ")
    return name if name in ("test accuracy", "test mse") else name.removeprefix("test ")


def total_bytes(row: Row) -> float:
    """Sent up, down and between peers."""
    return row.uploaded_bytes + row.downloaded_bytes + row.peer_bytes


def verdict(rows: list[Row]) -> str:
    """Which differences are larger than the seeds' noise and which are not."""
    rows = [row for row in rows if row.rank is not None]
    if not rows:
        return "References only: nothing is ranked."
    best = label(next(row for row in rows if row.rank == 1 and row.behind_low is None))
    noise = [label(row) for row in rows if row.within_noise]
    clear = [label(row) for row in rows if row.within_noise is False]
    parts = []
    if clear:
        parts.append(f"{best} is ahead of {', '.join(clear)} by more than the seeds' noise.")
    if noise:
        parts.append(f"The lead of {best} over {', '.join(noise)} is within the seeds' noise.")
    if not parts:
        parts.append("Too few algorithms or seeds to tell differences from noise.")
    lost = [f"{label(row)}: {row.failed_seeds} diverged" for row in rows if row.failed_seeds]
    note = f"\nSeeds counted with the untrained model's score: {', '.join(lost)}." if lost else ""
    return " ".join(parts) + note


def rank_text(row: Row) -> str:
    """The rank, or the sign of why there is none."""
    return str(row.rank) if row.rank is not None else OUTSIDE if row.outside else "-"


def label(row: Row) -> str:
    """The algorithm's short name."""
    return short(row.algorithm)


def short(algorithm: str) -> str:
    """An algorithm's short name; a third party's class name."""
    return algorithm.rpartition(":")[2]


def number(value: float | None) -> str:
    """A score, to the decimals that leaderboards show."""
    return "" if value is None else f"{value:.4f}"


def _among_best(row: Row) -> bool:
    return row.rank is not None and (row.behind == 0 or bool(row.within_noise))


def _title(row: Row) -> str:
    warm = ", warm-started" if row.warm else ""
    return f"{row.dataset} · {row.model} · {row.heterogeneity} ({row.sweeps}){warm}"


def _budget(board: Leaderboard, row: Row) -> str:
    """What a group is compared at, where it is not the whole runs."""
    if row.budget is None:
        return ""
    amount = (
        f"{row.budget / 1e6:.2f} MB"
        if board.at == "bytes"
        else f"{row.budget / 1e3:,.0f} k samples"
    )
    return f", at {amount} of each run"


def legend(board: Leaderboard) -> str:
    """What the columns and signs mean."""
    outside = any(row.outside for row in board.rows)
    also = f"; {OUTSIDE}: outside its paper's setting, not ranked either" * outside
    return (
        f"{board.protocol[0].upper()}{board.protocol[1:]}.{_searched(board)} ±: 95 % Student-t "
        "interval over seeds; differences are paired by seed, Bonferroni-corrected for all pairs of a "
        f"cell; ≈: within the seeds' noise, a tie; -: a reference, not ranked{also}. Worst 10 %: of "
        "the clients. k samples: gradients of samples that clients computed, in thousands; MB: sent "
        "up, down and between peers."
    )


def _searched(board: Leaderboard) -> str:
    """How configurations were found; sweep by sweep where that differs."""
    ways = list(dict.fromkeys(board.searched.values()))
    if len(ways) > 1:
        ways = [f"{way} ({sweep})" for sweep, way in board.searched.items()]
    return f" Searched by {', '.join(ways)}." if ways else ""


def mean_text(row: Row) -> str:
    """The mean, and half its interval."""
    if row.ci_low is None or row.ci_high is None:
        return f"{row.mean:.4f}"
    return f"{row.mean:.4f} ± {(row.ci_high - row.ci_low) / 2:.4f}"


def behind_text(row: Row) -> str:
    """How far behind the best, half the interval of that, and whether it is a tie."""
    if row.behind_low is None or row.behind_high is None:
        return "" if row.behind == 0 else f"{row.behind:.4f}"
    half = (row.behind_high - row.behind_low) / 2
    return f"{row.behind:.4f} ± {half:.4f}" + ("  ", " ≈")[bool(row.within_noise)]


def to_target_text(row: Row) -> str:
    """Rounds to the target, and the share of seeds that reached it unless all did."""
    if row.rounds_to_target is None:
        return "never"
    share = "" if row.reached_share == 1 else f" ({row.reached_share:.0%})"
    return f"{row.rounds_to_target:.0f}{share}"


def params_text(params: Mapping[str, Any]) -> str:
    """Hyperparameters on one line."""
    return " ".join(f"{key}={schedule.short(value)}" for key, value in params.items())


def _csv(board: Leaderboard) -> str:
    rows = [{**row, "params": params_text(row["params"])} for row in board.as_dict()["rows"]]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["algorithm"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _markdown(board: Leaderboard) -> str:
    parts = []
    for _, members in groupby(board.rows, key=lambda row: row.group):
        rows = list(members)
        columns = _columns(board, rows[0].metric)
        lines = [[name for name, _ in columns], ["---"] * len(columns)]
        lines += [[cell(row).replace("|", "\\|") for _, cell in columns] for row in rows]
        parts.append(f"**{_title(rows[0])}{_budget(board, rows[0])}**\n")
        parts += ["| " + " | ".join(line) + " |" for line in lines]
        parts.append(f"\n{verdict(rows)}\n")
    for metric, compared in _several(board).items():
        parts.append(f"**{overall_title(metric, compared)}**\n")
        lines = [["algorithm", "average rank", "differs from (Wilcoxon-Holm)"], ["---"] * 3]
        lines += [[cell.replace("|", "\\|") for cell in line] for line in standings(compared)]
        parts += ["| " + " | ".join(line) + " |" for line in lines]
        parts.append(f"\n{' '.join(overall(compared))}\n")
    parts += [f"Note: {note}\n" for note in board.notes]
    return "\n".join([*parts, legend(board), ""])


def _latex(board: Leaderboard) -> str:
    """A tabular with booktabs rules; best bold, second best underlined, per group."""
    several = len({row.sweeps for row in board.rows}) > 1
    metric = board.metric.replace("_", " ")
    names = ["Data set", "Model", "Heterogeneity", "Algorithm", metric[:1].upper() + metric[1:]]
    head = [*(["Sweep"] * several), *map(_escape, names), "Rank"]
    lines = ["% needs \\usepackage{booktabs}", f"\\begin{{tabular}}{{{'l' * (len(head) - 1)}r}}"]
    lines += ["\\toprule", " & ".join(head) + " \\\\", "\\midrule"]
    for _, members in groupby(board.rows, key=lambda row: row.group):
        for row in members:
            marks = {1: "\\textbf{%s}", 2: "\\underline{%s}"}
            value = marks.get(row.rank or 0, "%s") % mean_text(row).replace("±", "$\\pm$")
            place = [
                *([row.sweeps] * several),
                row.dataset,
                row.model,
                row.heterogeneity,
                label(row),
            ]
            rank = _escape(rank_text(row)).replace("-", "--")
            lines.append(" & ".join([*map(_escape, place), value, rank]) + " \\\\")
        lines.append("\\midrule")
    if lines[-1] == "\\midrule":
        lines.pop()
    foot = [
        f"\\multicolumn{{{len(head)}}}{{p{{\\linewidth}}}}{{\\footnotesize {_escape(note)}}} \\\\"
        for note in board.notes
        if note.startswith(OUTSIDE)
    ]
    return "\n".join([*lines, "\\bottomrule", *foot, "\\end{tabular}", ""])


def _svg(board: Leaderboard) -> str:
    console = Console(record=True, width=WIDE + 20, file=io.StringIO(), force_terminal=True)
    console.print(table(board, WIDE))
    return console.export_svg(title=f"suite leaderboard --study {board.study}")


def _escape(text: str) -> str:
    return text.translate(ESCAPED)


ESCAPED = str.maketrans(
    {
        **{char: f"\\{char}" for char in "&%$#_{}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        OUTSIDE: "$\\dagger$",
        "<": "\\textless{}",
        ">": "\\textgreater{}",
    }
)
"""What LaTeX takes for itself, one character at a time."""


def _html(board: Leaderboard) -> str:
    from reports.page.page import leaderboard_page

    return leaderboard_page(board)
