"""The grammar of levels, and what modifiers do to a run: work, delays, dropout."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from tests.support.simulations import (
    partitioned,
    settings,
    simulation,
)
from trials import heterogeneity
from trials.algorithms import ALGORITHMS
from trials.common.randomness import uniform
from trials.run.spec import TrialSpec
from trials.settings import Settings

SIZES = [3, 9, 4, 7, 5, 6, 8, 2]
SEED = 11

# Names


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("shards(strict, 2)", "shards(2,strict)"),
        ("gaussian", "gaussian(labels=7,mean=600,std=10)"),
        ("gaussian(labels = 1..7)", "gaussian(labels=1..7,mean=600,std=10)"),
        ("groups", "groups(share=0.5,mean=600,std=10)"),
        ("groups(second={3, 1,1})", "groups({1,2,5,7,9},{1,3},share=0.5,mean=600,std=10)"),
        ("labels(5)+sizes(lognormal_absolute(4.0, 1))", "labels(5)+sizes(lognormal_absolute)"),
        ("labels(2)+sizes(law=powerlaw)", "labels(2)+sizes(powerlaw)"),
        (
            "iid+delay(deadline=20,mean=5)+dropout(.1)+system(steps=1..2)+sizes(lognormal(1))",
            "iid+sizes(lognormal(1))+system(steps=1..2)+dropout(0.1)+delay(mean=5,deadline=20)",
        ),
    ],
)
def test_canonical_names(written, canonical):
    level = heterogeneity.parse(written)
    assert level.name == canonical
    assert heterogeneity.parse(canonical) == level
    assert level.changes_work == ("system" in canonical or "delay" in canonical)


def key(level: str) -> str:
    names = {"algorithm": "fedavg", "dataset": "digits", "model": "logreg", "params": {}}
    name = heterogeneity.parse(level).name
    return TrialSpec(**names, heterogeneity=name, settings=Settings(), seed=0).data_key


def test_sizes_make_other_data_and_what_devices_do_does_not():
    plain, power = key("labels(2)"), key("labels(2)+sizes(powerlaw)")
    assert plain != power
    devices = "+system(epochs=1..2)+dropout(0.1)+delay(mean=1,deadline=9)"
    assert key(f"labels(2){devices}") == plain
    assert key(f"labels(2)+sizes(powerlaw){devices}") == power


# How much work


def federation(level: str, **given):
    common = settings(**{"local_steps": None, "local_epochs": 2, "batch_size": 4, **given})
    fed = simulation(ALGORITHMS["fedavg"](), partitioned(SIZES), common, level=level, seed=SEED).fed
    fed.begin(3)
    return fed


PER_EPOCH = -(-np.array(SIZES) // 4)


def drawn(low: int, high: int) -> np.ndarray:
    u = uniform("steps", SEED, 3, np.arange(8))
    return low + np.floor(u * (high - low + 1)).astype(int)


def test_devices_manage_whole_epochs():
    """system(epochs=2..5): E_k passes of ceil(m_k / 4) minibatches, E_k by the same numbers as steps."""
    fed = federation("iid+system(epochs=2..5)")
    steps = fed.steps(fed.everyone).numpy()
    np.testing.assert_array_equal(steps, drawn(2, 5) * PER_EPOCH)
    assert len(set((steps / PER_EPOCH).tolist())) > 1
    fed.train(fed.everyone, fed.initial(fed.everyone), 0.1, lambda w, g: g)
    assert fed.counters["client_steps"] == steps.sum()
    assert fed.counters["sample_gradients"] == (drawn(2, 5) * SIZES).sum()


def delays(mean: float) -> np.ndarray:
    return -mean * np.log(1 - uniform("delay", SEED, np.arange(8)))


@pytest.mark.parametrize(
    ("asks", "level", "asked"),
    [
        ({}, "iid", 2 * PER_EPOCH),
        ({"local_steps": 9}, "iid", np.full(8, 9)),
        ({}, "iid+system(steps=1..20)", drawn(1, 20)),
        ({}, "iid+system(epochs=1..9)", drawn(1, 9) * PER_EPOCH),
    ],
)
def test_a_delayed_device_does_the_steps_that_fit_into_the_deadline(asks, level, asked):
    """J_k = min(asked, floor(deadline - T_k)), at least 1, T_k its own in every round."""
    fed = federation(f"{level}+delay(mean=5,deadline=8.5)", **asks)
    expected = np.maximum(1, np.minimum(asked, np.floor(8.5 - delays(5))))
    np.testing.assert_array_equal(fed.steps(fed.everyone).numpy(), expected)
    fits = np.floor(8.5 - delays(5))
    assert (fits < 1).any()
    assert (fits >= 1).any()


def test_a_deadline_holds_on_devices_of_every_speed():
    """Whoever does more than one step is done by the deadline, and one step more would be late."""
    level = heterogeneity.parse("iid+speed(0.8)+delay(mean=5,deadline=30)")
    ids, asked = np.arange(50), np.full(50, 40)
    steps = level.local_steps(asked, asked, ids, 3, SEED)
    assert (steps < 20).any()
    assert (steps == 40).any()
    in_time = level.seconds(steps, ids, SEED) <= 30
    assert (in_time | (steps == 1)).all()
    assert (level.seconds(steps + 1, ids, SEED) > 30)[steps < 40].all()


# Who answers


@given(
    st.sampled_from(["without_replacement", "with_replacement", "independent"]),
    st.floats(0, 0.99),
    st.floats(0.1, 1),
    st.integers(0, 30),
)
@profile(max_examples=60)
def test_who_answers_is_a_hash_of_seed_round_and_client(selection, rate, participation, t):
    found = {}
    for level in ("iid", f"iid+dropout({rate})"):
        common = settings(selection=selection, participation=participation)
        fed = simulation(
            ALGORITHMS["fedavg"](), partitioned(SIZES), common, level=level, seed=SEED
        ).fed
        fed.begin(t)
        found[level] = fed.select().tolist()
        assert fed.absent.tolist() == sorted(set(found["iid"]) - set(found[level]))
        drawn = fed.draw(torch.ones(8, dtype=torch.float64)).tolist()
        assert selection != "with_replacement" or drawn == found[level]
    chosen, answering = found.values()
    u = uniform("dropout", SEED, t, np.arange(8))
    expected = [k for k in chosen if u[k] >= min(rate, u[chosen].max())]
    assert answering == expected


def test_an_absent_device_sends_nothing_and_keeps_its_state():
    place = {"level": "iid+dropout(0.5)", "seed": SEED}
    run = simulation(ALGORITHMS["safl"](), partitioned(SIZES), settings(init="own"), **place)
    for t in range(1, 6):
        there = uniform("dropout", SEED, t, np.arange(8)) >= 0.5
        before, counters = run.state["z"][torch.arange(8)].clone(), dict(run.fed.counters)
        run.advance()
        changed = (run.state["z"][torch.arange(8)] != before).any(1).numpy()
        np.testing.assert_array_equal(changed, there)
        assert run.fed.counters["clients_uploaded"] - counters["clients_uploaded"] == there.sum()
        assert run.fed.counters["client_steps"] - counters["client_steps"] == 4 * there.sum()
        assert 0 < there.sum() < 8
