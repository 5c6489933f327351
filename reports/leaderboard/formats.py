"""A leaderboard as text: a table for the terminal, CSV, Markdown, LaTeX."""

import csv
import io
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import groupby
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from reports.leaderboard import audit_wording, interim, interim_wording, pareto
from reports.leaderboard.leaderboard import LACKING, OUTSIDE, Leaderboard, Row
from reports.leaderboard.names import told_apart
from reports.leaderboard.statistics import Across
from reports.leaderboard.wording import (
    behind_text,
    caution,
    label,
    legend,
    mean_text,
    number,
    overall,
    overall_title,
    params_text,
    plain,
    plural,
    rank_text,
    spread_text,
    standings,
    title_of,
    to_target_text,
    total_bytes,
    tuning_notes,
    verdict,
)
from reports.rich_internals import SVG
from reports.terminal import Column, ColumnKind, fitted, left_out
from trials.common.visible import visible

Columns = list[tuple[Column, Callable[[Row], str]]]


def render(board: Leaderboard, form: str) -> str:
    """`csv`, `md`, `latex` or `svg` (a picture of the wide table)."""
    if form == "csv":
        return _csv(board)
    return {"md": _markdown, "latex": _latex, "svg": _svg}[form](_told_apart(board))


def _told_apart(board: Leaderboard) -> Leaderboard:
    return told_apart(board, (row.algorithm for row in board.rows))


PICTURE = 150
"""Characters of a line of a picture."""
ESSENTIAL = 4
"""The rank, the name, the score and what it is behind stay on the narrowest terminal."""


def table(board: Leaderboard, width: int, program: str = "suite") -> Group:
    """For a terminal of `width` characters, on which the suite is called as `program`: what was found amiss, then
    one table a group, and last what its signs mean; bold is the best and what is not shown not to be.
    """
    board = _told_apart(board)
    parts: list[Any] = [Text(caution(board), style="dim"), Text()] if caution(board) else []
    parts += _found(board, program)
    parts += [Text(f"Note: {note}") for note in board.notes] + [Text()] * bool(board.notes)
    heads: set[str] = set()
    narrow: list[str] = []
    for _, members in groupby(board.rows, key=lambda row: row.group):
        rows = list(members)
        columns = _columns(board, rows[0].metric)
        shown, dropped = fitted(
            [column for column, _ in columns],
            [[cell(row) for _, cell in columns] for row in rows],
            width,
            ESSENTIAL,
            styles=["bold" if _among_best(row) else None for row in rows],
        )
        heads |= {column.head for column, _ in columns} - set(dropped)
        narrow += dropped
        title = _title(rows[0]) + _budget(board, rows[0])
        parts += [Text(title, style="bold"), shown, Text(verdict(rows))]
        parts += [*map(Text, tuning_notes(board, rows)), Text()]
    parts += _interim(board, width)
    parts += pareto.tables(board.pareto, width)
    for metric, compared in _several(board).items():
        lines = standings(compared)
        shown, dropped = fitted(ACROSS, lines, width, len(ACROSS))
        narrow += dropped
        parts += [Text(overall_title(metric, compared), style="bold"), shown]
        parts += [Text(" ".join(overall(compared))), Text()]
    parts += left_out(narrow, "--json")
    if board.rows or not board.interim:
        parts.append(Text(legend(board, heads), style="dim"))
    return Group(*parts)


ACROSS = (
    Column("algorithm", ColumnKind.NAME),
    Column("average rank"),
    Column("differs from (Wilcoxon-Holm)", ColumnKind.WORDS),
)


def _interim(board: Leaderboard, width: int) -> list[Any]:
    """A table for each scenario that is not over."""
    parts: list[Any] = []
    for title, lines in interim_wording.tables(board.interim):
        shown, dropped = fitted(interim_wording.COLUMNS, lines, width, 3)
        parts += [Text(f"{title}: {interim.MARK}", style="bold"), shown]
        parts += [*left_out(dropped, "--json"), Text()]
    return [*parts, Text(interim.ABOUT), Text()] if parts else []


def audit_table(board: Leaderboard, width: int) -> Group:
    """For a terminal: how fair the searches were, row by row."""
    if not any(row.audit for row in board.rows):
        return Group(Text("No search trial of these rows is recorded: nothing to audit."))
    columns, lines = audit_wording.facts(_told_apart(board).rows)
    shown, dropped = fitted(columns, lines, width, 2)
    about = Text(audit_wording.ABOUT, style="dim")
    title = Text("Audit of the searches", style="bold")
    return Group(title, shown, *left_out(dropped, "--json"), about, Text())


