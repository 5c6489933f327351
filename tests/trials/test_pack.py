"""A pack's runs: the numbers they have alone, to the bit, whatever runs, ends or fails beside them."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from greenlet import GreenletExit

from tests.support.simulations import (
    ROOT,
    digest,
    finish,
    honoured,
    local_work,
    partitioned,
    settings,
    simulation,
)
from trials.algorithms import ALGORITHMS
from trials.engine.federation import Federation
from trials.engine.pack import Pack
from trials.engine.training import Solver
from trials.run.simulation import Simulation

WHOLE = partitioned([23, 40, 9, 31, 17], shape=(3, 5), classes=4, tests=40)
DATA = replace(WHOLE, val=WHOLE.test[::2], test=WHOLE.test[1::2])
UNEVEN = {"batch_size": 7, "rounds": 3, "lr_decay": 0.9, "dtype": "float32"}
STUDIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "logreg": ("logreg", {}, "iid"),
    "mlp": ("mlp(7,5)", {}, "iid"),
    "some clients": ("mlp(13,6)", {"participation": 0.6, "init": "own"}, "iid"),
    "uneven work": ("mlp(7,5)", {"weight_decay": 0.01}, "iid+system(steps=1..4)"),
    "momentum": ("mlp(7,5)", {"momentum": 0.9}, "iid"),
    "adam": ("mlp(7,5)", {"optimizer": "adam"}, "iid"),
    "kept": ("mlp(7,5)", {"optimizer": "adamw", "keep_moments": True, "participation": 0.6}, "iid"),
    "clipped": ("mlp(7,5)", {"clip_norm": 0.5}, "iid"),
    "single samples": ("mlp(20,20)", {"batch_size": 1, "dtype": "float64"}, "iid"),
}
Make = Callable[..., Simulation]


def makes(study: str, name: str, lr: float = 0.1, **made: Any) -> Make:
    """What makes a simulation of an algorithm under a study's settings, as far as it honours them."""
    model, given, level = STUDIES[study]
    common, level = honoured(name, {**UNEVEN, "execution": "batched", **given}, level)
    common = settings(**{**common, **local_work(name, 2)})
    algorithm = made.pop("algorithm", ALGORITHMS[name])(lr=lr, **made.pop("params", {}))
    data = made.pop("data", DATA)
    return partial(simulation, algorithm, data, common, model, level)


def ends(make: Make, seed: int = 0, **federation: Any) -> str:
    """The digest of a whole run, or what it failed by."""
    try:
        return digest(finish(make(seed, **federation)))
    except (ZeroDivisionError, ValueError, RuntimeError, torch.OutOfMemoryError) as error:
        return repr(error)


def packed(members: list[tuple[Make, int]]) -> list[str]:
    """How runs in one pack end."""
    pack, found = Pack(), {}
    shared = partial(Federation, solver=pack.solver)

    def work(place: int, make: Make, seed: int) -> None:
        found[place] = ends(make, seed, federation=shared)

    pack.run([partial(work, place, *member) for place, member in enumerate(members)])
    return [found[place] for place in range(len(members))]


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each call that trains has."""
    seen: list[int] = []
    follow = Solver.follow
    monkeypatch.setattr(
        Solver, "follow", lambda self, c: seen.append(len(c.start)) or follow(self, c)
    )
    return seen


@pytest.mark.parametrize("study", STUDIES)
def test_every_algorithm_has_the_bits_that_it_has_alone(study: str) -> None:
    """All of them in one pack, two seeds each, so that they differ in calls, rounds and rows."""
    members = [(makes(study, name), seed) for name in ALGORITHMS for seed in (0, 1)]
    assert packed(members) == [ends(make, seed) for make, seed in members]


EXACT = """
import torch
from functools import partial
from tests.support.simulations import *
from trials.engine.pack import Pack
torch.set_num_threads(1)
data = partitioned([23, 40, 9, 31, 17], shape=(3, 5), classes=4, tests=40)
def ends(model, chunk, seed, **how):
    common = settings(batch_size=7, rounds=2, dtype="float32", execution="batched", chunk=chunk)
    return digest(finish(simulation(ALGORITHMS["fedprox"](), data, common, model, seed=seed, **how)))
for model in ("logreg", "mlp(30,9)"):
    alone = [ends(model, None, seed) for seed in range(7)]
    for members in (1, 2, 7):
        for chunk in (None, 1, 3):
            pack = Pack()
            of_pack = partial(Federation, solver=pack.solver)
            found = {}
            def work(seed):
                found[seed] = ends(model, chunk, seed, federation=of_pack)
            pack.run([partial(work, seed) for seed in range(members)])
            assert sorted(found.items()) == list(enumerate(alone[:members])), (model, members, chunk)
    print(alone)
