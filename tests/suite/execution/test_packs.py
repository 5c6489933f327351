"""Which asks begin, and when."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import tune
from ray.tune.schedulers import FIFOScheduler

from suite.execution.packs import PackCallback, Packs, PackScheduler
from suite.execution.stop_signal import Control
from suite.search.trial import TrialRequest
from trials.run.outcome import TrialKind


def four_asks(folder: Path, places: list[int]) -> Packs:
    """Four asks of an entry, whose packs are of two; as many places at once as `places` says."""
    requests = [
        TrialRequest(f"cell-s{i:04d}", "cell", TrialKind.SEARCH, i, "sampled", {}, 0, 0)
        for i in range(4)
    ]
    handed = iter(requests)
    settings = SimpleNamespace(loss="l", dtype="d", execution=None)
    spec = SimpleNamespace(dataset_key="digits", model="logreg", settings=settings)
    source = SimpleNamespace(
        requests={request.trial_id: request for request in requests},
        next=lambda: (request, True) if (request := next(handed, None)) else None,
        spec=lambda request: spec,
    )
    hooks = SimpleNamespace(control=Control(folder), asked=lambda request, new: None)
    plan: Any = SimpleNamespace(source=source, hooks=hooks, packs={"cell": 2})
    return Packs(plan, lambda request: {}, lambda: places[0])


@pytest.mark.parametrize("ending", ["", "stopped", "halted"])
def test_who_waits_joins_a_pack_unless_the_sweep_is_to_end(tmp_path: Path, ending: str) -> None:
    """One of two places is lost, so two asks wait when a trial of the pack ends."""
    places = [2]
    packs = four_asks(tmp_path, places)
    assert packs.start() is not None
    places[0] = 1
    del packs.members["cell-s0000"]["cell-s0000"]
    packs.live.remove("cell-s0000")
    if ending:
        packs.plan.hooks.control.end(ending)
    assert list(packs.refill("cell-s0000")) == ([] if ending else ["cell-s0002"])


def test_a_pack_has_one_place_before_its_process_begins(tmp_path: Path) -> None:
    packs = four_asks(tmp_path, [2])
    begun = [packs.start() for _ in range(3)]
    assert [found and found[0] for found in begun] == ["cell-s0000", "cell-s0002", None]


def test_all_members_die_with_a_process_that_never_began(tmp_path: Path) -> None:
    """As where its node is lost while it starts: Tune says nothing before of such a trial."""
    packs, died = four_asks(tmp_path, [2]), []

    class Noted(tune.Callback):
        def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            died.append((trial.trial_id, trial.local_path))

    found = packs.start()
    assert found is not None
    trial: Any = SimpleNamespace(trial_id=found[0], config=found[1], local_path="there")
    PackCallback(PackScheduler(packs, FIFOScheduler(), Noted())).on_trial_error(0, [], trial)
    assert died == [("cell-s0000", "there"), ("cell-s0001", "there")]
    assert not packs.members
