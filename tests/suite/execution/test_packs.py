"""Which asks begin, and when."""

from types import SimpleNamespace
from typing import Any

import pytest

from suite.execution.packs import Member, Packs
from suite.execution.stop_signal import Control
from suite.search.trial import Ask
from trials.outcome import Kind


@pytest.mark.parametrize("ending", ["", "stopped", "halted"])
def test_who_waits_joins_a_pack_unless_the_sweep_is_to_end(tmp_path: Any, ending: str) -> None:
    """Four asks for two places; one place is lost, so two asks wait when a trial of the pack ends."""
    asks = [Ask(f"cell-s{i:04d}", "cell", Kind.SEARCH, i, "sampled", {}, 0, 0) for i in range(4)]
    handed = iter(asks)
    settings = SimpleNamespace(loss="l", dtype="d", execution=None)
    spec = SimpleNamespace(dataset_key="digits", model="logreg", settings=settings)
    source = SimpleNamespace(
        asks={ask.trial_id: ask for ask in asks},
        next=lambda: (ask, True) if (ask := next(handed, None)) else None,
        spec=lambda ask: spec,
    )
    hooks = SimpleNamespace(control=Control(tmp_path), asked=lambda ask, new: None)
    plan: Any = SimpleNamespace(source=source, hooks=hooks, packs={"cell": 2})
    places = [2]
    packs = Packs(plan, lambda ask: {}, lambda: places[0])
    found = packs.start()
    assert found is not None
    members = packs.members["cell-s0000"]
    members |= {name: Member(name, {}, None) for name in ("cell-s0000", "cell-s0001")}
    places[0] = 1
    del members["cell-s0000"]
    packs.live.remove("cell-s0000")
    if ending:
        hooks.control.end(ending)
    assert list(packs.refill("cell-s0000")) == ([] if ending else ["cell-s0002"])