"""


@pytest.mark.slow("two processes with threads of their own")
def test_packs_of_any_size_and_chunk_are_exact_whatever_threads_there_are() -> None:
    said = set()
    for threads in "14":
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", EXACT], env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)
    assert len(said) == 1


def test_what_is_not_exact_is_computed_row_by_row(
    rows: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with more threads, which add up in another order: the probe says so, and no two runs share a call."""
    monkeypatch.setattr("trials.models.base.Model.exact", lambda *given: False)
    members = [(makes("mlp", "fedavg"), seed) for seed in (0, 1)]
    assert packed(members) == [ends(make, seed) for make, seed in members]
    assert set(rows) == {DATA.clients}


@pytest.mark.parametrize("study", ["mlp", "momentum"])
def test_who_diverges_changes_no_other(study: str) -> None:
    """An infinite weight times a coefficient of 0, or added to one of 0, would show."""
    rates = {"fedavg": 1e38, "fedprox": 1e30, "scaffold": 0.1, "feddyn": 0.1, "fedsgd": 1e20}
    members = [
        (makes(study, name, lr), 0)
        for name, lr in rates.items()
        if study == "mlp" or "momentum" not in ALGORITHMS[name].unsupported
    ]
    assert packed(members) == [ends(make, seed) for make, seed in members]


def test_what_is_computed_together_is_computed_once(rows: list[int]) -> None:
    """Sixteen runs of FedAvg take as many calls as one; runs of others meet in those that have terms alike."""
    make = makes("mlp", "fedavg")
    ends(make)
    alone = len(rows)
    packed([(make, 0)] * 16)
    assert rows[alone:] == [16 * DATA.clients] * alone
    rows.clear()
    packed([(makes("mlp", name), 0) for name in ("scaffold", "fedavg", "fedavgm", "feddc")])
    assert sum(rows) == 4 * DATA.clients * UNEVEN["rounds"]
    assert rows.count(2 * DATA.clients) >= UNEVEN["rounds"]


class Breaks(ALGORITHMS["fedavg"]):
    """Fails in round 2."""

    fault: BaseException = ZeroDivisionError("round 2")

    def aggregate(self, state, ids, start, local, fed):
        if fed.round == 2:
            raise self.fault
        return super().aggregate(state, ids, start, local, fed)


@pytest.mark.parametrize(
    "fault",
    [
        ZeroDivisionError("round 2"),
        SystemExit(0),
        GreenletExit(),
        GeneratorExit(),
        StopIteration(),
    ],
    ids=repr,
)
def test_who_raises_what_would_end_a_process_or_a_pack_fails_alone(
    fault: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Breaks, "fault", fault)
    good, bad = makes("mlp", "fedavg"), makes("mlp", "fedavg", algorithm=Breaks)
    first, second, third = packed([(good, 0), (bad, 0), (good, 0)])
    assert first == third == ends(good)
    assert second.startswith(("ZeroDivisionError", "RuntimeError"))


def test_what_memory_does_not_hold_together_is_computed_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what it does not hold alone fails alone."""
    follow = Solver.follow

    def small(self: Solver, course: Any) -> Any:
        pulled = course.pull is not None and bool((course.pull > 0.3).any())
        if len(course.start) > DATA.clients or pulled:
            raise torch.OutOfMemoryError("too large")
        return follow(self, course)

    members = [(makes("mlp", "fedavg"), 0), (makes("mlp", "fedavgm"), 0)]
    alone = [ends(make) for make, _ in members]
    monkeypatch.setattr(Solver, "follow", small)
    *others, greedy = packed([*members, (makes("mlp", "fedprox", params={"mu": 0.5}), 0)])
    assert others == alone
    assert "too large" in greedy


def test_what_differs_in_data_or_model_shares_a_pack_and_no_call() -> None:
    """Nor does what is computed one after the other."""
    other = partitioned([5, 6], shape=(3, 5), classes=4)
    common = settings(execution="batched", batch_size=3)
    members = [
        (partial(simulation, ALGORITHMS["fedavg"](), data, given, model, "iid"), 0)
        for data in (DATA, other)
        for model in ("logreg", "mlp(7,5)", "mlp(5,7)")
        for given in (common, common.model_copy(update={"execution": "sequential"}))
    ]
    assert packed(members) == [ends(make) for make, _ in members]
