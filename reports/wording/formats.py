"""A leaderboard as text: tables for the terminal, CSV, Markdown, LaTeX, and a picture."""

import csv
import io
import shlex
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from reports.leaderboard import interim
from reports.leaderboard.board import Leaderboard, Row
from reports.leaderboard.names import as_shown
from reports.rich_internals import SVG
from reports.table import Table, markdown, plain, visible
from reports.terminal import drawn, left_out
from reports.wording import audits, tables
from reports.wording.latex import latex
from reports.wording.words import HEADS, legend, params_text, setting_notes


def render(board: Leaderboard, form: str) -> str:
    """`csv`, `md`, `latex` or `svg` (a picture of the wide table)."""
    if form == "csv":
        return _csv(board)
    return {"md": _markdown, "latex": latex, "svg": _svg}[form](as_shown(board, board))


PICTURE = 150
"""Characters of a line of a picture."""
NO_AUDIT = "No search trial of these rows is recorded: nothing to audit."


def _parts(board: Leaderboard, columns: Collection[str] = ()) -> list[Table | str]:
    """The tables of a leaderboard, and what stands below those of scenarios that are not over."""
    standing = tables.interim_tables(board)
    return [
        *tables.board_tables(board, columns),
        *standing,
        *([interim.ABOUT] if standing else []),
        *(tables.across_table(*found) for found in tables.several(board).items()),
    ]


def table(
    board: Leaderboard,
    width: int,
    program: str = "suite",
    columns: Collection[str] = (),
    explain: bool = False,
) -> Group:
    """Return a leaderboard for a terminal of `width` characters, on which the suite is called as `program`: a table a
    group with the line that answers it, bold what may be the best, and last how it was made and which options say more,
    or what columns mean and how settings differ, to `explain`.
    """
    board = as_shown(board, board)
    parts: list[Any] = []
    narrow: list[str] = []
    for part in _parts(board, columns):
        if isinstance(part, str):
            parts += [Text(part), Text()]
            continue
        shown, dropped = drawn(part, width)
        narrow += dropped
        parts += [Text(part.headline, style="bold"), shown, *map(Text, part.said), Text()]
    parts += left_out(narrow, "--json")
    parts += [Text(f"Note: {note}") for note in board.notes]
    if board.rows or not board.interim:
        parts.append(Text(legend(board), style="dim"))
    if explain:
        parts += [Text(f"{head}: {meaning}", style="dim") for head, meaning in HEADS.items()]
        parts += [Text(f"Note: {note}") for note in setting_notes(board.rows)]
    elif board.rows:
        parts.append(_more(board, program))
    return Group(*parts)


def _more(board: Leaderboard, program: str) -> Text:
    """Return the line with the options that say more, and how much."""
    findings = sum(len(texts) for _, texts in audits.found(board.rows))
    options = []
    for option, what, count in (
        ("--explain", "note", len(setting_notes(board.rows))),
        ("--audit", "finding", findings),
        ("--columns all", "", 0),
    ):
        options.append(option + f" ({count} {what}{'s' * (count > 1)})" * bool(count))
    return Text(f"More: {shlex.quote(program)} leaderboard {', '.join(options)}", style="dim")


def audit_table(board: Leaderboard, width: int, program: str = "suite") -> Group:
    """Return how fair the searches were, row by row, what was found amiss, and the commands that mend it."""
    audited = tables.audit_table(as_shown(board, board))
    if audited is None:
        return Group(Text(NO_AUDIT))
    shown, dropped = drawn(audited, width)
    parts: list[Any] = [Text(audits.TITLE, style="bold"), shown, *left_out(dropped, "--json")]
    for command, texts in audits.found(board.rows):
        parts += [Text(text) for text in texts]
        called = f"{shlex.quote(program)}{command.removeprefix('suite')}"
        parts.append(Text(f"  {called}", style="cyan", no_wrap=True, overflow="ignore"))
    return Group(*parts, Text(audits.ABOUT, style="dim"), Text())


def _csv(board: Leaderboard) -> str:
    rows = [
        {key: _text(value) for key, value in asdict(row).items()}
        | {"params": params_text(row.params), "audit": _findings(row)}
        for row in board.rows
    ]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["algorithm"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: no_formula(value) for key, value in row.items()} for row in rows)
    return out.getvalue()


def _findings(row: Row) -> str:
    found = row.audit.findings if row.audit else ()
    return "; ".join(f"{finding.kind}: {finding.text}" for finding in found)


def _text(value: Any) -> Any:
    """A value as a spreadsheet takes it: of several the texts, with a space between."""
    if isinstance(value, Mapping):
        return " ".join(f"{key}={inner}" for key, inner in value.items())
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def no_formula(value: Any) -> Any:
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
    parts = []
    for part in _parts(board, ["all"]):
        if isinstance(part, str):
            parts.append(part)
            continue
        parts += [f"**{plain(part.headline)}**", markdown(part)]
        parts += [plain(" ".join(part.said))] if part.said else []
    if (audited := tables.audit_table(board)) is not None:
        parts += [f"**{audits.TITLE}**", markdown(audited)]
        for command, texts in audits.found(board.rows):
            parts += ["\n".join(f"- {plain(text)}" for text in texts), f"      {command}"]
        parts.append(audits.ABOUT)
    parts += [f"Note: {plain(note)}" for note in (*board.notes, *setting_notes(board.rows))]
    parts += [] if board.interim and not board.rows else [plain(legend(board))]
    return "\n\n".join(parts) + "\n"


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
