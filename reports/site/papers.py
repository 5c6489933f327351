"""The page of a paper: its statements and printed numbers with their verdicts, as they were run again."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from reports.claims.page import measured, published
from reports.leaderboard.wording import short
from reports.page.page import render
from reports.site.addresses import Addresses
from reports.site.data import SiteData

Document = Mapping[str, Any]
"""What `suite reproduce --json` says: of a table, or (`fitted`) of a table under all readings."""


def pages(data: SiteData, to: Addresses) -> dict[str, str]:
    """The pages of all papers, by their addresses."""
    names = dict.fromkeys(document["paper"] for document in data.papers)
    return {to.paper(name): _page(data, to, name) for name in names}


def documents(data: SiteData, to: Addresses) -> dict[str, str]:
    """The documents that the pages are of, as JSON, by their addresses; of fitted ones the page says all."""
    return {
        to.document(document["command"]): json.dumps(document, separators=(",", ":"))
        for document in data.papers
        if not fitted(document)
    }


def _page(data: SiteData, to: Addresses, name: str) -> str:
    mine = [document for document in data.papers if document["paper"] == name]
    methods = dict.fromkeys(
        row.algorithm for row in data.report.board.rows if data.methods[row.algorithm].paper == name
    )
    verdicts: Counter[str] = Counter()
    for document in mine:
        verdicts.update(document["verdicts"])
    return render(
        "site_paper.html",
        root="../",
        title=name,
        name=name,
        cites=mine[0]["cites"],
        verdicts=[(word, count) for word, count in verdicts.most_common() if count],
        methods=[{"name": short(m), "href": f"../{to.method(m)}"} for m in methods],
        documents=[_document(document, to) for document in mine],
    )


def _document(document: Document, to: Addresses) -> dict[str, Any]:
    return {
        "command": document["command"],
        "href": "" if fitted(document) else f"../{to.document(document['command'])}",
        "protocol": document["protocol"],
        "rules": document["rules"],
        "rows": [_fitted(row) if fitted(document) else _row(row) for row in document["rows"]],
    }


def fitted(document: Document) -> bool:
    """Whether a document is of readings that were fitted, and not of one."""
    return "made_with" not in document


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    numbers = [
        [
            one["method"],
            one["metric"],
            published(one),
            measured(one),
            "" if one["difference"] is None else f"{one['difference']:+.3g}",
            _verdict(one),
        ]
        for one in row["numbers"]
    ]
    claims = [
        [
            one["says"],
            one["metric"],
            "" if one["measured"] is None else f"{one['measured']:+.3g}",
            _verdict(one),
        ]
        for one in row["claims"]
    ]
    return _titled(row, claims, ["metric", "difference"], numbers)


def _fitted(row: Mapping[str, Any]) -> dict[str, Any]:
    claims = [
        [
            one["says"],
            str(one["answer"]["of"] or ""),
            ", ".join(one["answer"]["decided_by"]),
            one["answer"]["verdict"],
        ]
        for one in row["judged"]
        if one["method"] is None
    ]
    return _titled(row, claims, ["readings", "what decides"], [])


def _titled(
    row: Mapping[str, Any],
    claims: Sequence[Sequence[str]],
    between: Sequence[str],
    numbers: Sequence[Sequence[str]],
) -> dict[str, Any]:
    return {
        "title": f"{row['source']}, {row['table']}/{row['row']}",
        "about": row["about"][:1].upper() + row["about"][1:],
        "scenario": " · ".join(
            filter(None, (row[k] for k in ("dataset", "model", "heterogeneity")))
        ),
        "note": row["note"],
        "claims": claims,
        "between": between,
        "numbers": numbers,
    }


def _verdict(one: Mapping[str, Any]) -> str:
    return one["verdict"] + (f" ({one['reason']})" if one["reason"] else "")
