"""A leaderboard as text: a table for the terminal, CSV, Markdown, LaTeX."""

import csv
import io
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from reports import pareto
from reports.leaderboard import Leaderboard, Row

Columns = list[tuple[str, Callable[[Row], str]]]


def render(board: Leaderboard, form: str) -> str:
    """`csv`, `md`, `latex` or `svg` (a picture of the wide table)."""
    return {"csv": _csv, "md": _markdown, "latex": _latex, "svg": _svg}[form](board)


WIDE = 130
"""Terminals of fewer characters are spared the last `COSTS` columns."""
COSTS = 4


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
        parts += [Text(title, style="bold"), shown, Text(_verdict(rows)), Text()]
    parts += pareto.tables(board.pareto)
    parts.append(Text(_legend(board), style="dim"))
    return Group(*parts)


def _columns(board: Leaderboard, metric: str) -> Columns:
    columns: Columns = [
        ("#", lambda row: "-" if row.rank is None else str(row.rank)),
        ("algorithm", _label),
        (metric.replace("_", " "), _mean),
        ("behind the best", _behind),
        ("seeds", lambda row: str(row.seeds)),
    ]
    if board.target is not None:
        columns.append((f"rounds to {board.target:g}", _to_target))
    return [
        *columns,
        ("k samples", lambda row: f"{row.sample_gradients / 1e3:,.0f}"),
        ("MB", lambda row: f"{_bytes(row) / 1e6:.2f}"),
        ("trials", lambda row: str(row.trials)),
        ("tuned", lambda row: _params(row.params)),
    ]


def _bytes(row: Row) -> float:
    return row.uploaded_bytes + row.downloaded_bytes + row.peer_bytes


def _verdict(rows: list[Row]) -> str:
    """Which differences are larger than the seeds' noise and which are not."""
    rows = [row for row in rows if row.rank is not None]
    if not rows:
        return "References only: nothing is ranked."
    best = _label(rows[0])
    noise = [_label(row) for row in rows[1:] if row.within_noise]
    clear = [_label(row) for row in rows[1:] if row.within_noise is False]
    parts = []
    if clear:
        parts.append(f"{best} is ahead of {', '.join(clear)} by more than the seeds' noise.")
    if noise:
        parts.append(f"The lead of {best} over {', '.join(noise)} is within the seeds' noise.")
    if not parts:
        parts.append("Too few algorithms or seeds to tell differences from noise.")
    lost = [f"{_label(row)}: {row.failed_seeds} diverged" for row in rows if row.failed_seeds]
    note = f"\nSeeds counted with the untrained model's score: {', '.join(lost)}." if lost else ""
    return " ".join(parts) + note


def _label(row: Row) -> str:
    """The algorithm's short name; a third party's class name."""
    return row.algorithm.rpartition(":")[2]


def _among_best(row: Row) -> bool:
    return row.rank is not None and (row.behind == 0 or bool(row.within_noise))


def _title(row: Row) -> str:
    warm = ", warm-started" if row.warm else ""
    return f"{row.dataset} · {row.model} · {row.heterogeneity} ({row.sweep}){warm}"


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


def _legend(board: Leaderboard) -> str:
    return (
        f"{board.protocol[0].upper()}{board.protocol[1:]}. ±: 95 % Student-t interval over seeds; "
        "differences are paired by seed, Bonferroni-corrected; ≈: within the seeds' noise; -: a "
        "reference, not ranked. k samples: gradients of samples that clients computed, in thousands; "
        "MB: sent up, down and between peers."
    )


def _mean(row: Row) -> str:
    if row.ci_low is None or row.ci_high is None:
        return f"{row.mean:.4f}"
    return f"{row.mean:.4f} ± {(row.ci_high - row.ci_low) / 2:.4f}"


def _behind(row: Row) -> str:
    if row.behind_low is None or row.behind_high is None:
        return "" if row.behind == 0 else f"{row.behind:.4f}"
    half = (row.behind_high - row.behind_low) / 2
    return f"{row.behind:.4f} ± {half:.4f}" + ("  ", " ≈")[bool(row.within_noise)]


def _to_target(row: Row) -> str:
    if row.rounds_to_target is None:
        return "never"
    share = "" if row.reached_share == 1 else f" ({row.reached_share:.0%})"
    return f"{row.rounds_to_target:.0f}{share}"


def _params(params: Mapping[str, Any]) -> str:
    return " ".join(
        f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in params.items()
    )


def _csv(board: Leaderboard) -> str:
    rows = [{**row, "params": _params(row["params"])} for row in board.as_dict()["rows"]]
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
        parts.append(f"\n{_verdict(rows)}\n")
    return "\n".join([*parts, _legend(board), ""])


def _latex(board: Leaderboard) -> str:
    """A tabular with booktabs rules; best bold, second best underlined, per group."""
    several = len({row.sweep for row in board.rows}) > 1
    names = ["Data set", "Model", "Heterogeneity", "Algorithm", board.metric.replace("_", " ")]
    head = [*(["Sweep"] * several), *map(_escape, names), "Rank"]
    lines = ["% needs \\usepackage{booktabs}", f"\\begin{{tabular}}{{{'l' * (len(head) - 1)}r}}"]
    lines += ["\\toprule", " & ".join(head) + " \\\\", "\\midrule"]
    for _, members in groupby(board.rows, key=lambda row: row.group):
        for row in members:
            marks = {1: "\\textbf{%s}", 2: "\\underline{%s}"}
            value = marks.get(row.rank or 0, "%s") % _mean(row).replace("±", "$\\pm$")
            place = [
                *([row.sweep] * several),
                row.dataset,
                row.model,
                row.heterogeneity,
                _label(row),
            ]
            lines.append(" & ".join([*map(_escape, place), value, str(row.rank or "--")]) + " \\\\")
        lines.append("\\midrule")
    if lines[-1] == "\\midrule":
        lines.pop()
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _svg(board: Leaderboard) -> str:
    console = Console(record=True, width=WIDE + 20, file=io.StringIO(), force_terminal=True)
    console.print(table(board, WIDE))
    return console.export_svg(title=f"suite leaderboard --study {board.study}")


def _escape(text: str) -> str:
    for char in "&%$#_{}":
        text = text.replace(char, "\\" + char)
    return text
