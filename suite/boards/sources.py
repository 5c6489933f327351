"""What boards are made from: stores, bundles, and both by name."""

import os
from collections.abc import Iterable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from suite.boards.bundle import LISTING, Bundle
from suite.configurations import configuration
from suite.configurations.configuration import Tuned
from trials.common.errors import UserError, unknown

if TYPE_CHECKING:
    from suite.tracking.reader import Reader

NAMED = "board:"
"""Before the name of a bundle below the storage's `boards/`, or of what is shipped."""


def is_bundle(path: Path) -> bool:
    """Whether a path is that of a bundle, a folder or a zip."""
    return path.suffix == ".zip" or os.path.lexists(path / LISTING)


def open_source(text: str, storage: Path) -> tuple[str, "Reader"]:
    """A source of records and its name: the folder of a store, a bundle, or `board:NAME`."""
    path = located(text, storage)
    if is_bundle(path):
        bundle = Bundle.read(path)
        return bundle.name, bundle
    if not os.path.lexists(path / "mlflow.db"):
        raise UserError(
            f"{text} is neither a bundle nor the folder of a store: it has neither {LISTING} nor mlflow.db"
        )
    from suite.tracking.store import open_existing

    return path.resolve().name, open_existing(None, path)


def located(text: str, storage: Path) -> Path:
    """A path, or where `board:NAME` lies: below the storage's `boards/`, or shipped. Raises `UserError` where
    nothing has the name.
    """
    if not text.startswith(NAMED):
        return Path(text)
    name = text.removeprefix(NAMED)
    known = {**shipped(), **registered(storage)}
    if name not in known:
        raise unknown("board", name, known)
    return known[name]


def tuned_of(source: Path) -> list[Tuned]:
    """The tuned files of a bundle, or of a folder or file; raises one `UserError` that names every bad one."""
    if not is_bundle(source):
        return configuration.read_all(source)
    bundle = Bundle.read(source)
    return configuration.check_all(
        {f"{bundle.uri}: {path}": partial(str, text) for path, text in bundle.tuned.items()}
    )


def registered(storage: Path) -> dict[str, Path]:
    """The bundles that lie in `boards/` below a storage, by name."""
    return _named((storage / "boards").glob("*"))


def shipped() -> dict[str, Path]:
    """The bundles and sets of tuned files that are shipped, by name."""
    there = sorted(Path(str(files("search_spaces").joinpath("tuned"))).glob("*"))
    return {path.name: path for path in there if path.is_dir()} | _named(there)


def _named(paths: Iterable[Path]) -> dict[str, Path]:
    """The bundles among these paths, by name."""
    return {path.name.removesuffix(".zip"): path for path in sorted(paths) if is_bundle(path)}
