"""Bundles of third parties' methods: their code is named by its hash, is not in them, and runs only where it is let."""

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.commands import suite_here
from tests.support.foreign import swept
from trials.common import plugins

OURS = '''
import os
from dataclasses import dataclass
from trials.algorithms.fedavg import FedAvg

with open({log!r}, "a") as log:
    log.write(f"{{os.getpid()}}\\n")

@dataclass(frozen=True)
class Mine(FedAvg):
    """FedAvg."""
'''


def ran(folder: Path) -> bool:
    """Whether the code ran in this process; workers of the sweep before may load it late."""
    log = folder / "ran"
    return log.exists() and str(os.getpid()) in log.read_text().split()


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a bundle `b`, on a machine where nothing was trusted and nothing ran."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "mine.py"
    file.write_text(OURS.format(log=str(tmp_path / "ran")))
    swept(tmp_path, algorithms=[f"{file}:Mine"], trials=1)
    suite_here("publish", "--output", "b", cwd=tmp_path)
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    (tmp_path / "ran").unlink()
    sys.modules.pop(plugins.module_name(str(file)), None)
    return tmp_path


def test_code_runs_only_with_trust(published: Path) -> None:
    file = published / "mine.py"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert json.loads((published / "b" / "bundle.json").read_text())["code"] == {
        f"{file}:Mine": digest
    }
    refused = suite_here("verify", "b", cwd=published, code=2)
    assert refused.stdout == "b: cannot be repeated here\n"
    assert (
        f"  {file}:Mine is code that has not run here before: {file}, SHA-256 {digest}. It would run with all "
        "that you may do: read it, and add --trust\n" in refused.stderr
    )
    suite_here("board", "b", "--output", "site", cwd=published)
    assert not ran(published)
    page = (published / "site" / "scenarios" / "digits-logreg-iid.html").read_text()
    assert "suite run specs/digits-logreg-iid/mine.yaml --seed 1 --trust" in page
    done = suite_here("verify", "b", "--trust", cwd=published)
    assert done.stdout == "b: identical to the bit\n"
    assert ran(published)


def test_code_that_changed_is_not_run(published: Path) -> None:
    file = published / "mine.py"
    file.write_text(file.read_text() + "\n# other\n")
    done = suite_here("verify", "b", "--trust", cwd=published, code=2)
    assert done.stdout == "b: cannot be repeated here\n"
    assert f"{file}:Mine has changed since: SHA-256 was " in done.stderr
    assert not ran(published)
