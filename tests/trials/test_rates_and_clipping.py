"""Learning-rate decay and clipped steps, the same for every algorithm, against plain NumPy."""

import numpy as np
import pytest

from tests.support.oracle import (
    EXECUTIONS,
    LR,
    SIZES,
    agrees,
    fedavg,
    run_of,
)
from tests.support.simulations import (
    finish,
    honoured,
    local_work,
    partitioned,
    same,
    settings,
    simulation,
    state,
)
from trials.algorithms import ALGORITHMS
from trials.algorithms.fedavg import FedAvg

every = pytest.mark.parametrize("name", ALGORITHMS)


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("lr_decay", [0.5, 0.998])
def test_fedavg_at_a_decaying_rate(lr_decay, execution):
    oracle = fedavg(partitioned(SIZES), lr_decay=lr_decay)
    agrees(run_of(FedAvg(lr=LR), lr_decay=lr_decay, execution=execution), oracle)


def common_to(name, **given):
    """Settings an algorithm honours; its local work is four full batches."""
    kept, _ = honoured(name, {**given, **local_work(name)}, "iid")
    return settings(**kept)


@every
def test_the_rate_of_round_2_is_the_decayed_one(name):
    """Round 2 under lr_decay = 0.5 is round 2 of the same state at half the rate."""
    cls, data = ALGORITHMS[name], partitioned([9, 4, 7, 12])
    common = common_to(name, rounds=2, momentum=0.5, weight_decay=0.01)
    decaying = finish(
        simulation(cls(lr=0.2), data, common.model_copy(update={"lr_decay": 0.5}), "mlp(5,4)")
    )
    first, halved = (simulation(cls(lr=lr), data, common, "mlp(5,4)") for lr in (0.2, 0.1))
    first.advance()
    halved.load(first.save())
    same(decaying, finish(halved), 0.0)
    ours, steady = state(decaying), state(finish(first))
    weights = next(key for key in ("w", "W", "z") if key in ours)
    assert np.abs(ours[weights] - steady[weights]).max() > 1e-6


# clip_norm


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("clip", [0.05, 0.5])
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.6, 0.0), (0.0, 0.5), (0.6, 0.5)])
def test_a_step_is_cut_with_its_weight_decay_and_before_momentum(momentum, decay, clip, execution):
    data = partitioned(SIZES)
    local = {"momentum": momentum, "decay": decay, "clip": clip}
    assert np.abs(next(fedavg(data, **local)) - next(fedavg(data))).max() > 1e-3
    common = {"momentum": momentum, "weight_decay": decay, "clip_norm": clip}
    agrees(run_of(FedAvg(lr=LR), execution=execution, **common), fedavg(data, **local))
