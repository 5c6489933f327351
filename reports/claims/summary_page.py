"""How much of the papers was run and what came out, as Markdown."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from reports.claims.page import measured, published
from reports.document import Block, Heading, Text, markdown
from reports.table import Table, table

FIGURE = "summary.svg"
"""The name of the figure beside the page."""


def summary_page(found: Mapping[str, Any]) -> str:
    """The document of `suite reproduce --summary` as a page."""
    about = (
        "A number or a statement is feasible when the suite measures it, its data are at hand and its row "
        f"takes at most {found['minutes']:g} minutes with {found['seeds']} seeds on the machine that counted, "
        "or when it has a verdict already. A statement counts once for each row it is about, and what is printed twice of one "
        "experiment counts once. A document under the declared settings counts before one with `--set`."
    )
    parts: list[Block] = [
        Heading("Published and measured, over all papers", level=1),
        *map(Text, (about, counts(found), _drawing(found))),
    ]
    for paper in found["papers"]:
        parts.append(Heading(paper["paper"], level=2))
        if paper["pages"]:
            parts.append(_pages(paper))
        if paper["claims"]:
            parts.append(_claims(paper))
        if paper["left"]:
            parts += [Text("Without a verdict:"), _left(paper)]
    parts += [Heading("All numbers that were measured", level=2), _numbers(found)]
    return markdown(parts) + "\n"


def counts(found: Mapping[str, Any]) -> str:
    """The table of how many numbers and statements have a verdict, are feasible and are printed."""
    head = ["paper", "numbers: with a verdict", "feasible", "printed"]
    head += ["statements: with a verdict", "feasible", "printed", "numbers", "statements"]
    lines = []
    for paper in [*found["papers"], {"paper": "all", **found["total"]}]:
        kinds = [{**paper, "printed": paper["numbers"]}, paper["statements"]]
        line = [paper["paper"]]
        line += [str(kind[key]) for kind in kinds for key in ("judged", "feasible", "printed")]
        lines.append([*line, *(_verdicts(kind) for kind in kinds)])
    few = found["total"]["few_seeds"] + found["total"]["statements"]["few_seeds"]
    note = f"\n\n{few} of these verdicts rest on fewer than {found['seeds']} seeds." if few else ""
    return markdown([table(head, lines)]) + note


def drawn(found: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The numbers that a figure can show, with their papers: those with a printed and a measured value that
    all seeds have.
    """
    for paper in found["papers"]:
        for dot in paper["dots"]:
            whole = dot["reached_share"] in (None, 1)
            if whole and dot["value"] is not None and dot["measured"] is not None:
                yield paper["paper"], dot


def _drawing(found: Mapping[str, Any]) -> str:
    shown, all_dots = sum(1 for _ in drawn(found)), sum(len(p["dots"]) for p in found["papers"])
    return (
        f"![Published against measured]({FIGURE})\n\nA dot a number, on the line where both are equal. "
        f"{shown} of {all_dots} numbers with a verdict are drawn; the others are targets that one of the "
        "two never reached. All are in the table at the end."
    )


def _verdicts(kind: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(kind["verdicts"].items()) if count)


def _pages(paper: Mapping[str, Any]) -> Table:
    lines = [
        [
            f"[{one['on']}]({quote(one['document'], safe='/=,')})",
            f"`{one['command']}`",
            ", ".join(map(str, one["seeds"])),
            _verdicts(one),
        ]
        for one in paper["pages"]
    ]
    return table(["document", "command", "seeds", "verdicts"], lines)


def _claims(paper: Mapping[str, Any]) -> Table:
    lines = [
        [one["says"], f"{one['table']}/{one['row']}", one["verdict"]] for one in paper["claims"]
    ]
    return table(["statement", "where", "verdict"], lines)


def _left(paper: Mapping[str, Any]) -> Table:
    head = ["why", "where", "numbers", "statements", "would take"]
    lines = [
        [
            one["reason"],
            f"{one['table']}, {_rows(one['rows'])}",
            str(one["numbers"] or ""),
            str(one["statements"] or ""),
            "" if one["minutes"] is None else duration(one["minutes"]),
        ]
        for one in paper["left"]
    ]
    return table(head, lines)


def _rows(rows: list[str]) -> str:
    return rows[0] if len(rows) == 1 else f"{len(rows)} rows"


def _numbers(found: Mapping[str, Any]) -> Table:
    head = ["paper", "where", "method", "metric", "published", "measured", "seeds", "verdict"]
    lines = [
        [
            paper["paper"],
            f"{dot['table']}/{dot['row']}",
            dot["method"],
            dot["metric"],
            published(dot),
            measured({**dot, "ci_low": None}),
            str(dot["seeds"]),
            dot["verdict"],
        ]
        for paper in found["papers"]
        for dot in paper["dots"]
    ]
    return table(head, lines)


def duration(minutes: float) -> str:
    """A duration in the unit a person would use."""
    if minutes < 1:
        return f"{60 * minutes:.0f} s"
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 2880 else f"{minutes / 1440:,.0f} days"
