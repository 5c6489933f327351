"""Every script that measures, run with the least work, and named by the documents as it is."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import study_file
from tests.support.simulations import ROOT

HERE = ROOT / "benchmarks"
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", HERE / "README.md"]
TINY = """
algorithms: [fedavg]
datasets: [digits]
models: ["mlp(4)"]
heterogeneity: [iid]
trials: 3
seeds: 1
sampler: random
scheduler: none
settings: {rounds: 2, clients: 4, participation: 1.0, execution: batched}
"""


def found(folder: Path, *words: str, code: int = 0) -> Any:
    """What a script of no installed package says."""
    command = [sys.executable, str(HERE / words[0]), *words[1:], "--json"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == code, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow("processes that are measured")
def test_the_engine_beside_a_loop_and_a_peer_that_is_missing(tmp_path: Path) -> None:
    least = ("--runs", "2", "--seconds", "0.01", "--plot", "e.svg")
    (row,) = found(tmp_path, "agree.py", "--algorithms", "scaffold")["pairs"]
    assert row["skipped"].endswith("No module named 'fedlab'")
    told = found(tmp_path, "engine.py", "--workloads", "60-10", "--peers", "fedjax", *least)
    assert told["not_installed"] == ["fedjax"]
    ours, loop = told["systems"]
    assert (ours["system"], loop["system"]) == ("ours", "loop")
    for row in (ours, loop):
        assert len(row["runs"]) == 2
        assert row["samples_per_second"] == pytest.approx(10 * row["steps_per_second"])
        faster = ours["steps_per_second"] / row["steps_per_second"]
        assert row["ours_is_faster"] == pytest.approx(faster)
    assert "<svg" in (tmp_path / "e.svg").read_text()


@pytest.mark.slow("clusters in processes of their own")
@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("sweeps.py", "overhead"), {"trials_per_minute", "plain_trials_per_minute", "ratio"}),
        (("sweeps.py", "memory", "--set", "max_concurrent=1"), {"peak_bytes"}),
    ],
    ids=["overhead", "memory"],
)
def test_a_sweep_is_measured(tmp_path: Path, words: tuple[str, ...], keys: set[str]) -> None:
    told = found(tmp_path, *words, "--study", str(study_file(tmp_path, TINY)))
    assert keys <= told.keys()
    assert all(told[key] for key in keys)


def test_the_documents_name_scripts_that_there_are() -> None:
    named: set[str] = set()
    for page in [*DOCUMENTS, *(ROOT / "docs").rglob("*.md")]:
        named |= set(re.findall(r"python benchmarks/([a-z_]+\.py)", page.read_text()))
    there = {path.name for path in HERE.glob("*.py") if "__main__" in path.read_text()}
    assert named <= there
    systems = {"loop.py", "ours.py"}
    peers = re.compile(r"\w+_peer\.py|agree_\w+\.py")
    assert {name for name in there - named if not peers.fullmatch(name)} == systems


def test_a_store_of_many_runs_is_made_and_read(tmp_path: Path) -> None:
    """Its runs are written past MLflow, and are what every command reads."""
    least = ("--trials", "2", "--entries", "10", "--quick")
    made = found(tmp_path, "scale.py", "make", "store", *least)
    assert (made["runs"], made["final_runs"]) == (10 * (2 + 3), 30)
    read = found(tmp_path, "scale.py", "measure", "store")["commands"]
    assert len(read) > 2
    assert all(row["seconds"] > 0 and row["peak_megabytes"] > 10 for row in read)
