"""Step counts, rates of clients and epochs, trajectories, earlier rounds."""

import numpy as np
import pytest
import torch

from tests.support.oracle import EXECUTIONS, LR, SEED, D, local_sgd, service
from tests.support.simulations import partitioned
from trials.engine.training import minibatches

SYSTEM = "iid+system(steps=1..7)"


def work(fed, ids):
    """Each client's minibatches of the round."""
    steps = fed.steps(ids).numpy().astype(int)
    x, y = fed.data.dataset.x.astype(float), fed.data.dataset.y
    words = (SEED, fed.round)
    plan = minibatches(fed.data, ids.numpy(), steps, fed.settings.batch_size, words)
    return [
        [(x[b], y[b]) for b in (plan.samples[i, j][plan.weight[i, j] > 0] for j in range(steps[i]))]
        for i in range(len(ids))
    ]


def pulled(w, g, default, a):
    return g + a * (w - default)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_rows_reach_the_client_they_belong_to(execution):
    """Also where clients are sorted by their steps, drawn twice, and cut to those at work."""
    fed = service(level=SYSTEM, batch_size=2, execution=execution)
    ids, rng = torch.tensor([4, 1, 1, 0, 3]), np.random.default_rng(5)
    start, default = (torch.from_numpy(rng.normal(size=(5, D))) for _ in range(2))
    start[2], default[2] = start[1], default[1]
    a = torch.tensor([[0.1], [0.5], [0.5], [0.9], [0.3]], dtype=torch.float64)
    rates = torch.tensor([0.1, 0.2, 0.2, 0.3, 0.4], dtype=torch.float64)
    found = fed.train(ids, start, rates, pulled, default=default, a=a)
    batches = work(fed, torch.tensor([4, 1, 0, 3]))
    for row, i in enumerate([0, 1, 1, 2, 3]):

        def extra(v, row=row):
            return a[row].numpy() * (v - default[row].numpy())

        expected = local_sgd(start[row].numpy(), batches[i], float(rates[row]), extra=extra)
        np.testing.assert_allclose(found[row], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("level", ["iid", SYSTEM])
def test_an_earlier_round_is_computed_as_it_was_and_not_counted_again(level, execution):
    given = {"batch_size": 2, "momentum": 0.5, "execution": execution}
    now, then = (service(level=level, at=at, **given) for at in (6, 2))
    ids = torch.tensor([0, 2, 3])
    start = then.initial(ids)
    expected = then.train(ids, start, LR, lambda w, g: g)
    now.train(ids, start, 2 * LR, lambda w, g: g)
    loss, before = now.train_loss, dict(now.counters)
    found = now.train(ids, start, LR, lambda w, g: g, at_round=2)
    assert torch.equal(found, expected)
    assert now.counters == before
    assert now.train_loss == loss
    then.deferred(torch.tensor([1, 1, 4]))
    both = then.steps(torch.tensor([1, 4])).sum() + then.steps(ids).sum()
    assert then.counters["client_steps"] == int(both)
    assert (now.train(ids, start, LR, lambda w, g: g) - expected).abs().max() > 1e-4


def test_equal_keys_keep_the_order_of_the_samples(monkeypatch):
    """Which of two equal keys an unstable sort puts first depends on the processor's instructions."""

    def three_keys(*words):
        return (np.zeros_like(words[-1]) + words[-1] % 3).astype(np.uint64) << np.uint64(60)

    monkeypatch.setattr("trials.engine.training.randomness.bits", three_keys)
    data = partitioned([1000])
    samples = minibatches(data, np.array([0]), np.array([1]), "full", ()).samples[0, 0]
    expected = [data.train[start::3] for start in range(3)]
    np.testing.assert_array_equal(samples, np.concatenate(expected))
