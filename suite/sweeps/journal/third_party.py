"""Third parties' algorithms by their short names, once a sweep was given their files."""

from contextlib import suppress
from pathlib import Path

from suite.sweeps.journal.events import Begun, read
from suite.sweeps.journal.file import begins, begun
from trials import algorithms
from trials.common.errors import UserError


def spelled(name: str, storage: Path) -> str:
    """An algorithm's name in full: one that is nobody's else is the class of a file that a sweep under
    this storage root was given. Raises `UserError` where two files have one.
    """
    if name in algorithms.ALGORITHMS or ":" in name or name.endswith(".py"):
        return name
    found = {each for each in _given(storage) if algorithms.label(each) == name}
    if len(found) > 1:
        names = " or ".join(sorted(found))
        raise UserError(f"algorithm {name!r} is in several files: {names}")
    return next(iter(found), name)


def _given(storage: Path) -> set[str]:
    """The third parties' algorithms of all sweeps under a storage root."""
    given: set[str] = set()
    for journal in filter(begun, storage.glob("*/journal.jsonl")):
        with suppress(UserError, ValueError):  # another sweep's journal is damaged
            last = read(begins(journal)[-1])
            listed = last.study.get("algorithms", ()) if isinstance(last, Begun) else ()
            given |= {name for name in listed if ":" in str(name)}
    there = map(algorithms.canonical, given)
    return {name for name in there if Path(name.rpartition(":")[0]).exists()}
