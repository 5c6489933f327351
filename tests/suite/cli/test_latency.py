"""What commands load, what they say while they work, and how long `suite bench latency` finds they take."""

import subprocess
import sys
from pathlib import Path

import pytest

from suite.bench import latency
from tests.support.commands import document, fault, once, study_file, suite, suite_here
from trials.errors import UserError

TINY = """
algorithms: [fedavg, fedprox]
datasets: [digits]
models: [logreg]
heterogeneity: [iid]
trials: 7
seeds: 2
sampler: random
settings: {rounds: 2, clients: 4, participation: 1.0, execution: batched}
"""
LOADED = """
import sys
from suite.cli.app import main

try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("loaded", *sorted({"torch", "optuna", "ray"} & set(sys.modules)), file=sys.stderr)
"""
READERS = (
    "--help",
    "list algorithms",
    "list datasets",
    "list models",
    "list heterogeneity",
    "list studies",
    "list papers",
    "status",
    "tuned list",
    "tuned show",
    "tuned recommend --dataset digits --heterogeneity iid",
    "leaderboard",
    "leaderboard --format html",
    "report",
    "board",
    "publish --output published.zip",
)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished sweep, with enough trials that a report says which hyperparameter mattered."""

    def make(folder: Path) -> None:
        suite_here("sweep", study_file(folder, TINY), cwd=folder)

    return once(tmp_path_factory, "latency", make)


@pytest.mark.parametrize("command", READERS)
def test_commands_that_read_load_neither_torch_nor_optuna_nor_ray(swept: Path, command: str):
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *command.split()], cwd=swept, capture_output=True, text=True
    )
    assert done.stderr.splitlines()[-1] == "loaded", done.stderr[-2000:]


def test_a_sweep_says_what_it_is_at_before_it_loads_anything(tmp_path: Path) -> None:
    """And where its data are refused, Ray is not on its way, and nothing is left."""
    path = study_file(tmp_path, TINY.replace("iid", "natural"))
    done = suite("sweep", path, cwd=tmp_path, code=2)
    *phases, error, _ = done.stderr.splitlines()
    assert phases == [f"reading {path}", "2 entries; loading digits"]
    assert error == "error: study small: 1 fault, nothing was started"
    source = "heterogeneity natural: this data set does not say which client a sample belongs to"
    assert fault(done).splitlines()[1:] == [f"  heterogeneity = 'natural': {source}"]
    assert not (tmp_path / "runs").exists()


def test_a_small_study_is_known_to_fit_without_torch(tmp_path: Path) -> None:
    """So that Ray starts while torch is loaded."""
    code = """
import sys
from pathlib import Path
from suite.execution.cluster import Resources
from suite.execution.estimate import Estimates
from suite.sweeps.paths import SweepPaths
from suite.sweeps.request import SweepRequest

def begin(sweep):
    Estimates(sweep.study, sweep.data, Resources()).refuse(sweep.entries)
    print("torch" in sys.modules)
    sys.exit()

SweepRequest("quickstart", SweepPaths(Path("runs"), "quickstart")).open(begin)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
    assert not list(tmp_path.iterdir())


def test_latency_is_measured_and_held_against_budgets(monkeypatch, tmp_path: Path) -> None:
    ran: list[tuple[str, ...]] = []

    def seconds(command: tuple[str, ...]) -> float:
        ran.append(tuple(command[3:]) if "main()" in command[2] else (command[2],))
        return 0.2 if "--help" in command else 5.0

    monkeypatch.setattr(latency, "_seconds", seconds)
    found = document(suite_here("bench", "latency", "--runs", 3, "--json", cwd=tmp_path))
    rows = {row["command"]: row for row in found["commands"]}
    assert list(rows)[:3] == ["import torch", "import mlflow", "sweep quickstart"]
    assert {name: rows[name]["met"] for name in ("--help", "status", "run", "import torch")} == {
        "--help": True,
        "status": False,
        "run": True,
        "import torch": None,
    }
    assert rows["sweep quickstart"]["budget"] == 45
    assert len(ran) == 3 * len(rows)
    places = {words[words.index("--storage") + 1] for words in ran if "--storage" in words}
    assert len(places) == 3, "each sweep is a new one; the others read the first"
    shown = suite_here("bench", "latency", "--runs", 1, cwd=tmp_path).stdout
    assert "import mlflow" in shown
    assert "medians of 1" in shown


def test_a_command_that_fails_is_not_measured() -> None:
    with pytest.raises(UserError, match="`suite leaderboard`, to be measured, failed:\nno such"):
        latency._seconds((sys.executable, "-c", "raise SystemExit('no such')", "leaderboard"))
