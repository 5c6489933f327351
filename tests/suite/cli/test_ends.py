"""How commands end where something around them fails: one message, and what is there is shown."""

import re
from pathlib import Path
from unittest.mock import patch

import pytest
from mlflow.exceptions import MlflowException

from suite.execution import cluster
from suite.tracking.faults import StoreError
from suite.tracking.store import Store
from tests.support.commands import document, fault, suite_here
from trials.common.errors import UserError

READ_ONLY = StoreError("here", MlflowException("attempt to write a readonly database"))


@pytest.mark.parametrize("method", ["create", "log", "set_status"])
def test_a_run_whose_store_turned_read_only_is_shown(tmp_path: Path, method: str):
    options = ("--set", "rounds=1", "--set", "clients=4", "--json")
    with patch.object(Store, method, side_effect=READ_ONLY):
        done = suite_here("run", *options, cwd=tmp_path, code=3)
    found = document(done)
    assert [entry["round"] for entry in found["history"]] == [0, 1]
    assert "run_id" not in found
    assert done.stderr.splitlines()[-1] == (
        f"halted: tracking store sqlite:///{tmp_path}/runs/mlflow.db did not accept the run: attempt to "
        "write a readonly database. What it measured is shown, and is not recorded: run it again when "
        "that is mended."
    )


LATE = Exception("The current node timed out during startup.\nThis could happen because ...")


def test_ray_that_does_not_start_in_time_is_started_again(capsys: pytest.CaptureFixture[str]):
    with (
        patch.object(cluster.ray, "init", side_effect=[LATE, LATE, None]) as init,
        patch.object(cluster.ray, "shutdown"),
    ):
        cluster.start(cluster.Resources()).rmdir()
    assert init.call_count == 3
    late = "Ray did not start (The current node timed out during startup.), attempt {} of 3"
    assert capsys.readouterr().err.splitlines() == ["starting Ray", late.format(1), late.format(2)]
    with (
        patch.object(cluster.ray, "init", side_effect=LATE),
        patch.object(cluster.ray, "shutdown"),
        pytest.raises(UserError, match="Ray did not start on this machine, 3 times in a row: "),
    ):
        cluster.start(cluster.Resources())


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ((), r"0\.\d GB, and there are 0\.0 GB\. Memory is an estimate, .*"),
        (("--set", "memory_per_trial=3"), r"3\.0 GB, and there are 0\.0 GB\. .*"),
    ],
)
@pytest.mark.parametrize("plan", [(), ("--dry-run",)])
def test_a_study_that_can_never_fit_is_refused_before_anything_starts(
    tmp_path: Path, plan: tuple[str, ...], more: tuple[str, ...], says: str
):
    """Neither Ray nor a store."""
    command = ("sweep", "smoke", "--algorithms", "fedavg", *more, *plan)
    with (
        patch("suite.execution.estimate.machine_memory", return_value=10**6),
        patch.object(cluster, "start", side_effect=AssertionError("Ray was started")),
        patch.object(Store, "__init__", side_effect=AssertionError("a store was made")),
    ):
        done = suite_here(*command, cwd=tmp_path, code=2)
    said = "this machine can never hold a trial of fedavg · digits · logreg · iid: it takes "
    assert re.fullmatch(re.escape(said) + says, fault(done))
    assert not list(tmp_path.iterdir())
