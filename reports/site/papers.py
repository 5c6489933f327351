"""The page of a paper: its statements and printed numbers with their verdicts, as they were run again."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reports.claims.page import row_blocks
from reports.document import Block, Heading, Items, Page, Section, Text
from reports.page.page import show
from reports.site.addresses import FOOTER, Addresses
from reports.site.data import SiteData
from reports.table import Cell
from reports.wording.words import short

Document = Mapping[str, Any]
"""What `suite reproduce --json` says of a table."""


def pages(data: SiteData, to: Addresses) -> dict[str, str]:
    """The pages of all papers, by their addresses."""
    names = dict.fromkeys(document["paper"] for document in data.papers)
    return {to.paper(name): show(_page(data, to, name)) for name in names}


def documents(data: SiteData, to: Addresses) -> dict[str, str]:
    """The documents that the pages are of, as JSON, by their addresses."""
    return {
        to.document(document["command"]): json.dumps(document, separators=(",", ":"))
        for document in data.papers
    }


def _page(data: SiteData, to: Addresses, name: str) -> Page:
    mine = [document for document in data.papers if document["paper"] == name]
    methods = dict.fromkeys(
        row.algorithm for row in data.report.board.rows if data.methods[row.algorithm].paper == name
    )
    verdicts: Counter[str] = Counter()
    for document in mine:
        verdicts.update(document["verdicts"])
    return Page(
        title=name,
        heading=f"{name}: published and measured",
        sections=[_section(i, document, to) for i, document in enumerate(mine, 1)],
        eyebrow=mine[0]["cites"],
        setting=[(word, str(count)) for word, count in verdicts.most_common() if count],
        links=[Cell(short(method), href=f"../{to.method(method)}") for method in methods],
        root="../",
        footer=FOOTER,
    )


def _section(number: int, document: Document, to: Addresses) -> Section:
    """A document: its protocol, its rows, and how verdicts are made."""
    text = "The settings and every number by seed, as JSON"
    blocks: list[Block] = [
        Text(f"Protocol: {document['protocol']}.", "legend"),
        Text(text, href=f"../{to.document(document['command'])}"),
    ]
    for row in document["rows"]:
        blocks += [replace(b, level=3) if isinstance(b, Heading) else b for b in row_blocks(row)]
    blocks.append(Items(document["rules"], "How verdicts are made"))
    link = document["command"].split()[2].partition("/")[2]
    return Section(f"document-{number}", f"`{document['command']}`", blocks, link)
