"""What `sweeps.py packs|parallel` makes of two sweeps' journals and clocks."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sweeps
from suite.execution.resources import Resources

ENDS = {
    1: [(20.0, 10.0), (30.0, 10.0), (40.0, 30.0)],
    "auto": [(14.0, 4.0), (15.0, 5.0), (19.0, 1.0)],
}
"""When trials ended and how long they took, without packs and with: 3 in 30 and in 9 seconds."""


@pytest.fixture
def two_kinds(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Sweeps that take 44 seconds without packs and 22 with; in which order they ran."""
    clock, order = [0.0], []

    class Sweep:
        def __init__(self, name: str, study: Any, place: Any) -> None:
            self.pack, self.journal = study.pack, Path(place.journal)

        def run(self, resources: Any) -> None:
            order.append(self.pack)
            clock[0] += 44.0 if self.pack == 1 else 22.0
            lines = [
                {"event": "end", "at": at, "outcome": {"seconds": took}}
                for at, took in ENDS[self.pack]
            ]
            self.journal.parent.mkdir(parents=True)
            self.journal.write_text("".join(json.dumps(line) + "\n" for line in lines))

    monkeypatch.setattr(sweeps, "Sweep", Sweep)
    monkeypatch.setattr(sweeps, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    return order


def test_packs_are_compared_from_the_first_trial_on_and_as_a_whole(two_kinds: list[Any]) -> None:
    found = sweeps.packs("perceptrons", Resources(), 2)
    assert two_kinds == [1, "auto", "auto", 1]
    assert found["ratios"] == pytest.approx([10 / 3, 10 / 3])
    assert (found["trials"], found["seconds_packed"], found["seconds_alone"]) == (3, 22.0, 44.0)
    # Two at once: of three trials that end at 14, 15 and 19 seconds, each time.
    found = sweeps.parallel("perceptrons")
    assert two_kinds[4:] == ["auto", "auto"]
    assert found["trials_per_minute_1"] == found["trials_per_minute_2"] == 60 * 2 / 5
