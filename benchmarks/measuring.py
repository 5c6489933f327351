"""Shared by the scripts that measure: options, output and processes. Importing it puts this checkout on the path."""

import argparse
import contextlib
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from reports.table import Column, ColumnKind
from suite.console import emit, out, show_table
from suite.tracking import VARIABLE
from trials.common.names import split_top

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "search_spaces" / "bank"
"""The folder of recorded trials, one row each; docs/edition3.md has the columns."""
SUITE = (sys.executable, "-c", "from suite.cli.app import main; main()")
"""The command `suite` of this checkout; its environment is that of `alone`."""


def parser(about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option `--json`, and a script's docstring as its help text."""
    args = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    args.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return args


def listed(text: str) -> list[str]:
    """Return the names in a text, separated by commas except for commas within brackets."""
    return split_top(text, ",")


def show(document: dict[str, Any], as_json: bool) -> None:
    """Print a document as JSON, or as text: its lists of objects as tables, all other entries one a line."""
    if as_json:
        emit(document)
        return
    for name, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            _table(name, value)
        else:
            out().print(f"{name}: {_text(value)}", highlight=False, soft_wrap=True)


def _table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print a table with one row per object; values that are lists or objects are left out."""
    heads = [name for name, value in rows[0].items() if not isinstance(value, list | dict)]
    words = {head for head in heads if any(isinstance(row.get(head), str) for row in rows)}
    columns = [
        Column(head, ColumnKind.WORDS if head in words else ColumnKind.NUMBER) for head in heads
    ]
    show_table(columns, [[_text(row.get(head)) for head in heads] for row in rows], title=title)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary folder, which is removed afterwards even if processes that end still write into it."""
    folder = Path(tempfile.mkdtemp(prefix="suite-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def alone() -> dict[str, str]:
    """Return the environment for a `SUITE` command, without the variable that sets where runs are recorded."""
    others = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return others | {"PYTHONPATH": str(ROOT)}


def cores() -> list[int]:
    """Return the numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def machine() -> dict[str, Any]:
    """Return the processor's name (where the system has it) and the number of cores that this process may use."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or "unknown",
        "cores": len(cores()),
    }


def descendants(root: int) -> set[int]:
    """Return the ids of a process and of all its descendants (Linux)."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    ids, new = set(), {root}
    while new:
        ids |= new
        new = {pid for pid, parent in parents.items() if parent in new}
    return ids
