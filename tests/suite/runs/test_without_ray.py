"""A list of runs where Ray never starts: on one core they are done in this process, with the numbers they have on Ray."""

from pathlib import Path

import pytest

from suite.execution import cluster
from suite.reproduction import experiments
from tests.support import papers
from tests.support.commands import document, suite_here
from tests.support.papers import SMALL, toy
from trials.run.trial import run


@pytest.fixture(autouse=True)
def never(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_ray_yet: None):
    """A Ray that never starts, and a paper of two methods."""

    monkeypatch.delattr(cluster.ray, "init")
    papers.only(monkeypatch, tmp_path / "spaces", SMALL)
    yield
    experiments.read_paper.cache_clear()


def test_on_one_core_runs_need_no_ray(tmp_path: Path):
    one = ("--set", "max_concurrent=1")
    done = suite_here("reproduce", "toy", "--seeds", 2, "--json", *one, cwd=tmp_path, on_ray=True)
    assert "Ray" not in done.stderr
    (row,) = document(done)["rows"]
    assert row["runs"] == 4
    configured = toy(SMALL).methods["fedprox"]
    alone = [run(configured.spec({}, seed, 5, 5))[0].history[-1] for seed in range(2)]
    (number,) = [n for n in row["numbers"] if n["method"] == "fedprox"]
    assert number["by_seed"] == {str(s): 100 * e["test_accuracy"] for s, e in enumerate(alone)}
    assert not list((tmp_path / "runs").rglob("*.pt")), "no checkpoint is left"
