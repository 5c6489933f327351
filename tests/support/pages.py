"""The text of the documentation."""

from pathlib import Path


def section(page: Path, heading: str) -> str:
    """What a page says under a heading, in one line."""
    of = page.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert of, heading
    return " ".join(of.split())
