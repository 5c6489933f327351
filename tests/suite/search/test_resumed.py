"""A sweep that is resumed suggests what it would have suggested without: a journal has all that samplers go by."""

import dataclasses
import random
from pathlib import Path

import pytest

from suite.search.sweep_search import SweepSearch
from suite.search.trial import InitialConfiguration
from suite.studies.entries import Entry
from suite.studies.samplers import SAMPLERS
from suite.studies.space import Space
from tests.support.searches import Player, a_study, entries_of, replay
from trials import algorithms
from trials.algorithm import Range, existing

OWN = f"{Path(__file__).parents[3] / 'examples/own_sampler.py'}:make"
TRIALS = {"tpe": 50, OWN: 50, "gp": 20, "random": 20, "grid": 20, "line": 20}
"""Of a sampler: past its start-up, in seconds."""
NESTED = {
    "lr": Range("float", 0.001, 1.0, log=True),
    "kind": Range("choice", choices=("deep", "wide")),
    "depth": Range("int", 1, 9, when={"kind": "deep"}),
    "gate": Range("choice", choices=("open", "shut"), when={"kind": "wide"}),
    "slope": Range("float", 0.1, 100.0, log=True, when={"gate": "open"}),
}


def conditional() -> list[Entry]:
    """The entries of all algorithms with a hyperparameter that exists under others only, and a made-up one."""
    entries = entries_of(algorithms=sorted(algorithms.ALGORITHMS), settings={"participation": 1.0})
    default = {"lr": 0.1, "kind": "deep", "depth": 3, "gate": "open", "slope": 1.0}
    made_up = dataclasses.replace(entries[0], space=Space(NESTED, default))
    return [e for e in [*entries, made_up] if any(spec.when for spec in e.space.ranges.values())]


def deep(entry: Entry) -> list[InitialConfiguration]:
    """Configurations to start from that all have `depth`, which the first models then take to exist always."""
    if "depth" not in entry.space.ranges:
        return []
    depths = [*range(1, 10), *range(1, 6)]
    return [InitialConfiguration("warm", entry.space.default({"depth": depth})) for depth in depths]


def test_every_sampler_is_resumed() -> None:
    assert TRIALS.keys() == {*SAMPLERS, OWN}


@pytest.mark.parametrize("sampler", TRIALS, ids=lambda name: name.rpartition(":")[2])
@pytest.mark.parametrize("entry", conditional(), ids=lambda entry: "-".join(entry.space.ranges))
def test_what_is_suggested_after_a_replay_is_what_was(sampler: str, entry: Entry) -> None:
    """Resumed just before each suggestion; trials of every end come before it, and some still run."""
    study = a_study(sampler=sampler, trials=TRIALS[sampler], seeds=1, grid_points=4)
    warm = {entry.id: deep(entry)}
    player = Player(SweepSearch([entry], study, warm=warm)).play(random.Random(1), concurrent=4)
    for params in (request.params for request in player.requests()):
        assert existing(params, entry.space.ranges) == params, (
            "what exists under the others, and no more"
        )
    log = player.log
    differ = []
    for position, event in enumerate(log):
        if event[0] == "request" and event[1].kind == "search":
            resumed = replay(SweepSearch([entry], study, warm=warm), log[:position])
            (search,) = resumed.entries.values()
            if search.next() != event[1]:
                differ.append(event[1].index)
    assert differ == []
