"""FedAgg in the computable reading: equations in NumPy, limits, costs."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.support.fedagg import (
    PARTS,
    PER_EPOCH,
    L,
    N,
    directed,
    executed,
    fedagg,
    multiset,
    rates_of,
    run_of,
    scaled,
    three,
)
from tests.support.oracle import LR, D, agrees, apart, first, gradient, initial, shares, spent
from tests.support.simulations import finish, partitioned, rounds, same, state
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError
from trials.engine.federation import Federation
from trials.federated_data import FederatedData
from trials.run.spec import refuse
from trials.settings import Settings


@executed
@scaled
@directed
@pytest.mark.parametrize("sweeps", [1, 2])
def test_fedagg(sweeps, local_direction, scaling, execution):
    rule = {"scaling": scaling, "local_direction": local_direction, "sweeps": sweeps}
    agrees(run_of(execution=execution, **rule), fedagg(**rule))


@executed
@scaled
@pytest.mark.parametrize(("alpha", "eta_max"), [(0.1, 2.0), (0.4, 1.2), (0.7, 1.05)])
def test_the_clip(alpha, eta_max, scaling, execution):
    """Rates below 0, above eta_max lr and between are all met."""
    rule = {"alpha": alpha, "eta_max": eta_max, "scaling": scaling}
    met = []
    first(fedagg(met=met, **rule))
    free = np.concatenate([rates for rates, _ in met]).ravel()
    assert (free > eta_max * LR).any()
    assert ((free > 0) & (free < eta_max * LR) & (np.abs(free - LR) > 1e-3)).any()
    if alpha == 0.1:
        assert (free < 0).any()
    agrees(run_of(execution=execution, **rule), fedagg(**rule))


@scaled
def test_fedagg_with_momentum_decays_and_plain_aggregation(scaling):
    rule = {"alpha": 0.3, "scaling": scaling, "aggregation": "plain", "sweeps": 2}
    common = {"momentum": 0.5, "lr_decay": 0.8}
    run = run_of(weight_decay=0.1, **rule, **common)
    agrees(run, fedagg(decay=0.1, **rule, **common))


@directed
def test_fedagg_counts_repeated_clients(local_direction):
    assert any(len(set(multiset(t))) < 3 for t in range(1, 6))
    rule = {"local_direction": local_direction, "alpha": 0.3}
    agrees(run_of(selection="with_replacement", **rule), fedagg(multiset, **rule))


@pytest.mark.parametrize(
    "other",
    [
        {"alpha": 0.2},
        {"scaling": "raw"},
        {"local_direction": "mean"},
        {"sweeps": 2},
        {"eta_max": 2.0},
        {"alpha": 1.0},
    ],
    ids=str,
)
def test_the_oracle_knows_its_parameters(other):
    assert apart(first(fedagg()), first(fedagg(**other))) > 1e-3


def test_rates_on_paper():
    """L = 1, w = 0, phi1 = (2, 0), ends (-1, 0) and (-3, 4): phi2_1 = (-2, 2), v = +-(1, -2).

    raw: 0.1 + c (+-2) with c = 1/4, so 0.6 and -0.4 -> 0; cosine: 0.1 (1 +- 1 / (4 sqrt 5)).
    """
    paths = np.array([[[0.0, 0], [-1, 0]], [[0, 0], [-3, 4]]])
    g = np.array([[[1.0, 7]], [[3, -7]]])
    raw, _ = planned(paths, g, alpha=0.8, scaling="raw", lr=0.1, eta_max=100.0)
    np.testing.assert_allclose(raw, [[0.6], [0]])
    cosine, _ = planned(paths, g, alpha=0.8, scaling="cosine", lr=0.1)
    np.testing.assert_allclose(cosine.ravel(), [0.1 + 0.025 / 5**0.5, 0.1 - 0.025 / 5**0.5])


def planned(paths, g, **params):
    """The rates that clients get from epoch ends (n, L + 1, r) and gradients (n, L, r).

    Also returns the server's weights after the round.
    """
    n, epochs, r = g.shape
    rates = []

    class Planned(Federation):
        def trajectory(self, ids, start, lr, direction, /, **rows):
            rates.append(lr)
            self._loss = torch.tensor(1.0)
            path = torch.zeros(n, epochs + 1, self.d, dtype=self.dtype)
            path[..., :r] = torch.from_numpy(paths)
            return path

        def gradient(self, ids, w):
            for l in range(epochs):
                if np.array_equal(w[:, :r].numpy(), paths[:, l]):
                    found = torch.zeros(n, self.d, dtype=self.dtype)
                    found[:, :r] = torch.from_numpy(g[:, l])
                    return found
            raise AssertionError("a gradient elsewhere than at the start of an epoch")

    data = partitioned([4] * n, shape=(r,), classes=2)
    given = {"init": "zeros", "rounds": 1, "local_epochs": epochs, "count": n, **params}
    run = run_of(data=data, federation=Planned, **given)
    after = next(rounds(run))
    base, *rest = rates
    assert base == params["lr"]
    assert [tuple(one.shape) for one in rest] == [(n, epochs)] * len(rest)
    return rest[-1].numpy() if rest else None, after[:r]


def cases(elements):
    """Distinct epoch ends from a common start, and gradients."""
    shape = st.tuples(st.integers(2, 4), st.integers(1, 4), st.integers(1, 3))
    return shape.flatmap(
        lambda s: st.tuples(
            arrays(float, (s[0], s[1], s[2]), elements=elements),
            arrays(float, s, elements=elements),
        )
    ).map(
        lambda case: (np.concatenate([0 * case[0][:, :1], case[0]], 1) + ladder(case[0]), case[1])
    )


def ladder(ends):
    """Something that tells apart epochs which do not move."""
    return np.arange(ends.shape[1] + 1)[None, :, None] * 100.0


@given(
    cases(st.integers(-20, 20).map(float)),
    st.sampled_from([0.05, 0.1, 0.5, 0.9, 1.0]),
    st.sampled_from(["raw", "cosine"]),
    st.sampled_from([1.0, 3.0, 10.0, 1e6]),
    st.integers(1, 3),
)
def test_rates(case, alpha, scaling, eta_max, sweeps):
    paths, g = case
    params = {"alpha": alpha, "scaling": scaling, "eta_max": eta_max, "sweeps": sweeps, "lr": 0.25}
    found, _ = planned(paths, g, **params)
    free, clipped = rates_of(paths, g.mean(0), paths.mean(0), alpha, scaling, 0.25, eta_max)
    np.testing.assert_allclose(found, clipped, rtol=1e-9, atol=1e-9)
    assert (found >= 0).all()
    assert (found <= 0.25 * eta_max).all()
    if scaling == "raw":
        np.testing.assert_allclose(free.mean(0), 0.25, rtol=0, atol=1e-7)
        if (free >= 0).all() and (free <= 0.25 * eta_max).all():
            np.testing.assert_allclose(found.mean(0), 0.25, rtol=0, atol=1e-7)
    if alpha == 1:
        np.testing.assert_array_equal(found, 0.25)


@profile(max_examples=30)
@given(cases(st.integers(-20, 20).map(float)), st.sampled_from(["raw", "cosine"]))
def test_the_mean_direction_moves_by_the_mean_gradients(case, scaling):
    """One minibatch an epoch; samples are as many everywhere."""
    paths, g = case
    params = {"alpha": 0.5, "scaling": scaling, "lr": 0.25, "local_direction": "mean"}
    none, w = planned(paths, g, **params)
    assert none is None
    phi1 = g.mean(0)
    _, eta = rates_of(paths, phi1, paths.mean(0), 0.5, scaling, 0.25, 10.0)
    np.testing.assert_allclose(w, paths[0, 0] - eta.mean(0) @ phi1, rtol=1e-9, atol=1e-9)


class Noted(Federation):
    """Keeps the rates of all trajectories."""

    def trajectory(self, ids, start, lr, direction, /, **rows):
        self.__dict__.setdefault("rates", []).append(lr)
        return super().trajectory(ids, start, lr, direction, **rows)


def noted(**given):
    run = finish(run_of(federation=Noted, **given))
    swept = [lr.numpy() for lr in run.fed.rates if isinstance(lr, torch.Tensor) and lr.dim() == 2]
    assert len(swept) == 5 * given.get("sweeps", 1)
    return np.array(swept)


@pytest.mark.parametrize("sweeps", [1, 3])
def test_raw_rates_have_the_study_rate_as_their_mean(sweeps):
    """c = 1/9 is small enough for nobody to meet the clip."""
    eta = noted(scaling="raw", alpha=0.9, sweeps=sweeps, eta_max=100.0)
    assert (eta > 0).all()
    assert eta.std(1).max() > 1e-3
    np.testing.assert_allclose(eta.mean(1), LR, rtol=0, atol=1e-12)


def test_cosine_rates_have_not():
    eta = noted(scaling="cosine", alpha=0.9)
    assert (eta > 0).all()
    assert np.abs(eta.mean(1) - LR).max() > 1e-4


def test_the_rates_follow_the_decayed_one():
    eta = noted(scaling="raw", alpha=0.9, eta_max=100.0, lr_decay=0.5)
    np.testing.assert_allclose(eta.mean((1, 2)), LR * 0.5 ** np.arange(5), rtol=0, atol=1e-12)
    eta = noted(scaling="raw", alpha=0.001, eta_max=2.0, lr_decay=0.5)
    np.testing.assert_allclose(eta.max((1, 2)), 2 * LR * 0.5 ** np.arange(5), rtol=0, atol=1e-12)


COMMON = {"momentum": 0.5, "weight_decay": 0.01, "lr_decay": 0.9}


@scaled
@pytest.mark.parametrize("selection", ["without_replacement", "with_replacement", "independent"])
def test_alpha_1_is_fedavg_at_the_study_rate(selection, scaling):
    common = {**COMMON, "selection": selection}
    fedavg = finish(run_of("fedavg", **common))
    same(finish(run_of(alpha=1.0, scaling=scaling, sweeps=2, **common)), fedavg, 1e-12)
    other = finish(run_of(alpha=0.5, scaling=scaling, sweeps=2, **common))
    assert apart(state(other)["w"], state(fedavg)["w"]) > 1e-3


@scaled
@directed
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_identical_clients_are_fedavg_at_the_study_rate(dtype, local_direction, scaling):
    """Their v is rounding noise, which a cosine must not make a direction of."""
    one = partitioned([8])
    copies = FederatedData(one.dataset, np.tile(one.train, 5), 8 * np.arange(6), one.val, one.test)
    common = {"data": copies, "batch_size": "full", "dtype": dtype, "weight_decay": 0.01}
    rule = {"scaling": scaling, "local_direction": local_direction, "sweeps": 2}
    fedavg = finish(run_of("fedavg", **common))
    found = finish(run_of(**rule, **common))
    same(found, fedavg, {"float64": 1e-12, "float32": 1e-5}[dtype])
    assert apart(state(finish(run_of(**rule)))["w"], state(finish(run_of("fedavg")))["w"]) > 1e-3


@scaled
def test_a_client_alone_is_fedavg_at_the_study_rate(scaling):
    fedavg = finish(run_of("fedavg", count=1, **COMMON))
    same(finish(run_of(count=1, scaling=scaling, **COMMON)), fedavg, 1e-12)


def test_one_epoch_uses_the_gradient_at_the_common_start():
    """L = 1: the first epoch has no earlier one to learn from, but its own end counts."""
    given = {"local_epochs": 1, "batch_size": "full", "alpha": 0.5, "scaling": "raw", "count": N}
    w, p = initial(), shares(PARTS, range(N))
    g = [gradient(w, *part) for part in PARTS]
    phi1 = np.mean(g, 0)
    eta = [LR + phi1 @ (LR * phi1 - LR * g_k) for g_k in g]
    expected = w - sum(p_k * e * g_k for p_k, e, g_k in zip(p, eta, g, strict=True))
    assert min(eta) > 0
    np.testing.assert_allclose(next(rounds(run_of(**given))), expected, rtol=0, atol=1e-12)


@directed
@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@pytest.mark.parametrize("sweeps", [1, 2])
def test_what_fedagg_costs(sweeps, dtype, size, local_direction):
    """Each sweep: L gradients and L epoch ends up, their means down; w both ways once.

    Each pass of training is L epochs; a sweep takes L full gradients; the mean direction needs no
    training after the first pass.
    """
    run = finish(run_of(sweeps=sweeps, dtype=dtype, local_direction=local_direction))
    steps = [L * int(PER_EPOCH[three(t)].sum()) for t in range(1, 6)]
    passes = 1 + sweeps if local_direction == "own" else 1
    assert spent(run, "uploaded_bytes") == [size * 3 * (2 * L * sweeps + 1) * D] * 5
    assert spent(run, "downloaded_bytes") == [size * 3 * (2 * L * sweeps + 1) * D] * 5
    assert spent(run, "client_steps") == [passes * s for s in steps]
    assert spent(run, "gradient_passes") == [3 * L * sweeps] * 5
    assert spent(run, "evaluation_passes") == [0] * 5
    assert spent(run, "clients_uploaded") == [3] * 5
    assert spent(run, "peer_bytes") == [0] * 5


@pytest.mark.parametrize("name", ["fedagg", "fedagg_literal"])
def test_what_it_refuses(name):
    cls = ALGORITHMS[name]
    refuse(name, cls, Settings(local_epochs=3), "iid")
    for common, level in [
        ({"local_steps": 4}, "iid"),
        ({}, "iid+system(steps=1..4)"),
        ({"init": "own"}, "iid"),
    ]:
        with pytest.raises(UserError):
            refuse(name, cls, Settings(**common), level)
