"""A page as data: a title, and sections of texts, tables and charts. The same blocks become HTML
(`reports/templates/page.html`) and Markdown (`markdown`).

In texts `x` is code and **x** is bold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from reports import table
from reports.table import Table


@dataclass(frozen=True)
class Heading:
    """A heading inside a section, with a `small` addition."""

    kind: ClassVar[str] = "heading"
    text: str
    small: str = ""
    level: int = 3
    href: str = ""


@dataclass(frozen=True)
class Text:
    """A paragraph; `look` is a class of the style sheet."""

    kind: ClassVar[str] = "text"
    text: str
    look: str = ""


@dataclass(frozen=True)
class Items:
    """A list; with a title it is folded."""

    kind: ClassVar[str] = "items"
    texts: Sequence[str]
    title: str = ""


@dataclass(frozen=True)
class CodeBlock:
    """Commands, or a file."""

    kind: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True)
class Facts:
    """Names with their values; a page lays them out by `look`: `facts`, `signs` or `setting`."""

    kind: ClassVar[str] = "facts"
    facts: Sequence[tuple[str, str]]
    look: str = "facts"


@dataclass(frozen=True)
class Charts:
    """Charts as `reports.page.page.inlined` makes them."""

    kind: ClassVar[str] = "charts"
    charts: Sequence[Mapping[str, str]]
    look: str = ""


@dataclass(frozen=True)
class Fold:
    """Blocks that open below a title."""

    kind: ClassVar[str] = "fold"
    title: str
    blocks: Sequence["Block"]
    look: str = ""


Block = Heading | Text | Items | CodeBlock | Facts | Charts | Fold | Table


@dataclass(frozen=True)
class Section:
    """A part of a page: its fragment, its title, the name of its link, its blocks."""

    key: str
    title: str
    blocks: Sequence[Block]
    link: str = ""
    mark: str = ""
    look: str = ""


@dataclass(frozen=True)
class Page:
    """A page, which stands alone."""

    title: str
    heading: str
    sections: Sequence[Section]
    eyebrow: str = ""
    lead: str = ""
    setting: Sequence[tuple[str, str]] = ()
    footer: str = ""
    chips: Sequence[Mapping[str, str]] = field(default_factory=list)
    filtered: bool = False

    @property
    def has_charts(self) -> bool:
        """Whether it needs the library that draws charts."""
        return any(map(_drawn, (block for section in self.sections for block in section.blocks)))


def _drawn(block: Block) -> bool:
    return isinstance(block, Charts) or (isinstance(block, Fold) and any(map(_drawn, block.blocks)))


def markdown(blocks: Sequence[Block]) -> str:
    """Blocks as Markdown, a blank line between them."""
    return "\n\n".join(filter(None, map(_markdown, blocks)))


def _markdown(block: Block) -> str:
    match block:
        case Heading():
            small = f" · {block.small}" if block.small else ""
            return f"{'#' * block.level} {block.text}{small}"
        case Text():
            return block.text
        case Items():
            title = f"{block.title}:\n\n" if block.title else ""
            return title + "\n".join(f"- {text}" for text in block.texts)
        case CodeBlock():
            return f"```\n{block.text}\n```"
        case Table():
            parts = [f"**{table.plain(block.headline)}**"] if block.title else []
            parts.append(table.markdown(block))
            parts += [table.plain(" ".join(block.said))] if block.said else []
            return "\n\n".join([*parts, *block.notes])
        case _:
            raise TypeError(f"{block.kind}: pages in Markdown have no such block")
