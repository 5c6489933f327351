"""How commands end where something around them fails: one message, and what is there is shown."""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from mlflow.exceptions import MlflowException

from suite.execution import cluster
from suite.tracking import StoreError
from suite.tracking.store import Store
from tests.support.commands import document, fault, suite_here
from tests.support.simulations import ROOT

READ_ONLY = StoreError("here", MlflowException("attempt to write a readonly database"))


def test_a_run_whose_store_turned_read_only_is_shown(tmp_path: Path):
    options = ("--set", "rounds=1", "--set", "clients=4", "--json")
    with patch.object(Store, "log", side_effect=READ_ONLY):
        done = suite_here("run", *options, cwd=tmp_path, code=3)
    found = document(done)
    assert [entry["round"] for entry in found["history"]] == [0, 1]
    assert "run_id" not in found
    last = done.stderr.splitlines()[-1]
    assert last.startswith("halted: tracking store sqlite:///")
    assert "attempt to write a readonly database" in last


@pytest.mark.parametrize("more", [(), ("--memory-per-trial", "3"), ("--dry-run",)])
def test_a_study_that_can_never_fit_is_refused_before_anything_starts(
    tmp_path: Path, more: tuple[str, ...]
):
    """Neither Ray nor a store."""
    with (
        patch("suite.execution.estimate.machine_memory", return_value=10**6),
        patch.object(cluster, "start", side_effect=AssertionError("Ray was started")),
        patch.object(Store, "__init__", side_effect=AssertionError("a store was made")),
    ):
        done = suite_here("sweep", "smoke", "--algorithms", "fedavg", *more, cwd=tmp_path, code=2)
    assert "this machine can never hold a trial of fedavg · digits · logreg · iid" in fault(done)
    assert not list(tmp_path.iterdir())


def test_a_user_without_a_home_is_told_what_to_set(tmp_path: Path):
    with patch.object(Path, "home", side_effect=RuntimeError):
        assert "HOME" in fault(suite_here("list", "studies", cwd=tmp_path, code=2))


def test_a_current_folder_that_was_deleted_is_said(tmp_path: Path):
    run = "from suite.cli.app import main; main()"
    script = f"mkdir x; cd x; rmdir ../x; exec {sys.executable} -c '{run}' run"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 2
    assert b"current folder" in done.stderr
