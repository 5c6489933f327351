"""Algorithms of installed packages that cannot be had are named where algorithms are listed."""

from pathlib import Path

import pytest

from tests.support.commands import document, suite_here
from trials.algorithms import ALGORITHMS

POINTS = """[suite.algorithms]
lost = lost_fl:Lost
plain = plain_fl:Plain
"""
SAID = (
    "left out: algorithm lost of lost-fl (lost_fl:Lost) cannot be imported: "
    """ModuleNotFoundError("No module named 'lost_fl'")\n"""
    "left out: algorithm plain of lost-fl (plain_fl:Plain) has no class 'Plain' that derives from "
    "trials.algorithm.Algorithm\n"
)


@pytest.mark.parametrize("form", ["--json", "--markdown"])
def test_a_list_says_which_algorithms_of_packages_it_leaves_out(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "lost_fl-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lost-fl\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (tmp_path / "plain_fl.py").write_text("class Plain: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    done = suite_here("list", "algorithms", form, cwd=tmp_path)
    assert done.stderr == SAID
    if form == "--json":
        assert [item["name"] for item in document(done)] == list(ALGORITHMS)
    assert suite_here("list", "papers", "--json", cwd=tmp_path).stderr == ""
