"""A pack's runs: the numbers they have alone, to the bit, whatever runs, ends or fails beside them."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import numpy as np
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
from trials.common.plugins import ExitedError
from trials.datasets.base import OnDemand
from trials.engine import federation
from trials.engine.federation import Federation
from trials.engine.pack import Pack
from trials.engine.training import Solver
from trials.federated_data import FederatedData
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
    "clipped": ("mlp(7,5)", {"clip_norm": 0.5}, "iid"),
    "single samples": ("mlp(20,20)", {"batch_size": 1, "dtype": "float64"}, "iid"),
}
Make = Callable[..., Simulation]


def makes(study: str, name: str, lr: float = 0.1) -> Make:
    """What makes a simulation of an algorithm under a study's settings, as far as it honours them."""
    model, given, level = STUDIES[study]
    common, level = honoured(name, {**UNEVEN, "execution": "batched", **given}, level)
    common = settings(**{**common, **local_work(name, 2)})
    return partial(simulation, ALGORITHMS[name](lr=lr), DATA, common, model, level)


def ends(make: Make, seed: int = 0, **federation: Any) -> str:
    """The digest of a whole run."""
    return digest(finish(make(seed, **federation)))


def packed(makes: list[tuple[Make, int]]) -> list[str]:
    """The digests of runs in one pack."""
    pack = Pack()
    shared = partial(Federation, solver=pack.solver)
    return pack.run([partial(ends, make, seed, federation=shared) for make, seed in makes])


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
            works = [partial(ends, model, chunk, seed, federation=of_pack) for seed in range(members)]
            assert pack.run(works) == alone[:members], (model, members, chunk)
    print(alone)
"""


def test_packs_of_any_size_and_chunk_are_exact_whatever_threads_there_are() -> None:
    said = set()
    for threads in "124":
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", EXACT], env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        said.add(done.stdout)
    assert len(said) == 1


def test_what_is_not_exact_is_computed_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with more threads, which add up in another order: the probe says so, and no two runs share a call."""
    rows: list[int] = []
    follow = Solver.follow
    monkeypatch.setattr(
        Solver, "follow", lambda self, c: rows.append(len(c.start)) or follow(self, c)
    )
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
        if not {"momentum"} & set(ALGORITHMS[name].unsupported) & set(STUDIES[study][1])
    ]
    assert packed(members) == [ends(make, seed) for make, seed in members]


def test_what_is_computed_together_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen runs of FedAvg take as many calls as one; and as many plans and initial weights."""
    calls: dict[str, int] = {}

    def counted(name: str) -> None:
        method = getattr(Solver, name)

        def noted(self: Solver, *given: Any) -> Any:
            calls[name] = calls.get(name, 0) + 1
            return method(self, *given)

        monkeypatch.setattr(Solver, name, noted)

    for name in ("follow", "rated"):
        counted(name)
    for module, name in (
        ("federation.minibatches", "minibatches"),
        ("federation.Model.initial", "initial"),
    ):
        monkeypatch.setattr(f"trials.engine.{module}", noted_calls(calls, name, module))
    make = makes("mlp", "fedavg")
    ends(make)
    alone = dict(calls)
    calls.clear()
    packed([(make, 0)] * 16)
    assert calls == alone


def noted_calls(calls: dict[str, int], name: str, place: str) -> Callable[..., Any]:
    """What stands at a place of the engine, counted."""
    there: Any = federation
    for part in place.split(".")[1:]:
        there = getattr(there, part)

    @wraps(there)
    def noted(*given: Any) -> Any:
        calls[name] = calls.get(name, 0) + 1
        return there(*given)

    return noted


def test_runs_of_one_algorithm_meet_whatever_else_others_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What has a shift is computed with what has one, whatever it is, and what has none with what has none."""
    rows: list[int] = []
    follow = Solver.follow
    monkeypatch.setattr(
        Solver, "follow", lambda self, c: rows.append(len(c.start)) or follow(self, c)
    )
    packed([(makes("mlp", name), 0) for name in ("scaffold", "fedavg", "fedavgm", "feddc")])
    assert sum(rows) == 4 * DATA.clients * UNEVEN["rounds"]
    assert rows.count(2 * DATA.clients) >= UNEVEN["rounds"]


class Breaks(ALGORITHMS["fedavg"]):
    """Fails in round 2."""

    def aggregate(self, state, ids, start, local, fed):
        if fed.round == 2:
            raise ZeroDivisionError("round 2")
        return super().aggregate(state, ids, start, local, fed)


