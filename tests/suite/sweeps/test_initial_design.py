"""How a sweep's searches open, also where it grows."""

from pathlib import Path

import pytest

from suite.execution.cluster import Resources
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.request import SweepRequest
from suite.sweeps.sweep import Sweep
from tests.support.searches import BASE
from trials.run.outcome import TrialKind

FEW = {
    **BASE,
    "algorithms": ["fedprox", "fedavg"],
    "heterogeneity": ["labels(2)"],
    "trials": 4,
    "seeds": 1,
    "sampler": "random",
    "settings": {"rounds": 2, "clients": 4, "participation": 1.0, "execution": "batched"},
}
pytestmark = pytest.mark.usefixtures("in_this_process")


def run(paths: SweepPaths, resume: bool = False, **changes: object) -> Sweep:
    sweep = SweepRequest(FEW, paths, changes, resume=resume).open()
    sweep.run(Resources(max_concurrent=1))
    return sweep


def test_levels_that_a_sweep_takes_in_come_after_those_that_it_had(tmp_path: Path) -> None:
    """So published configurations stay with the level that had them, wherever the option lists it."""
    paths = SweepPaths(tmp_path, "grown")
    run(paths)
    request = SweepRequest(FEW, paths, {"heterogeneity": ["iid", "labels(2)"]}, resume=True)
    assert request.read()[1].heterogeneity == ["labels(2)", "iid"]
    whole = {ask.trial_id: ask for ask in paths.state().requests if ask.kind == TrialKind.SEARCH}
    grown = run(paths, resume=True, heterogeneity=["iid", "labels(2)"])
    assert {k: v for k, v in grown.search.requests.items() if k in whole} == whole
