"""Which rule a sweep's searches open by, over resumption, growth and repair."""

import json
from pathlib import Path

import pytest

from suite.execution.cluster import Resources
from suite.studies.opening import OWN, SHARED
from suite.sweeps.events import Begun, read
from suite.sweeps.paths import SweepPaths
from suite.sweeps.repair import repair
from suite.sweeps.request import SweepRequest
from suite.sweeps.sweep import Sweep
from tests.support.searches import BASE
from trials.outcome import Kind

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


def first_rates(sweep: Sweep) -> dict[str, list[float]]:
    return {
        search.entry.algorithm: [a.params["lr"] for a in search.asks[1:]]
        for search in sweep.search.entries.values()
    }


def as_before(paths: SweepPaths) -> None:
    """Make a journal one of a version that named no rule, and had asked nothing yet."""
    begun = json.loads(paths.journal.read_text().splitlines()[0])
    del begun["opening"]
    paths.journal.write_text(json.dumps(begun, separators=(",", ":")) + "\n")


def test_a_new_sweep_shares_and_says_so(tmp_path: Path) -> None:
    paths = SweepPaths(tmp_path, "new")
    sweep = run(paths)
    rates = first_rates(sweep)
    assert rates["fedprox"] == rates["fedavg"]
    begun = json.loads(paths.journal.read_text().splitlines()[0])
    assert begun["opening"] == SHARED == 2
    assert read(begun).opening == SHARED
    (recorded,) = sweep.store.find(sweep="new", kind="sweep")
    assert recorded.tags.opening == SHARED


def test_a_journal_that_names_no_rule_goes_on_by_the_first_and_says_so(tmp_path: Path) -> None:
    paths = SweepPaths(tmp_path, "old")
    run(paths)
    as_before(paths)
    sweep = run(paths, resume=True)
    rates = first_rates(sweep)
    assert not set(rates["fedprox"]) & set(rates["fedavg"])
    assert [json.loads(x).get("opening") for x in paths.journal.read_text().splitlines()[:2]] == [
        None,
        OWN,
    ]
    (recorded,) = sweep.store.find(sweep="old", kind="sweep")
    assert recorded.tags.opening == OWN
    again = run(paths, resume=True, trials=5)
    assert again.search.opening == OWN


@pytest.mark.parametrize("opening", [OWN, SHARED])
def test_a_beginning_that_is_taken_from_the_store_has_its_rule(
    tmp_path: Path, opening: int
) -> None:
    paths = SweepPaths(tmp_path, "torn")
    run(paths)
    if opening == OWN:
        as_before(paths)
        run(paths, resume=True)
    lines = paths.journal.read_bytes().split(b"\n")
    kept = [line for line in lines if not line.startswith(b'{"event":"begin"')]
    paths.journal.write_bytes(b"\n".join([b"soup", *kept]))
    repair(paths)
    begun = paths.state().begun
    assert isinstance(begun, Begun)
    assert begun.opening == opening


def test_levels_that_a_sweep_takes_in_come_after_those_that_it_had(tmp_path: Path) -> None:
    """So published configurations stay with the level that had them, wherever the option lists it."""
    paths = SweepPaths(tmp_path, "grown")
    run(paths)
    request = SweepRequest(FEW, paths, {"heterogeneity": ["iid", "labels(2)"]}, resume=True)
    assert request.read()[1].heterogeneity == ["labels(2)", "iid"]
    whole = {ask.trial_id: ask for ask in paths.state().asks if ask.kind == Kind.SEARCH}
    grown = run(paths, resume=True, heterogeneity=["iid", "labels(2)"])
    assert {k: v for k, v in grown.search.asks.items() if k in whole} == whole
