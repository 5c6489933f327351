"""Which setting of an algorithm is which other algorithm: to the bit, or up to rounding."""

from functools import partial

import numpy as np
import pytest
import torch

from tests.support.oracle import LR, SEED, apart, selected
from tests.support.simulations import (
    finish,
    partitioned,
    rounds,
    same,
    settings,
    simulation,
    state,
)
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


DIFFERENT = [
    ("fedprox", {"mu": 0.5}, "fedavg", {}, WORK),
    ("fedavgm", {"beta": 0.5}, "fedavg", {}, WORK),
    ("fednova", {}, "fedavg", {}, {"participation": 0.6, "level": SYSTEM}),
    ("scaffold", {}, "fedavg", {}, {**PLAIN, "rounds": 3}),
    ("folb", {"mu": 0.1}, "fedprox", {"mu": 0.1}, {"aggregation": "plain"}),
    ("folb_two_set", {"mu": 0.1}, "fedprox", {"mu": 0.1}, {"aggregation": "plain"}),
    ("fednu_sign", {"mu": 0.1}, "fedprox", {"mu": 0.1}, {"aggregation": "plain"}),
    ("safl", {"epsilon": 0.0, "L": 80.0}, "fedavg", {}, WORK),
    ("ida_safl", MASKS, "ida", {}, WORK),
    ("astw_safl", {**MASKS, "loop": 3}, "astw", {"loop": 3}, {**WORK, "model": LAYERS}),
    ("fedumf", {}, "fedavg", {}, {**WORK, "rounds": 2}),
    ("fedumf_feddc", {"alpha": 0.05}, "feddc", {"alpha": 0.05}, PLAIN),
    ("fedagg", {"alpha": 0.5, "sweeps": 2}, "fedavg", {}, EPOCHS),
    ("centralized", {}, "fedavg", {}, {"batch_size": 2}),
]


@pytest.mark.parametrize(("name", "params", "other", "theirs", "given"), DIFFERENT)
def test_and_another_setting_does_not(name, params, other, theirs, given):
    weights = [state(one)["w"] for one in (run(name, params, **given), run(other, theirs, **given))]
    assert apart(*weights) > 1e-3


@pytest.mark.parametrize("aggregation", ["samples", "plain"])
@pytest.mark.parametrize("name", ["feddyn", "feddc"])
@pytest.mark.parametrize("count", [1, 5])
def test_drifts_are_added_to_the_mean_from_round_1_on(name, count, aggregation):
    """Local models are FedAvg's there, but the server moves (1 + K / N) mean_S(w_k - w)."""
    given = {"rounds": 1, "participation": count / 5}
    runs = (
        run(name, {"alpha": 1e-9}, aggregation=aggregation, **given),
        run("fedavg", **given, aggregation="plain"),
    )
    before = runs[0].fed.initial_server().numpy()
    moved, fedavg = (state(one)["w"] - before for one in runs)
    np.testing.assert_allclose(moved, (1 + count / 5) * fedavg, atol=1e-7)


def test_feddc_without_its_corrections_is_feddyn():
    make = partial(simulation, data=partitioned(SIZES), common=settings(**PLAIN), seed=SEED)
    feddyn, zeroed = (make(ALGORITHMS[name](lr=LR, alpha=0.3)) for name in ("feddyn", "feddc"))
    for expected in rounds(feddyn):
        zeroed.advance()
        nothing = {"g": torch.zeros_like(zeroed.state["w"]), "g_k": zeroed.fed.client_rows()}
        zeroed.state = {**zeroed.state, **nothing}
        np.testing.assert_allclose(zeroed.state["w"].numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("scale", ["one", "samples", "printed"])
def test_defed_s_exact_averaging_is_fedavg_in_the_first_iteration_only(scale):
    """s_k = 1 gives the plain mean of local models, n m_k / m the weighted one, m_k / m 1 / n of its step."""
    given = {"local_steps": 1, "rounds": 2, "aggregation": "plain" if scale == "one" else "samples"}
    make = partial(simulation, data=partitioned(SIZES), common=settings(**given), seed=SEED)
    rule = {"topology": "complete", "grad_scale": scale}
    defed, fedavg = make(ALGORITHMS["defed"](lr=LR, **rule)), make(ALGORITHMS["fedavg"](lr=LR))
    before = fedavg.state["w"].numpy().copy()
    for t in range(2):
        defed.advance()
        fedavg.advance()
        share = 1 / 5 if scale == "printed" else 1
        moved = state(defed)["W"].mean(0) - before
        gap = np.abs(moved - share * (fedavg.state["w"].numpy() - before)).max()
        assert (gap < 1e-12) == (t == 0)


class Eager(ALGORITHMS["fedumf"]):
    """FedUmf's Algorithm 1 as printed: everyone trains every round and keeps g."""

    def init(self, fed):
        return {**super().init(fed), "g": fed.client_rows()}

    def round(self, state, fed):
        everyone, ids = torch.arange(fed.n), fed.select()
        before = set() if fed.round == 1 else set(selected(fed.round - 1, fed.n, len(ids)))
        start = fed.broadcast(everyone, state["w"]).clone()
        fresh = torch.tensor([i for i in ids.tolist() if i not in before], dtype=torch.int64)
        if fed.round > 1 and len(fresh):
            ratio = self.lr / (LR * fed.settings.lr_decay ** (fed.round - 2))
            start[fresh] = start[fresh] + self.alpha * ratio * state["g"][fresh]
        local = fed.train(everyone, start, self.lr, self.direction, start=start)
        state["g"].write(everyone, local - start)
        return {**state, "w": fed.weights(ids) @ fed.upload(ids, local[ids])}


@pytest.mark.parametrize("level", ["iid", SYSTEM])
@pytest.mark.parametrize(("model", "dtype"), [("logreg", "float32"), ("mlp(5,4)", "float64")])
def test_fedumf_s_replay_is_eager_training_to_the_bit(level, model, dtype):
    """What is under test replays a round for the few clients whose displacement is used."""
    given = {**WORK, "rounds": 8, "participation": 0.4, "dtype": dtype}
    common = settings(execution="sequential", **given)
    lazy, eager = (
        simulation(cls(lr=LR, alpha=0.5), partitioned(SIZES), common, model, level, SEED)
        for cls in (ALGORITHMS["fedumf"], Eager)
    )
    for one, other in zip(rounds(lazy), rounds(eager), strict=True):
        np.testing.assert_array_equal(one, other)
    for a, b in zip(lazy.history, eager.history, strict=True):
        counted = [name for name in a if not name.endswith("_seconds") and "sample" not in name]
        assert {name: a[name] for name in counted if "train" not in name} == {
            name: b[name] for name in counted if "train" not in name
        }
