"""What the suite did not write it does not write over: exports, reports, pictures, caches, data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from reports.claims.judged import Reproduction
from tests.support.commands import fault, suite_here
from tests.support.foreign import contents, swept


def wanted(folder: Path) -> dict[str, tuple[tuple[Any, ...], str]]:
    """Commands that write where they are told, and one of the files each writes."""
    return {
        "export": (("tuned", "export", "out"), "out/digits/iid/logreg/fedavg.py"),
        "page": (("report", "--output", "out"), "out/report.html"),
        "figure": (("report", "--output", "out", "--figures", "svg"), "out/figures/*.svg"),
        "reproduction": (("reproduce", "folb/table1", "--output", "out"), "out/folb-table1.md"),
        "document": (("reproduce", "folb/table1", "--output", "out"), "out/folb-table1.json"),
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a finished sweep; papers' tables take no time in it."""
    folder = tmp_path_factory.mktemp("finished")
    swept(folder)
    facts: dict[str, Any] = {"paper": "FOLB", "cites": "x", "made_with": [], "rows": []}
    report = Reproduction(command="suite reproduce folb/table1", **facts)
    with patch("suite.reproduction.reproduce.reproduce", return_value=report):
        yield folder


@pytest.mark.parametrize("case", wanted(Path()))
def test_what_was_written_is_written_again_and_nothing_else(
    finished: Path, tmp_path: Path, case: str
) -> None:
    command, name = wanted(tmp_path)[case]
    if case in ("export", "page", "figure"):
        command += ("--storage", finished / "runs")
    for _ in range(2):
        suite_here(*command, cwd=tmp_path)
    target = next(tmp_path.glob(name))
    target.write_bytes(b"mine, for years")
    before = contents(tmp_path)
    done = suite_here(*command, cwd=tmp_path, code=2)
    assert fault(done).startswith(
        f"{target.relative_to(tmp_path)} exists and was not written by suite"
    )
    assert contents(tmp_path) == before
