"""Minibatch plans, system heterogeneity, gradients on all samples."""

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.simulations import (
    partitioned,
    settings,
    simulation,
)
from trials.algorithms import ALGORITHMS
from trials.engine.training import minibatches, steps_per_epoch

sizes_ = st.lists(st.integers(1, 13), min_size=1, max_size=5)
batches_ = st.one_of(st.integers(1, 20), st.just("full"))
words_ = st.tuples(st.integers(0, 50), st.integers(1, 50))


def mine(data, k):
    return data.train[data.offsets[k] : data.offsets[k + 1]]


def taken(plan, row):
    """The real samples of each step of a row."""
    return [plan.samples[row, j][plan.weight[row, j] > 0].tolist() for j in range(plan.steps[row])]


@given(sizes_, batches_, st.integers(1, 3), words_)
def test_each_pass_covers_each_sample_once(sizes, batch_size, passes, words):
    data, ids = partitioned(sizes), np.arange(len(sizes))
    per_epoch = steps_per_epoch(data.sizes, batch_size)
    plan = minibatches(data, ids, passes * per_epoch, batch_size, words)
    for k in ids:
        width = sizes[k] if batch_size == "full" else batch_size
        steps = taken(plan, k)
        assert len(steps) == passes * -(-sizes[k] // width)
        for e in range(passes):
            one = steps[e * per_epoch[k] : (e + 1) * per_epoch[k]]
            assert sorted(chain(*one)) == sorted(mine(data, k))
            assert [len(b) for b in one[:-1]] == [width] * (len(one) - 1)
            assert len(one[-1]) == sizes[k] - width * (len(one) - 1)


@given(sizes_, batches_, words_, st.data())
def test_weights_and_padding(sizes, batch_size, words, more):
    data, ids = partitioned(sizes), np.arange(len(sizes))
    steps = np.array([more.draw(st.integers(1, 20)) for _ in ids])
    plan = minibatches(data, ids, steps, batch_size, words)
    assert plan.samples.shape == plan.weight.shape
    assert plan.samples.shape[1] == steps.max()
    for k in ids:
        at_work, idle = plan.weight[k, : steps[k]], plan.weight[k, steps[k] :]
        np.testing.assert_allclose(at_work.sum(-1), 1)
        assert (idle == 0).all()
        for weight in at_work:
            real = np.count_nonzero(weight)
            np.testing.assert_allclose(weight[:real], 1 / real)
            assert (weight[real:] == 0).all()


@given(sizes_, batches_, words_, st.data())
def test_a_plan_is_the_clients_own(sizes, batch_size, words, more):
    """Neither the company, its order, nor how much is asked for changes what a client meets."""
    data, everyone = partitioned(sizes), np.arange(len(sizes))
    steps = np.array([more.draw(st.integers(1, 20)) for _ in everyone])
    plan = minibatches(data, everyone, steps, batch_size, words)
    some = np.array(more.draw(st.permutations(everyone)))[: more.draw(st.integers(1, len(sizes)))]
    again = minibatches(data, some, steps[some], batch_size, words)
    longer = minibatches(data, some, steps[some] + 7, batch_size, words)
    for row, k in enumerate(some):
        assert taken(again, row) == taken(plan, k)
        assert taken(longer, row)[: steps[k]] == taken(plan, k)


@pytest.mark.parametrize("execution", ["compiled", "batched", "sequential"])
def test_a_full_pass_in_blocks_gives_the_gradient_on_all_samples(execution):
    data = partitioned([700, 3])
    run = simulation(ALGORITHMS["fedavg"](), data, settings(execution=execution))
    assert run.fed.execution == execution
    w = run.fed.initial(torch.arange(2))
    found = run.fed.gradient(torch.arange(2), w)
    losses = []
    for k in range(2):
        x, y = run.fed.x[mine(data, k)], run.fed.y[mine(data, k)]
        leaf = w[k].clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy(run.fed.model.logits(leaf, x), y)
        loss.backward()
        losses.append(loss.item())
        torch.testing.assert_close(found[k], leaf.grad, rtol=0, atol=1e-12)
    assert run.fed.train_loss == pytest.approx(sum(losses) / 2, abs=1e-12)
