"""How much of the papers was run and what came out, as Markdown."""

from collections.abc import Mapping
from typing import Any

from reports.claims.page import table


def summary_page(found: Mapping[str, Any]) -> str:
    """The document of `suite reproduce --summary` as a page."""
    total = found["total"]
    lines = [
        [
            paper["paper"],
            *(str(paper[key]) for key in ("judged", "feasible", "numbers")),
            ", ".join(f"{count} {word}" for word, count in sorted(paper["verdicts"].items())),
        ]
        for paper in found["papers"]
    ]
    lines.append(["all", *(str(total[key]) for key in ("judged", "feasible", "numbers")), ""])
    parts = [
        "# Published and measured, over all papers",
        f"A number is feasible when the suite measures its metric, its data are at hand and its row takes at "
        f"most {found['minutes']:g} minutes with {found['seeds']} seeds on the machine that counted.",
        table(["paper", "judged", "feasible", "printed", "verdicts on numbers"], lines),
    ]
    for paper in found["papers"]:
        if paper["claims"]:
            parts += [f"## {paper['paper']}", table(*_claims(paper))]
    return "\n\n".join(parts) + "\n"


def _claims(paper: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    head = ["statement", "where", "verdict", "readings", "what decides"]
    lines = [
        [
            one["says"],
            f"{one['table']}/{one['row']}",
            one["verdict"],
            str(one["readings"] or ""),
            ", ".join(one["decided_by"]),
        ]
        for one in paper["claims"]
    ]
    return head, lines
