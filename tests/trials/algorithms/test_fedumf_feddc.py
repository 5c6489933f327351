"""FedUmf + FedDC against FedDC's local problem in FedUmf's round, in its eager form."""

import numpy as np
import pytest

from tests.support.fedumf import CASES, COMMON, COUNT, EAGER, LR, SIZES, common, work
from tests.support.oracle import EXECUTIONS, SEED, D, agrees, initial, local_sgd, selected
from tests.support.simulations import finish, partitioned, settings, simulation, state
from trials.algorithms import ALGORITHMS


def Combined(**given):  # noqa: N802
    return ALGORITHMS["fedumf_feddc"](**{"lr": LR, **given})


def fedumf_feddc(data, a, fusion, displacement, count=COUNT, aggregation="samples", **given):
    """FedDC's local problem, anchored at theta, in FedUmf's round."""
    n, decay = data.clients, given.get("lr_decay", 1.0)
    theta, t = initial(), 0
    m = np.diff(data.offsets)
    om = n * m / m.sum() if aggregation == "samples" else np.ones(n)
    moved, h, own = (np.zeros((n, D)) for _ in range(3))
    server = np.zeros(D)
    before = set()
    while True:
        t += 1
        ids = selected(t, n, count)
        eta = LR * decay ** (t - 1)
        ratio = 1.0 if t == 1 else decay
        batches, w, starts = work(data, t, given), np.zeros((n, D)), np.zeros((n, D))
        for i in range(n):
            v = theta + (fusion * ratio * moved[i] if i in ids and i not in before else 0)

            def extra(at, i=i, theta=theta, server=server):
                return a / om[i] * (at - (theta - h[i])) - own[i] + server / om[i]

            starts[i] = v
            w[i] = local_sgd(v, batches[i], eta, extra)
            moved[i] = w[i] - v
        after = server.copy()
        for i in ids:
            delta = w[i] - (theta if displacement == "theta" else starts[i])
            h[i] += delta
            new = own[i] - server / om[i] - delta / (len(batches[i]) * eta)
            after += om[i] * (new - own[i]) / n
            own[i] = new
        theta = w[ids].mean(0) + h.mean(0)
        server, before = after, set(ids)
        yield theta


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("displacement", ["theta", "start"])
@pytest.mark.parametrize("case", ["full batches", "a decaying rate", "minibatches"])
def test_fedumf_feddc(case, displacement, execution):
    given = CASES[case]
    oracle = fedumf_feddc(partitioned(SIZES), 0.1, 0.7, displacement, **given)
    algorithm = Combined(alpha=0.1, fusion=0.7, displacement_from=displacement)
    agrees(common(algorithm, execution=execution, **given), oracle)


def test_fedumf_feddc_with_plain_aggregation():
    oracle = fedumf_feddc(partitioned(SIZES), 0.1, 1.0, "theta", aggregation="plain")
    agrees(common(Combined(alpha=0.1), aggregation="plain"), oracle)


@pytest.mark.parametrize("displacement", ["theta", "start"])
def test_the_displacement_matters(displacement):
    both = [
        finish(simulation(algorithm, partitioned(SIZES), settings(**COMMON), seed=SEED))
        for algorithm in (Combined(), Combined(displacement_from=displacement))
    ]
    gap = np.abs(state(both[0])["w"] - state(both[1])["w"]).max()
    assert (gap == 0) if displacement == "theta" else (gap > 1e-4)


@pytest.mark.parametrize("displacement", ["theta", "start"])
@pytest.mark.parametrize("level", ["iid", "iid+system(steps=1..6)"])
def test_without_fusion_it_is_feddc(displacement, level):
    common = settings(**EAGER)
    without, feddc, fused = (
        finish(simulation(algorithm, partitioned(SIZES), common, level=level, seed=SEED))
        for algorithm in (
            Combined(alpha=0.05, fusion=0.0, displacement_from=displacement),
            ALGORITHMS["feddc"](lr=LR, alpha=0.05),
            Combined(alpha=0.05, fusion=1.0, displacement_from=displacement),
        )
    )
    ours, theirs = state(without), state(feddc)
    for name in theirs:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-12)
    assert np.abs(state(fused)["w"] - theirs["w"]).max() > 1e-3


def test_with_everyone_selected_it_is_feddc():
    common = settings(**{**EAGER, "participation": 1.0})
    fused, feddc = (
        finish(simulation(algorithm, partitioned(SIZES), common, seed=SEED))
        for algorithm in (Combined(alpha=0.05), ALGORITHMS["feddc"](lr=LR, alpha=0.05))
    )
    assert np.abs(state(fused)["w"] - state(feddc)["w"]).max() < 1e-12


def test_fedumf_feddc_sends_the_servers_tensors_to_all():
    """Table 7: FedDC's two tensors each way; all n hear, the selected answer."""
    run = finish(simulation(Combined(), partitioned(SIZES), settings(**COMMON), seed=SEED))
    n, d = len(SIZES), run.fed.d
    for T, entry in enumerate(run.history):
        assert entry["downloaded_bytes"] == 8 * 2 * n * d * T
        assert entry["uploaded_bytes"] == 8 * 2 * COUNT * d * T
        assert entry["client_steps"] == 4 * n * T
        assert entry["clients_uploaded"] == COUNT * T
