"""Which setting of an algorithm is which other algorithm: to the bit, or up to rounding."""

import numpy as np
import pytest

from tests.support.oracle import SEED, apart
from tests.support.simulations import finish, partitioned, same, settings, simulation, state
from trials.algorithms import ALGORITHMS
from trials.federated_data import FederatedData

SIZES = [7, 12, 5, 9, 16]
WORK = {
    "participation": 0.6,
    "batch_size": 4,
    "local_epochs": 2,
    "local_steps": None,
    "momentum": 0.5,
    "weight_decay": 0.01,
    "lr_decay": 0.9,
}
PLAIN = {**WORK, "momentum": 0.0}
SYSTEM = "iid+system(steps=1..6)"
LAYERS = "mlp(4,3)"


def copies(n):
    """Clients with the same samples."""
    data = partitioned([8])
    offsets = 8 * np.arange(n + 1)
    return FederatedData(data.dataset, np.tile(data.train, n), offsets, data.val, data.test)


def run(name, params=None, data=None, model="logreg", level="iid", lr=0.2, **given):
    algorithm = ALGORITHMS[name](lr=lr, **(params or {}))
    data = data or partitioned(SIZES)
    return finish(simulation(algorithm, data, settings(**given), model, level, SEED))


MASKS = {"epsilon": 0.3, "L": 5.0}
ALL = {**WORK, "participation": 1.0}
OWN = {**WORK, "init": "own"}
EQUAL = {"participation": 0.6, "momentum": 0.6, "selection": "with_replacement"}
ONE_STEP = {"participation": 0.6, "weight_decay": 0.1, "lr_decay": 0.8, "clip_norm": 0.1}
ALIKE = {"data": copies(6), "level": "iid+system(steps=1..9)", "participation": 0.5}
UNIFORM = {"data": copies(6), "participation": 0.5}
FULL = {"data": copies(5), "batch_size": "full", "local_steps": None, "local_epochs": 3}
EPOCHS = {**WORK, "local_epochs": 3}
SAME = [
    # A method, what makes it the other one, the other one, what both run under, and how far they may be apart
    ("fedprox", {"mu": 0.0}, "fedavg", {}, WORK, 0.0),
    ("fedprox", {"mu": 0.0}, "fedavg", {}, {**WORK, "level": SYSTEM}, 0.0),
    ("fedavgm", {"beta": 0.0, "server_lr": 1.0}, "fedavg", {}, WORK, 1e-12),
    ("fednova", {}, "fedavg", {}, EQUAL, 1e-12),
    ("fedsgd", {}, "fedavg", {}, {**ONE_STEP, "local_steps": 1}, 1e-12),
    ("scaffold", {}, "fedavg", {}, {**PLAIN, "rounds": 1}, 1e-12),
    ("ida", {}, "fedavg", {}, UNIFORM, 1e-12),
    ("folb", {"mu": 0.1}, "fedprox", {"mu": 0.1}, {**ALIKE, "aggregation": "plain"}, 1e-12),
    ("folb_two_set", {"mu": 0.1}, "fedprox", {"mu": 0.1}, {**ALIKE, "aggregation": "plain"}, 1e-12),
    ("fednu_sign", {"mu": 0.1}, "fedprox", {"mu": 0.1}, {**ALIKE, "aggregation": "plain"}, 1e-12),
    ("lb_optimal", {"mu": 0.1}, "fedprox", {"mu": 0.1}, {**UNIFORM, "aggregation": "plain"}, 1e-12),
    ("lb_norm", {"mu": 0.1}, "fedprox", {"mu": 0.1}, {**UNIFORM, "aggregation": "plain"}, 1e-12),
    ("folb", {"mu": 0.1, "variant": "heterogeneity", "psi": 0.0}, "folb", {"mu": 0.1}, WORK, 0.0),
    ("safl", {"epsilon": 1.0}, "fedavg", {}, WORK, 1e-10),
    ("safl", {"epsilon": 1.0}, "fedavg", {}, OWN, 1e-10),
    ("safl", {"epsilon": 0.0, "L": 1e-4}, "fedavg", {}, WORK, 1e-10),  # it never masks
    ("safl_extended", {**MASKS, "nu": 1e12}, "safl", MASKS, OWN, 0.0),
    ("ida_safl", {"epsilon": 1.0, "L": 5.0}, "ida", {}, OWN, 1e-10),
    (
        "ida_safl",
        MASKS,
        "safl",
        MASKS,
        {**OWN, "data": partitioned([5, 9]), "participation": 1},
        1e-9,
    ),
    ("ida_safl", MASKS, "safl", MASKS, {**OWN, "participation": 0.2}, 1e-12),
    ("astw", {"A": 1.0, "loop": 1}, "fedavg", {}, {**ALL, "model": LAYERS}, 1e-12),
    ("astw", {"A": 1e30, "loop": 1}, "fedavg", {}, {**WORK, "model": LAYERS}, 1e-10),
    ("astw", {"A": 1.5, "loop": 15}, "astw", {"A": 1.5, "loop": 1}, WORK, 0.0),  # one layer
    (
        "astw_safl",
        {"epsilon": 1.0, "loop": 3},
        "astw",
        {"loop": 3},
        {**WORK, "model": LAYERS},
        1e-10,
    ),
    ("astw_safl", {**MASKS, "loop": 1}, "safl", MASKS, {**ALL, "model": LAYERS}, 1e-10),
    ("astw_safl", {**MASKS, "loop": 15}, "astw_safl", {**MASKS, "loop": 1}, OWN, 0.0),
    ("fedma_fixed_width", {}, "fedavg", {}, WORK, 1e-14),  # one layer
    ("fedumf", {"alpha": 0.0}, "fedavg", {}, {**WORK, "level": SYSTEM}, 1e-12),
    ("fedumf", {}, "fedavg", {}, ALL, 1e-12),
    ("fedumf", {}, "fedavg", {}, {**WORK, "rounds": 1}, 1e-14),
    ("fedumf_feddc", {"alpha": 0.05, "fusion": 0.0}, "feddc", {"alpha": 0.05}, PLAIN, 1e-12),
    (
        "fedumf_feddc",
        {"alpha": 0.05},
        "feddc",
        {"alpha": 0.05},
        {**PLAIN, "participation": 1},
        1e-12,
    ),
    ("fedagg", {"alpha": 1.0, "sweeps": 2}, "fedavg", {}, EPOCHS, 1e-12),
    ("fedagg", {"alpha": 1.0, "scaling": "raw"}, "fedavg", {}, {**EPOCHS, **EQUAL}, 1e-12),
    ("fedagg", {"scaling": "raw"}, "fedavg", {}, {**EPOCHS, "participation": 0.2}, 1e-12),
    ("fedagg", {"sweeps": 2}, "fedavg", {}, FULL, 1e-12),  # their v is rounding noise
    ("fedagg", {"local_direction": "mean"}, "fedavg", {}, {**FULL, "dtype": "float32"}, 1e-5),
    ("local_only", {}, "fedavg", {}, {**WORK, "data": partitioned([11])}, 1e-14),
    ("local_only", {}, "fedavg", {}, {**OWN, "data": partitioned([11])}, 1e-14),
    ("centralized", {}, "fedavg", {}, {**WORK, "data": partitioned([11])}, 1e-14),
    ("centralized", {}, "fedavg", {}, {**WORK, "data": partitioned([11]), "level": SYSTEM}, 1e-14),
]


@pytest.mark.parametrize(
    ("name", "params", "other", "theirs", "given", "tolerance"),
    SAME,
    ids=[f"{row[0]}-{number}" for number, row in enumerate(SAME)],
)
def test_a_setting_makes_one_method_another(name, params, other, theirs, given, tolerance):
    mine, its = run(name, params, **given), run(other, theirs, **given)
    assert not mine.diverged
    weights = [next(iter(state(one).values())) for one in (mine, its)]
    assert apart(*weights) <= tolerance
    if tolerance == 0.0 and mine.state.keys() == its.state.keys():
        same(mine, its, 0.0)
