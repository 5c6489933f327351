"""Who takes part in a round: the three ways of selecting, draws, and what repeats cost."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.oracle import (
    EXECUTIONS,
    LR,
    SEED,
    SIZES,
    STEPS,
    D,
    clients,
    gradient,
    service,
)
from tests.support.simulations import partitioned, settings, simulation
from trials.algorithms.fedavg import FedAvg
from trials.common.randomness import uniform


def repeated(t, n, count, stream="select"):
    """`count` draws with replacement: the n-th parts of [0, 1) that uniform numbers fall into."""
    return np.sort(np.floor(uniform(stream, SEED, t, np.arange(count)) * n).astype(int))


def independent(t, n, participation):
    u = uniform("select", SEED, t, np.arange(n))
    chosen = np.flatnonzero(u < participation)
    return chosen if len(chosen) else np.array([u.argmin()])


@given(
    st.integers(1, 12),
    st.floats(0.01, 1.0),
    st.integers(0, 50),
    st.sampled_from(["select", "second"]),
)
def test_who_is_selected(n, participation, t, stream):
    chosen = {}
    for selection in ("without_replacement", "with_replacement", "independent"):
        common = settings(participation=participation, selection=selection)
        fed = simulation(FedAvg(), partitioned([1] * n), common, seed=SEED).fed
        fed.begin(t)
        ids = fed.select() if stream == "select" else fed.select(stream)
        assert ids.dtype == torch.int64
        chosen[selection] = ids.tolist()
    u, count = uniform(stream, SEED, t, np.arange(n)), max(1, round(participation * n))
    assert chosen["without_replacement"] == sorted(np.argsort(u)[:count].tolist())
    assert chosen["with_replacement"] == repeated(t, n, count, stream).tolist()
    below = np.flatnonzero(u < participation).tolist()
    assert chosen["independent"] == (below or [int(u.argmin())])


probabilities = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-3, 1e3)), min_size=1, max_size=9
).filter(any)


@given(probabilities, st.floats(0.2, 1.0), st.integers(1, 40))
def test_a_draw_maps_uniform_numbers_through_the_cumulative_probabilities(p, participation, t):
    n = len(p)
    fed = simulation(
        FedAvg(), partitioned([1] * n), settings(participation=participation), seed=SEED
    ).fed
    fed.begin(t)
    found = fed.draw(torch.tensor(p, dtype=torch.float64)).tolist()
    u = uniform("select", SEED, t, np.arange(max(1, round(participation * n))))
    total, expected = sum(p), []
    for one in u:
        k, reached = 0, p[0] / total
        while reached <= one and k < n - 1:
            k += 1
            reached += p[k] / total
        expected.append(k)
    assert found == sorted(expected)
    assert all(p[k] > 0 for k in found)


# What a client does for each of the times it was drawn is done once.


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_repeated_client_works_and_sends_once(execution):
    fed = service(execution=execution, participation=1.0)
    twice, once = torch.tensor([1, 1, 3, 4, 4, 4]), torch.tensor([1, 3, 4])
    message = torch.arange(3, dtype=torch.float64)
    received = fed.broadcast(twice, message)
    assert received.shape == (6, 3)
    assert fed.counters["downloaded_bytes"] == 3 * 3 * 8
    start = fed.initial(twice)
    w = fed.train(twice, start, LR, lambda w, g: g)
    assert fed.counters["client_steps"] == 3 * STEPS
    g = fed.gradient(twice, w)
    assert fed.counters["gradient_passes"] == 3
    accuracy = fed.score(twice, w)
    assert fed.counters["evaluation_passes"] == 3
    assert torch.equal(fed.upload(twice, w), w)
    assert fed.counters["uploaded_bytes"] == 3 * D * 8
    assert fed.counters["clients_uploaded"] == 3
    fed.upload(twice, accuracy)
    assert fed.counters["uploaded_bytes"] == 3 * D * 8 + 3 * 8
    assert fed.counters["clients_uploaded"] == 3
    alone = fed.train(once, fed.initial(once), LR, lambda w, g: g)
    for row, k in enumerate(twice.tolist()):
        one = once.tolist().index(k)
        np.testing.assert_allclose(w[row], alone[one], rtol=0, atol=1e-14)
        part = list(clients(partitioned(SIZES)))[k]
        np.testing.assert_allclose(g[row], gradient(w[row].numpy(), *part), rtol=0, atol=1e-12)
        z = part[0] @ w[row, :6].numpy().reshape(3, 2).T + w[row, 6:].numpy()
        assert float(accuracy[row]) == pytest.approx(np.mean(z.argmax(1) == part[1]), abs=1e-12)
    m = np.array(SIZES)[twice]
    np.testing.assert_allclose(fed.weights(twice), m / m.sum(), rtol=0, atol=1e-15)