def _found(board: Leaderboard, program: str) -> list[Any]:
    """What the audit found of the searches, and the commands that mend it."""
    parts: list[Any] = []
    for command, texts in audit_wording.found(board.rows):
        parts += [Text(text) for text in texts]
        called = f"{shlex.quote(program)}{command.removeprefix('suite')}"
        parts.append(Text(f"  {called}", style="cyan", no_wrap=True, overflow="ignore"))
    return (
        [Text("What the audit of the searches found (--audit shows all of it)"), *parts, Text()]
        if parts
        else []
    )


def _columns(board: Leaderboard, metric: str) -> Columns:
    columns: Columns = [
        (Column("#"), rank_text),
        (Column("algorithm", ColumnKind.NAME), label),
        (Column(title_of(metric)), mean_text),
        (Column("behind the best", ColumnKind.MARKED), behind_text),
        (Column("seeds"), lambda row: str(row.seeds)),
    ]
    if board.target is not None:
        columns.append((Column(f"rounds to {board.target:g}"), to_target_text))
    if _replicated(board):
        columns.append((Column("spread by"), spread_text))
    return [
        *columns,
        (Column("worst 10 %"), lambda row: number(row.worst_clients)),
        (Column("k samples"), lambda row: f"{row.sample_gradients / 1e3:,.0f}"),
        (Column("MB"), lambda row: f"{total_bytes(row) / 1e6:.2f}"),
        (Column("trials"), lambda row: str(row.trials)),
        (Column("tuned", ColumnKind.WORDS), lambda row: params_text(row.params)),
    ]


def _replicated(board: Leaderboard) -> bool:
    """Whether entries were searched more than once, so that spreads are of several factors."""
    return any(len(row.spread) > 1 for row in board.rows)


def _several(board: Leaderboard) -> dict[str, Across]:
    """Comparisons over more than one data set."""
    return {metric: found for metric, found in board.overall.items() if len(found.datasets) > 1}


def _among_best(row: Row) -> bool:
    return row.rank is not None and (row.behind == 0 or bool(row.within_noise))


def _title(row: Row) -> str:
    warm = ", warm-started" if row.warm else ""
    return f"{row.scenario} ({row.sweeps}){warm}"


def _budget(board: Leaderboard, row: Row) -> str:
    """The amount that a group is compared at, in words; "" where whole runs are."""
    if row.budget is None:
        return ""
    amount = (
        f"{row.budget / 1e6:.2f} MB"
        if board.at == "bytes"
        else f"{row.budget / 1e3:,.0f} k samples"
    )
    return f", at {amount} of each run"


def _csv(board: Leaderboard) -> str:
    rows = [
        {key: _text(value) for key, value in asdict(row).items()}
        | {"params": params_text(row.params), "audit": _findings(row)}
        for row in board.rows
    ]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["algorithm"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _no_formula(value) for key, value in row.items()} for row in rows)
    return out.getvalue()


def _findings(row: Row) -> str:
    found = row.audit.findings if row.audit else ()
    return "; ".join(f"{finding.kind}: {finding.text}" for finding in found)


def _text(value: Any) -> Any:
    """A value as a spreadsheet takes it: of several the texts, with a space between."""
    if isinstance(value, Mapping):
        return " ".join(f"{key}={inner}" for key, inner in value.items())
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _no_formula(value: Any) -> Any:
    """A value of a table; of text, one that no spreadsheet computes, without what cannot be seen before it."""
    if not isinstance(value, str):
        return value
    shown = visible(value)
    return f"'{shown}" if shown.lstrip().startswith(FORMULA) or shown[:1] in BLANK else shown


FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the begin of a formula, or makes one of on a keyboard of wide letters."""
BLANK = ("\t", "\r", "\n")
"""What some of them drop before it."""


def _markdown(board: Leaderboard) -> str:
    parts = [f"{caution(board)}\n"] if board.rows and caution(board) else []
    for _, members in groupby(board.rows, key=lambda row: row.group):
        rows = list(members)
        columns = _columns(board, rows[0].metric)
        lines = [[column.head for column, _ in columns], ["---"] * len(columns)]
        lines += [[plain(cell(row)) for _, cell in columns] for row in rows]
        parts.append(f"**{plain(_title(rows[0]))}{_budget(board, rows[0])}**\n")
        parts += ["| " + " | ".join(line) + " |" for line in lines]
        parts.append(f"\n{plain(' '.join([verdict(rows), *tuning_notes(board, rows)]))}\n")
    for title, standing in interim_wording.tables(board.interim):
        parts.append(f"**{plain(title)}: {interim.MARK}**\n")
        head = [column.head for column in interim_wording.COLUMNS]
        lines = [head, ["---"] * len(head)]
        lines += [[plain(cell) for cell in line] for line in standing]
        parts += ["| " + " | ".join(line) + " |" for line in lines]
        parts.append(f"\n{interim.ABOUT}\n")
    if any(row.audit for row in board.rows):
        audited, rest = audit_wording.facts(board.rows)
        head = [column.head for column in audited]
        parts.append("**Audit of the searches**\n")
        lines = [head, ["---"] * len(head), *([plain(cell) for cell in line] for line in rest)]
        parts += ["| " + " | ".join(line) + " |" for line in lines]
        for command, texts in audit_wording.found(board.rows):
            parts += ["", *(f"- {plain(text)}" for text in texts), f"\n      {command}"]
        parts.append(f"\n{audit_wording.ABOUT}\n")
    for metric, compared in _several(board).items():
        parts.append(f"**{overall_title(metric, compared)}**\n")
        lines = [[column.head for column in ACROSS], ["---"] * len(ACROSS)]
        lines += [[plain(cell) for cell in line] for line in standings(compared)]
        parts += ["| " + " | ".join(line) + " |" for line in lines]
        parts.append(f"\n{plain(' '.join(overall(compared)))}\n")
    parts += [f"Note: {plain(note)}\n" for note in board.notes]
    return "\n".join(
        [*parts, *([] if board.interim and not board.rows else [plain(legend(board))]), ""]
    )


def _latex(board: Leaderboard) -> str:
    """A tabular with booktabs rules, and in comments what a caption has to say. Of a group the best is bold, with all that is not shown to be behind
    it; where it stands alone, the second is underlined.
    """
    several = len({row.sweeps for row in board.rows}) > 1
    metric = board.metric.replace("_", " ")
    names = ["Data set", "Model", "Heterogeneity", "Algorithm", metric[:1].upper() + metric[1:]]
    head = [*(["Sweep"] * several), *map(_escape, names), "Rank"]
    below = [note for note in board.notes if note.startswith((LACKING, OUTSIDE))]
    notes = [f"Note: {note}" for note in board.notes if note not in below]
    over = ", ".join(dict.fromkeys(plural(row.over) for row in board.rows))
    signs = (
        f"$\\pm$: 95 % Student-t interval over {over}. Bold: the best and what is not shown to be behind it; "
        "a line: under the second, where the best stands alone."
    )
    about = ["needs \\usepackage{booktabs}", caution(board), signs * bool(over), *notes]
    lines = [f"% {' '.join(text.split())}" for text in about if text]
    lines.append(f"\\begin{{tabular}}{{{'l' * (len(head) - 1)}r}}")
    lines += ["\\toprule", " & ".join(head) + " \\\\", "\\midrule"]
    for _, members in groupby(board.rows, key=lambda row: row.group):
        rows = list(members)
        alone = sum(map(_among_best, rows)) == 1
        for row in rows:
            second = "\\underline{%s}" if row.rank == 2 and alone else "%s"
            mark = "\\textbf{%s}" if _among_best(row) else second
            value = mark % mean_text(row).replace("±", "$\\pm$")
            scenario = [*([row.sweeps] * several), *row.scenario, label(row)]
            rank = _escape(rank_text(row)).replace("-", "--")
            lines.append(" & ".join([*map(_escape, scenario), value, rank]) + " \\\\")
        lines.append("\\midrule")
    if lines[-1] == "\\midrule":
        lines.pop()
    foot = [
        f"\\multicolumn{{{len(head)}}}{{p{{\\linewidth}}}}{{\\footnotesize {_escape(note)}}} \\\\"
        for note in below
    ]
    return "\n".join([*lines, "\\bottomrule", *foot, "\\end{tabular}", ""])


def _svg(board: Leaderboard) -> str:
    console = Console(record=True, width=PICTURE, file=io.StringIO(), force_terminal=True)
    console.print(table(board, PICTURE))
    return console.export_svg(title=_command(board), code_format=SVG)


def _command(board: Leaderboard) -> str:
    """The command that shows these rows: of one sweep, or of all sweeps of their studies."""
    sweeps = {row.sweep for row in board.rows} | {one.sweep for one in board.interim}
    names = {"--name": sweeps} if len(sweeps) == 1 else {"--study": set(board.study.split(", "))}
    options = [word for key, of in names.items() for name in sorted(of) for word in (key, name)]
    return shlex.join(["suite", "leaderboard", *options])


def _escape(text: str) -> str:
    return text.translate(ESCAPED)


ESCAPED = str.maketrans(
    {
        **{char: f"\\{char}" for char in "&%$#_{}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        OUTSIDE: "$\\dagger$",
        LACKING: "$\\ddagger$",
        "<": "\\textless{}",
        ">": "\\textgreater{}",
    }
)
"""What LaTeX takes for itself, one character at a time."""
