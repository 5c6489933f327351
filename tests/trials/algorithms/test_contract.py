"""What every algorithm owes, whatever it computes: a new one is tested by being listed."""

import json
import math
from functools import cache

import pytest
import torch

from suite.testing import check_algorithm
from tests.support.simulations import (
    digest,
    finish,
    fresh_process,
    honoured,
    local_work,
    partitioned,
    same,
    settings,
    simulation,
    timeless,
)
from trials import algorithms
from trials.algorithms import ALGORITHMS
from trials.engine.federation import Federation
from trials.run.simulation import Simulation
from trials.run.spec import Scenario, TrialSpec, canonical
from trials.run.trial import run
from trials.settings import Settings

every = pytest.mark.parametrize("name", ALGORITHMS)
SHARED = {
    "rounds": 6,
    "clients": 8,
    "eval_every": 2,
    "momentum": 0.5,
    "weight_decay": 0.001,
    "lr_decay": 0.9,
    "clip_norm": 5.0,
    "local_epochs": 2,
}
LEVEL = "dirichlet(0.3)+system(steps=1..6)+dropout(0.2)"


def spec(name: str, seed: int = 5, **params: float) -> TrialSpec:
    given, level = honoured(name, SHARED, LEVEL)
    return canonical(name, params, Scenario("digits", "mlp(16,8)", level), Settings(**given), seed)


DIGESTS = """
import json
from tests.support.simulations import digest
from trials.run.spec import TrialSpec
from trials.run.trial import run
specs = {name: TrialSpec.model_validate(given) for name, given in json.loads(SPECS).items()}
print(json.dumps({name: digest(run(spec)[0]) for name, spec in specs.items()}))
"""


@cache
def usual(name: str) -> Simulation:
    """The run that several tests look at."""
    return run(spec(name))[0]


@every
def test_the_contract(name):
    """What plug-ins are held to as well: declarations, executions, repeats, checkpoints, counts."""
    check_algorithm(name, models=("mlp(16,8)",), settings=SHARED, level=LEVEL)


@pytest.mark.slow("every algorithm in a fresh process")
def test_the_same_seed_gives_the_same_bits_in_a_fresh_process():
    specs = json.dumps({name: spec(name).model_dump(mode="json") for name in ALGORITHMS})
    elsewhere = json.loads(fresh_process(f"SPECS = {specs!r}\n{DIGESTS}"))
    assert elsewhere == {name: digest(usual(name)) for name in ALGORITHMS}


@every
def test_another_seed_gives_another_run(name):
    other, _ = run(spec(name, seed=6))
    assert digest(other) != digest(usual(name))
    assert not other.diverged


class Backwards(Federation):
    """Names this round's clients in another order."""

    def select(self, *stream: str) -> torch.Tensor:
        return super().select(*stream).flip(0)


@every
def test_the_order_of_clients_changes_only_rounding(name):
    data = partitioned([7, 12, 5, 9, 16])
    given = {"participation": 0.6, "batch_size": 4, "momentum": 0.5}
    given, level = honoured(name, given, "iid+system(steps=1..5)")
    common = settings(**given, **local_work(name))
    made = [
        finish(simulation(ALGORITHMS[name](), data, common, level=level, federation=federation))
        for federation in (Federation, Backwards)
    ]
    same(*made, 1e-10)
    for a, b in zip(*(timeless(one.history) for one in made), strict=True):
        assert a == pytest.approx(b, abs=1e-10)


@every
@pytest.mark.parametrize(("dtype", "gap"), [("float32", 1), ("float64", 1), ("float32", 9)])
def test_divergence_ends_a_run_without_an_exception(name, dtype, gap):
    """Also between evaluations."""
    algorithm = ALGORITHMS[name](lr={"float32": 1e30, "float64": 1e200}[dtype])
    common = settings(rounds=9, eval_every=gap, dtype=dtype, **local_work(name))
    diverged = finish(simulation(algorithm, partitioned([9, 6, 8]), common, "mlp(8,8)"))
    assert diverged.diverged
    assert diverged.fed.round < 9
    if gap == 9:
        assert len(diverged.history) == 2
    else:
        assert not math.isfinite(diverged.history[-1]["test_loss"])


@pytest.mark.parametrize("name", ["fedavg", "safl", "folb", "scaffold", "defed"])
def test_divergence_of_the_last_step_counts(name):
    """The training loss was still that of the initial weights."""
    common = settings(rounds=1, dtype="float32", **local_work(name, 1))
    diverged = finish(
        simulation(ALGORITHMS[name](lr=1e30), partitioned([9, 6, 8]), common, "mlp(8,8)")
    )
    assert math.isfinite(diverged.history[-1]["train_loss"])
    assert diverged.diverged


def test_an_algorithm_is_found_by_name_and_names_its_paper():
    assert all(algorithms.resolve(name) is cls and cls.paper for name, cls in ALGORITHMS.items())
    references = {name for name, cls in ALGORITHMS.items() if cls.reference}
    assert references == {"centralized", "local_only", "fednu_sign", "lb_optimal", "lb_norm"}
