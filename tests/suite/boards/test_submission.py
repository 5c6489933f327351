"""A method that the project has never seen is submitted, verified and shown, as docs/submit.md says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import fault, suite_here
from tests.support.foreign import swept
from tests.support.stores import RECORDED, recorded

METHOD = '''
from dataclasses import dataclass
from trials.algorithms.fedavg import FedAvg

@dataclass(frozen=True)
class Slow(FedAvg):
    """FedAvg with half the server's step."""

    def aggregate(self, state, ids, start, local, fed):
        mean = super().aggregate(state, ids, start, local, fed)["w"]
        return {**state, "w": 0.5 * (state["w"] + mean)}
'''


def suite_fresh(typed: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in a process that nothing of this one is in."""
    code = "from suite.cli.app import main; main()"
    command = [sys.executable, "-c", code, *typed.split()]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture
def received(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A maintainer's folder: a board, and a method and its bundle from a disk that is not here."""
    author, here = tmp_path / "author", tmp_path / "here"
    author.mkdir()
    (author / "slow.py").write_text(METHOD)
    swept(author, **{**RECORDED, "algorithms": [f"{author}/slow.py:Slow"]})
    suite_here("publish", "--output", "slow.zip", cwd=author)
    here.mkdir()
    shutil.copy(recorded(tmp_path_factory) / "s.zip", here / "board.zip")
    for name in ("slow.py", "slow.zip"):
        shutil.move(author / name, here / name)
    shutil.rmtree(author)
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    return here


def test_a_submission_is_verified_and_shown_beside_the_board(received: Path) -> None:
    refused = suite_fresh("verify slow.zip --code .", received)
    assert refused.returncode == 2
    assert "is code that has not run here before" in refused.stderr
    assert (
        suite_fresh("verify slow.zip --code slow.py", received).stdout
        == "slow.zip: identical to the bit\n"
    )
    suite_here("board", "board.zip", "slow.zip", "--output", "site", cwd=received)
    first = (received / "site" / "index.html").read_text()
    methods = re.findall(r'<a href="methods/[^"]+">([^<]+)</a></th>', first)
    assert sorted(methods) == ["Slow", "fedavg", "fedprox", "local_only"]
    assert len(re.findall(r'<th data-fixed class="scenario"', first)) == 4, (
        "in the board's scenarios"
    )


def test_code_with_another_hash_is_not_taken(received: Path) -> None:
    (received / "slow.py").write_text(METHOD + "\n")
    told = fault(suite_here("verify", "slow.zip", "--code", ".", cwd=received, code=2))
    assert re.fullmatch(
        r"bundle slow: no file in \. is /\S+/slow\.py:Slow, SHA-256 [0-9a-f]{64}", told
    )
