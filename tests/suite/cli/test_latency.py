"""What commands load, and what they say while they work."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import fault, once, study_file, suite_here

TINY = """
{algorithms: [fedavg, fedprox], datasets: [digits], models: [logreg], heterogeneity: [iid],
trials: 7, seeds: 2, sampler: random, settings: {rounds: 2, clients: 4, participation: 1.0, execution: batched}}
"""
LOADED = """
import json, sys
from suite.cli.app import main

loaded = {}
for command in sys.argv[1:]:
    sys.argv[1:] = command.split()
    try:
        main()
    except SystemExit as end:
        assert not end.code, (command, end.code)
    loaded[command] = sorted({"torch", "optuna", "ray"} & set(sys.modules))
print(json.dumps(loaded), file=sys.stderr)
"""
LISTS = ("algorithms", "datasets", "models", "heterogeneity", "studies", "papers")
READERS = (
    *("--help", *(f"list {kind}" for kind in LISTS), "status", "tuned list", "tuned show"),
    *("leaderboard", "leaderboard --format html", "report"),
)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished sweep, with enough trials that a report says which hyperparameter mattered."""

    def make(folder: Path) -> None:
        suite_here("sweep", study_file(folder, TINY), cwd=folder)

    return once(tmp_path_factory, "latency", make)


@pytest.mark.slow("a process that imports MLflow and draws a report")
def test_commands_that_read_load_neither_torch_nor_optuna_nor_ray(swept: Path):
    """All in one process: the first command that loads one of them is the first that has it."""
    typed = [sys.executable, "-c", LOADED, *READERS]
    done = subprocess.run(typed, cwd=swept, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stderr.splitlines()[-1]) == {command: [] for command in READERS}


def test_a_sweep_says_what_it_is_at_before_it_loads_anything(tmp_path: Path) -> None:
    """And where its data are refused, Ray is not on its way, and nothing is left."""
    path = study_file(tmp_path, TINY.replace("iid", "natural"))
    done = suite_here("sweep", path, cwd=tmp_path, code=2)
    *phases, error, _ = done.stderr.splitlines()
    assert phases == [f"reading {path}", "2 entries; loading digits"]
    assert error == "error: study small: 1 fault, nothing was started"
    source = "heterogeneity natural: this data set does not say which client a sample belongs to"
    assert fault(done).splitlines()[1:] == [f"  heterogeneity = 'natural': {source}"]
    assert not (tmp_path / "runs").exists()
