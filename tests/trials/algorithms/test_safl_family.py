"""Extended SAFL and IDA-SAFL against their equations in NumPy, on a linear model.

SAFL (3)-(8), (24)-(26), with the aggregation of IDA. "Received" is what a client got from the
server before it mixed in its own weights.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.oracle import (
    EXECUTIONS,
    GENERAL,
    LR,
    SEED,
    STEPS,
    D,
    apart,
    clients,
    initial,
    local_sgd,
    selected,
    shares,
    spent,
)
from tests.support.safl import EPSILON, SIZES, L, N, first, follows, mask, run_of, started
from tests.support.simulations import finish, partitioned, same, state
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError
from trials.common.randomness import uniform
from trials.engine.federation import Federation

executed = pytest.mark.parametrize("execution", EXECUTIONS)


def right(w, x, y):
    """Accuracy of logistic regression, from the logits in closed form."""
    classes, features = 3, x.shape[1]
    z = x @ w[: classes * features].reshape(classes, features).T + w[classes * features :]
    return np.mean(z.argmax(1) == y)


def extended(nu, init, count, epsilon=EPSILON, aggregation="samples", met=None):
    """Algorithm 2, (24)-(26): the server's weights and the uploads of each round."""
    parts = list(clients(partitioned(SIZES)))
    z = [initial(k) if init == "own" else initial() for k in range(N)]
    w, t = None, 0
    while True:
        t += 1
        ids, sent = selected(t, N, count), []
        for k in ids:
            v, q = z[k], 1.0
            if w is not None:
                u = mask(t, k, epsilon)
                v = u * w + (1 - u) * z[k]
            z[k] = local_sgd(v, [parts[k]] * STEPS, LR)
            if w is not None:
                global_, own = right(w, *parts[k]), right(z[k], *parts[k])
                q = np.exp(-abs(global_ - own) / (global_ + own + 1e-6) / nu)
            if uniform("coin", SEED, t, k, 0).item() < q:
                sent.append(k)
        if sent:
            eta = shares(parts, sent, aggregation)
            w = sum(eta_k * z[k] for eta_k, k in zip(eta, sent, strict=True))
        if met is not None:
            met.append(len(sent))
        yield w, len(sent)


def ida(init, count, epsilon=EPSILON, aggregation="samples"):
    """(8) on clients of (6), (7)."""
    parts = list(clients(partitioned(SIZES)))
    z = [initial(k) if init == "own" else initial() for k in range(N)]
    w, t = None, 0
    while True:
        t += 1
        ids = selected(t, N, count)
        for k in ids:
            u = 0 if w is None else mask(t, k, epsilon)
            v = z[k] if w is None else u * w + (1 - u) * z[k]
            z[k] = local_sgd(v, [parts[k]] * STEPS, LR)
        mean = sum(p * z[k] for p, k in zip(shares(parts, ids, aggregation), ids, strict=True))
        r = np.array([1 / (np.sqrt(((mean - z[k]) ** 2).sum()) + 1e-12) for k in ids])
        w = sum(r_k / r.sum() * z[k] for r_k, k in zip(r, ids, strict=True))
        yield w, count


# Extended SAFL


@executed
@started
@pytest.mark.parametrize("count", [N, 3])
def test_extended(count, init, execution):
    met = []
    first(extended(0.25, init, count, met=met), 8)
    assert met[0] == count
    assert 0 < sum(met[1:]) < 7 * count
    given = {"epsilon": EPSILON, "L": L, "nu": 0.25, "rounds": 8, "execution": execution}
    follows(run_of("safl_extended", init, count, **given), extended(0.25, init, count))


@pytest.mark.parametrize("nu", [0.05, 0.25, 1.0])
def test_extended_with_plain_aggregation(nu):
    oracle = extended(nu, "own", 3, aggregation="plain")
    assert apart(first(oracle), first(extended(nu, "own", 3))) > 1e-3
    given = {"epsilon": EPSILON, "L": L, "nu": nu, "aggregation": "plain", "rounds": 8}
    follows(run_of("safl_extended", "own", 3, **given), extended(nu, "own", 3, aggregation="plain"))


def test_what_is_not_uploaded_stays_with_the_client():
    """Clients go on from where they ended, whether or not the server heard of it."""
    run = finish(run_of("safl_extended", "own", epsilon=0.0, L=1e12, nu=1e-6))
    parts = list(clients(partitioned(SIZES)))
    for k in range(N):
        alone = local_sgd(initial(k), [parts[k]] * STEPS * 5, LR)
        np.testing.assert_allclose(state(run)["z"][k], alone, atol=1e-10)


def test_nu_towards_infinity_is_safl_and_all_uploads():
    given = {"epsilon": EPSILON, "L": L, "init": "own", "count": 3}
    found, safl = finish(run_of("safl_extended", nu=1e12, **given)), finish(run_of("safl", **given))
    same(found, safl, 0.0)
    for a, b in zip(found.history, safl.history, strict=True):
        assert a["uploaded_bytes"] == b["uploaded_bytes"]
        assert a["downloaded_bytes"] == b["downloaded_bytes"]
        assert a["client_steps"] == b["client_steps"]
        assert a["clients_uploaded"] == 3 * a["round"]


