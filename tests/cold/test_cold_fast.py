"""The plain install with the extra `fast`: what computes, with compiled loops."""

import json
from pathlib import Path

import pytest

from tests.support.installed import Installed

pytestmark = pytest.mark.cold
RUN = "suite run --dataset digits --model '{}' --set rounds={} --algorithm {}"


@pytest.fixture(scope="session")
def fast(installed) -> Installed:
    return installed("constraints.txt", "[fast]")


@pytest.mark.parametrize(("model", "rounds"), [("logreg", 1), ("mlp(16)", 2), ("mcmahan_cnn", 3)])
def test_the_first_command(model, rounds, fast: Installed, tmp_path: Path):
    said = fast.types(RUN.format(model, rounds, "fedavg"), tmp_path)
    assert f"finished after {rounds} round{'s' * (rounds > 1)}, " in said


def test_a_sweep_its_board_and_a_replay(fast: Installed, tmp_path: Path):
    done = json.loads(fast.types("suite sweep quickstart --smoke --json", tmp_path))
    assert done["trials_failed"] == 0
    assert fast.types("suite leaderboard", tmp_path)
    run = json.loads(fast.types(RUN.format("logreg", 3, "fedprox") + " --json", tmp_path))
    fast.types(f"suite replay {run['run_id']}", tmp_path)
    fast.types("suite new algorithm SlowMo && suite check slowmo.py", tmp_path)
