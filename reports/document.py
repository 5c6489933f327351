"""Texts, lists, code and tables one below the other: as Markdown (`markdown`), and as HTML (`reports/templates`).

In texts `x` is code and **x** is bold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reports import table
from reports.table import Table


@dataclass(frozen=True)
class Heading:
    """A heading, of Markdown alone."""

    text: str
    level: int = 3


@dataclass(frozen=True)
class Text:
    """A paragraph; `look` is a class of the style sheet."""

    text: str
    look: str = ""
    kind = "text"


@dataclass(frozen=True)
class Items:
    """A list below its title, of Markdown alone."""

    texts: Sequence[str]
    title: str = ""


@dataclass(frozen=True)
class CodeBlock:
    """Commands, or a file, of Markdown alone."""

    text: str


Block = Heading | Text | Items | CodeBlock | Table


def markdown(blocks: Sequence[Block]) -> str:
    """Return blocks as Markdown, a blank line between them."""
    return "\n\n".join(filter(None, map(_markdown, blocks)))


def _markdown(block: Block) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {block.text}"
        case Text():
            return block.text
        case Items():
            title = f"{block.title}:\n\n" if block.title else ""
            return title + "\n".join(f"- {text}" for text in block.texts)
        case CodeBlock():
            return f"```\n{block.text}\n```"
        case Table():
            return table.markdown(block)