def gaps(global_, own, coin=None, **given):
    """A run in which clients measure these accuracies, and toss this coin if one is given."""

    class Measured(Federation):
        def score(self, ids, w):
            super().score(ids, w)
            of = {True: global_, False: own}
            if not torch.equal(w, w[:1].expand_as(w)):
                return self.tensor(np.array(own, float)[ids])
            assert self.expected is not None
            return self.tensor(np.array(of[torch.equal(w[0], self.expected)], float)[ids])

        def broadcast(self, ids, message):
            self.expected = message
            return super().broadcast(ids, message)

        def uniform(self, name, ids, size):
            u = super().uniform(name, ids, size)
            if name != "coin" or coin is None:
                return u
            assert size == 1
            return self.tensor(np.array(coin, float)[ids]).unsqueeze(1)

    given = {"epsilon": EPSILON, "L": L, "init": "own", "rounds": 2, **given}
    return finish(run_of("safl_extended", federation=Measured, **given))


def uploads(run):
    return np.diff([entry["clients_uploaded"] for entry in run.history]).tolist()


UNIT = st.lists(st.integers(0, 12).map(lambda r: r / 12), min_size=N, max_size=N)


@given(UNIT, UNIT, st.floats(0.05, 20))
def test_the_chance_to_upload(global_, own, nu):
    """Client k uploads by a coin just below q_k and not by one just above; q_k lies in (0, 1]."""
    a, b = np.array(global_), np.array(own)
    q = np.exp(-np.abs(a - b) / (a + b + 1e-6) / nu)
    assert ((q > 0) & (q <= 1)).all()
    given = {"nu": nu, "local_steps": 1}
    assert uploads(gaps(a, b, q * (1 - 1e-9), **given)) == [N, N]
    above = gaps(a, b, q * (1 + 1e-9), **given)
    assert uploads(above) == [N, 0]
    assert uploads(gaps(a, b, np.zeros(N), **given)) == [N, N]
    assert uploads(gaps(a, b, np.full(N, 1 - 2.0**-53), **given)) == [N, (q == 1).sum()]


def test_clients_without_a_gap_always_upload():
    """0 / (0 + 0 + 1e-6) = 0 is no gap either, however small nu is."""
    h = np.array([0.0, 1.0, 0.5, 0.0, 0.25])
    assert uploads(gaps(h, h, np.full(N, 1 - 2.0**-53), nu=1e-6)) == [N, N]


def test_nu_of_0_is_refused():
    """Without a gap it divides 0 by 0, and who should upload would not."""
    with pytest.raises(UserError) as refused:
        ALGORITHMS["safl_extended"].configured({"nu": 0.0})
    assert str(refused.value) == "nu is 0.0, but must be above 0"


def test_nu_towards_0_uploads_only_without_a_gap():
    a, b = np.array([0.5, 0.5, 0.0, 1.0, 0.4]), np.array([0.5, 0.6, 0.0, 0.2, 0.4])
    assert uploads(gaps(a, b, rounds=4, nu=1e-6)) == [N, 3, 3, 3]


def test_gaps_have_no_sign_and_are_relative():
    """Of 0.1 against 0.2 and 0.8 against 0.9, the first gap is the larger: 1/3 against 1/17."""
    a, b = np.array([0.1, 0.2, 0.8, 0.9, 0.5]), np.array([0.2, 0.1, 0.9, 0.8, 0.5])
    coin = np.full(N, np.exp(-1 / 5))
    assert uploads(gaps(a, b, coin, nu=1.0)) == [N, 3]
    assert uploads(gaps(a, b, coin, nu=5.0)) == [N, N]


def test_only_what_was_received_counts():
    """Two of five upload in round 2: the mean is over them, and so are bytes and clients."""
    a, b = np.full(N, 0.5), np.array([0.5, 0.9, 0.9, 0.5, 0.9])
    run = gaps(a, b, np.full(N, 0.9), nu=0.1)
    z, m = state(run)["z"], np.array(SIZES)
    np.testing.assert_allclose(
        run.state["w"].numpy(), (m[0] * z[0] + m[3] * z[3]) / (m[0] + m[3]), atol=1e-12
    )
    assert uploads(run) == [N, 2]
    models = np.diff([entry["uploaded_bytes"] for entry in run.history]) / (8 * D)
    np.testing.assert_allclose(models, [N, 2])


def test_nobody_uploads_and_the_server_keeps_its_model():
    a, b = np.full(N, 0.5), np.full(N, 0.9)
    runs = [gaps(a, b, np.full(N, 1 - 2.0**-53), nu=0.1, rounds=t) for t in (1, 2, 4)]
    assert uploads(runs[-1]) == [N, 0, 0, 0]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.state["w"].numpy(), runs[0].state["w"].numpy())
        assert not run.diverged
    before, after = (state(run)["z"] for run in runs[:2])
    assert np.abs(before - after).max(1).min() > 1e-3
    bytes_ = [entry["uploaded_bytes"] for entry in runs[-1].history]
    assert bytes_[1:] == [8 * D * N] * 4