def test_who_raises_fails_alone() -> None:
    pack = Pack()
    shared = partial(Federation, solver=pack.solver)

    def caught(make: Make) -> str:
        try:
            return ends(make, federation=shared)
        except ZeroDivisionError as error:
            return repr(error)

    good = makes("mlp", "fedavg")
    bad = partial(good.func, Breaks(), *good.args[1:])
    found = pack.run([partial(caught, make) for make in (good, bad, good)])
    assert found == [ends(good), "ZeroDivisionError('round 2')", ends(good)]


@pytest.mark.parametrize("end", [SystemExit(0), GreenletExit(), GeneratorExit()], ids=repr)
def test_what_would_end_a_process_or_a_pack_ends_its_run_alone(
    end: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(*given: Any) -> None:
        raise end

    def caught(make: Make) -> str:
        try:
            return ends(make, federation=shared)
        except ExitedError as error:
            return str(error)

    monkeypatch.setattr(Breaks, "aggregate", raises)
    pack = Pack()
    shared = partial(Federation, solver=pack.solver)
    good = makes("mlp", "fedavg")
    bad = partial(good.func, Breaks(), *good.args[1:])
    found = pack.run([partial(caught, make) for make in (good, bad, good)])
    says = "it called sys.exit(0)" if isinstance(end, SystemExit) else f"it raised {end!r}"
    assert found == [ends(good), says, ends(good)]


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

    makers = [makes("mlp", "fedavg"), makes("mlp", "fedavgm")]
    alone = [ends(make) for make in makers]
    monkeypatch.setattr(Solver, "follow", small)
    assert packed([(make, 0) for make in makers]) == alone
    greedy = makes("mlp", "fedprox")
    greedy = partial(greedy.func, ALGORITHMS["fedprox"](mu=0.5), *greedy.args[1:])
    pack = Pack()
    shared = partial(Federation, solver=pack.solver)

    def caught(make: Make) -> str:
        try:
            return ends(make, federation=shared)
        except torch.OutOfMemoryError as error:
            return str(error)

    found = pack.run([partial(caught, make) for make in (makers[0], greedy)])
    assert found == [alone[0], "too large"]


class Torn(OnDemand):
    """The samples of `WHOLE`, made when they are met; the first client's raise."""

    key, shape = "torn", WHOLE.dataset.x.shape

    def __init__(self, fault: BaseException) -> None:
        self.fault = fault

    def take(self, ids: np.ndarray) -> np.ndarray:
        if set(ids.tolist()) & set(WHOLE.train[: WHOLE.offsets[1]].tolist()):
            raise self.fault
        return WHOLE.dataset.x[ids]


@pytest.mark.parametrize("fault", [ValueError("lost"), SystemExit("lost")], ids=repr)
def test_whose_samples_cannot_be_made_fails_alone(fault: BaseException) -> None:
    """Two partitions of a data set are computed together; the samples that fail are in one of them."""
    torn = replace(DATA, dataset=replace(WHOLE.dataset, x=Torn(fault)))
    rest = replace(torn, train=WHOLE.train[WHOLE.offsets[1] :], offsets=WHOLE.offsets[1:] - 23)
    pack = Pack()
    good, bad = makes("mlp", "fedavg"), makes("mlp", "folb")

    def caught(make: Make, data: FederatedData) -> str:
        shared = partial(Federation, solver=pack.solver)
        try:
            return ends(partial(make.func, make.args[0], data, *make.args[2:]), federation=shared)
        except (ValueError, ExitedError) as error:
            return str(error)

    found = pack.run([partial(caught, good, rest), partial(caught, bad, torn)])
    alone = ends(partial(good.func, good.args[0], rest, *good.args[2:]))
    assert found == [
        alone,
        str(fault) if isinstance(fault, ValueError) else "it called sys.exit('lost')",
    ]


def test_what_differs_in_data_or_model_shares_a_pack_and_no_call() -> None:
    """Nor does what is computed one after the other."""
    other = partitioned([5, 6], shape=(3, 5), classes=4)
    common = settings(execution="batched", batch_size=3)
    runs = [
        partial(simulation, ALGORITHMS["fedavg"](), data, given, model)
        for data in (DATA, other)
        for model in ("logreg", "mlp(7,5)", "mlp(5,7)")
        for given in (common, common.model_copy(update={"execution": "sequential"}))
    ]
    members = [(partial(_seeded, run), 0) for run in runs]
    assert packed(members) == [ends(make) for make, _ in members]


def _seeded(make: Callable[..., Simulation], seed: int, **federation: Any) -> Simulation:
    return make("iid", seed, **federation)


def test_plans_that_are_shared_are_not_changed() -> None:
    pack = Pack()
    made = pack.once("key", lambda: np.arange(3))
    assert pack.once("key", lambda: np.zeros(3)) is made
