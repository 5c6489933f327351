"""A recorded sweep that boards are made of, and its bundle, made once."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from suite.boards.bundle import LISTING
from suite.boards.folders import listed
from tests.support.commands import once, suite_here
from tests.support.foreign import swept

RECORDED = {
    "algorithms": ["fedavg", "fedprox", "local_only"],
    "datasets": ["digits", "synthetic(1,1)"],
    "heterogeneity": ["iid", "dirichlet(0.3)"],
    "trials": 2,
    "seeds": 2,
}
"""Four scenarios of two data sets; one method is a reference."""


def recorded(temporary: pytest.TempPathFactory) -> Path:
    """A folder with the store `runs` of a sweep `s`, and its bundles `s` and `s.zip`."""

    def make(folder: Path) -> None:
        swept(folder, **RECORDED)
        suite_here("publish", "--output", "s.zip", cwd=folder)
        with zipfile.ZipFile(folder / "s.zip") as archive:
            archive.extractall(folder / "s")

    return once(temporary, "recorded", make)


def forge(folder: Path, path: str, change: Any) -> None:
    """Change the content of a JSON file of a bundle, and its list with it."""
    file = folder / path
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    listing = json.loads((folder / LISTING).read_text())
    files = {name: (folder / name).read_bytes() for name in listing.pop("files")}
    (folder / LISTING).write_bytes(listed(listing, files))