def test_extended_with_fixed_decisions_is_the_same_in_both_executions():
    a, b = np.full(N, 0.5), np.array([0.5, 0.9, 0.9, 0.5, 0.9])
    given = {"rounds": 4, "batch_size": 4, "model": "mlp(7,5)", "nu": 0.1, "lr": 0.1}
    coin = np.array([0.5, 0.1, 0.02, 0.9, 0.3])
    made = [gaps(a, b, coin, execution=execution, **given) for execution in GENERAL]
    assert uploads(made[0]) == uploads(made[1]) == [N, 3, 3, 3]
    same(*made, 1e-10)


@started
@pytest.mark.parametrize("name", ["safl", "safl_extended", "ida_safl", "astw_safl"])
def test_the_second_model_is_the_mean_of_all_devices(name, init):
    """Theorem III.1: by size over all devices, the ones never selected at their initial weights."""
    run = finish(run_of(name, init, 2, epsilon=EPSILON, L=L, rounds=2))
    met = set(selected(1, N, 2)) | set(selected(2, N, 2))
    assert len(met) < N
    z = state(run)["z"]
    for k in set(range(N)) - met:
        np.testing.assert_allclose(z[k], initial(k) if init == "own" else initial(), atol=1e-15)
    scored = run.algorithm.scored(run.state, run.fed)
    assert list(scored) == ["server", "devices"]
    np.testing.assert_allclose(
        scored["devices"].numpy(), np.array(SIZES) / sum(SIZES) @ z, atol=1e-12
    )
    assert apart(scored["devices"], scored["server"]) > 1e-3


# IDA-SAFL


@executed
@started
@pytest.mark.parametrize("aggregation", ["samples", "plain"])
def test_ida_safl(aggregation, init, execution):
    oracle = [ida(init, 3, EPSILON, how) for how in ("samples", "plain")]
    assert apart(*map(first, oracle)) > 1e-4
    given = {"epsilon": EPSILON, "L": L, "execution": execution, "aggregation": aggregation}
    follows(run_of("ida_safl", init, 3, **given), ida(init, 3, EPSILON, aggregation))


@pytest.mark.parametrize("init", ["own", "common"])
def test_ida_safl_with_epsilon_1_is_ida(init):
    given = {"init": init, "count": 3, "batch_size": 4, "momentum": 0.5}
    ida_safl = finish(run_of("ida_safl", epsilon=1.0, L=L, **given))
    plain = finish(run_of("ida", **given))
    assert apart(state(ida_safl)["w"], state(plain)["w"]) < 1e-10
    mixed = finish(run_of("ida_safl", epsilon=0.3, L=L, **given))
    assert apart(state(mixed)["w"], state(plain)["w"]) > 1e-3


def test_ida_safl_of_two_clients_is_safl():
    """|z_bar - z_1| : |z_bar - z_2| = m_2 : m_1, so that the weights come out as m_1 : m_2."""
    given = {"init": "own", "sizes": [5, 9], "count": 2, "epsilon": EPSILON, "L": L}
    found, safl = finish(run_of("ida_safl", **given)), finish(run_of("safl", **given))
    assert apart(state(found)["w"], state(safl)["w"]) < 1e-9


def test_ida_safl_of_one_client_is_safl():
    """The mean is the model itself, at no distance."""
    given = {"init": "own", "count": 1, "epsilon": EPSILON, "L": L}
    found, safl = finish(run_of("ida_safl", **given)), finish(run_of("safl", **given))
    assert apart(state(found)["w"], state(safl)["w"]) < 1e-12


# Work and bytes


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
def test_what_the_extended_rounds_cost(dtype, size):
    run = finish(run_of("safl_extended", "own", 3, epsilon=EPSILON, L=L, nu=0.25, dtype=dtype))
    heard = uploads(run)
    assert heard[0] == 3
    assert sum(heard) < 15
    assert spent(run, "downloaded_bytes") == [0] + [size * 3 * D] * 4
    assert spent(run, "uploaded_bytes") == [size * k * D for k in heard]
    assert spent(run, "client_steps") == [3 * STEPS] * 5
    assert spent(run, "gradient_passes") == [0] * 5
    assert spent(run, "evaluation_passes") == [0] + [2 * 3] * 4
    assert spent(run, "peer_bytes") == [0] * 5


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@started
def test_what_ida_safl_costs(init, dtype, size):
    run = finish(run_of("ida_safl", init, 3, epsilon=EPSILON, L=L, dtype=dtype))
    assert spent(run, "downloaded_bytes") == [0] + [size * 3 * D] * 4
    assert spent(run, "uploaded_bytes") == [size * 3 * D] * 5
    assert spent(run, "clients_uploaded") == [3] * 5
    assert spent(run, "client_steps") == [3 * STEPS] * 5
    assert spent(run, "gradient_passes") == [0] * 5
    assert spent(run, "evaluation_passes") == [0] * 5
