"""Partitions: what each recipe promises, its numbers by hand, and that none hangs or breaks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from tests.support.partitions import of_counts, shared
from trials import heterogeneity
from trials.common.errors import UserError
from trials.datasets.base import Dataset
from trials.federated_data import partition
from trials.settings import Settings

NAMES = """
iid iid+sizes(lognormal(0.3)) iid+sizes(lognormal(9)) dirichlet(0.01) dirichlet(1)
dirichlet(0.6)+sizes(lognormal(0.3)) dirichlet(1e308) dirichlet_by_class(1e-300)
dirichlet_by_class(0.1) dirichlet_by_class(10) dirichlet_by_class(1e308) labels(1) labels(3)
labels(1)+sizes(powerlaw) labels(2)+sizes(powerlaw) shards(1) shards(3) shards(1,strict)
shards(2,strict) gaussian(labels=2,mean=12,std=5) gaussian(labels=1,mean=3,std=0)
gaussian(labels=1..3,mean=12,std=5) groups({0,2},{1},share=0.3,mean=8,std=2)
labels(2)+sizes(lognormal_absolute(1,1)) natural"""
LEVELS = NAMES.split()
SHARING = ("gaussian", "groups")


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=6),
    st.integers(1, 30),
    st.integers(0, 999),
    st.sampled_from(LEVELS),
)
@profile(max_examples=400)
def test_a_partition_deals_or_says_why_it_cannot(stock, clients, seed, level):
    """Some labels may be absent, and there may be no samples at all."""
    y = of_counts(stock, seed)
    owner = np.random.default_rng(seed).integers(0, clients, len(y))
    try:
        parts = shared(level, y, clients, seed, owner)
    except UserError:
        return
    assert len(parts) == clients
    assert min(len(ids) for ids in parts) >= 1
    ids = np.concatenate(parts)
    assert ids.dtype.kind == "i"
    assert 0 <= ids.min() <= ids.max() < len(y)
    if not level.startswith(SHARING):
        assert len(np.unique(ids)) == len(ids)
    again = shared(level, y, clients, seed, owner)
    for a, b in zip(parts, again, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("level", "clients", "says"),
    [
        ("dirichlet_by_class(0.1)", 301, "301 clients"),
        ("labels(2)+sizes(powerlaw)", 40, r"label 0 has 60 .* for 16 of 40 .* each needs 5"),
        ("labels(6)", 4, "only 5 labels"),
        ("shards(1,strict)", 4, "cannot cover 5 labels"),
        ("groups", 4, "no training sample has label 5"),
        ("groups({0},{1},mean=400)", 4, "but there are 300"),
    ],
)
def test_what_cannot_be_had_is_said(level, clients, says):
    with pytest.raises(UserError, match=says):
        shared(level, of_counts([60] * 5), clients)


BY_LABEL = ["dirichlet(1)", "dirichlet_by_class(1)", "labels(1)", "shards(2)", "gaussian", "groups"]


@pytest.mark.parametrize("level", BY_LABEL)
def test_real_targets_have_no_labels_to_go_by(level):
    y = np.linspace(0, 1, 50, dtype=np.float32)
    with pytest.raises(UserError, match="no labels"):
        shared(level, y, 4)
    for fine in ("iid", "iid+sizes(lognormal(0.3))", "natural"):
        parts = shared(fine, y, 5, 0, np.arange(50) % 5)
        assert sorted(np.concatenate(parts).tolist()) == list(range(50))


@given(
    st.sampled_from(["gaussian(labels=2,mean=30,std=5)", "groups({0,3},{1},mean=30,std=5)"]),
    st.sampled_from([0.0, 0.1, 0.5]),
    st.integers(0, 20),
)
@profile(max_examples=20)
def test_no_id_is_in_two_splits_even_where_clients_share_samples(level, val_fraction, seed):
    y = of_counts([80] * 4, seed)
    test = np.random.default_rng(seed).random(len(y)) < 0.2
    dataset = Dataset(np.zeros((len(y), 1), np.float32), y, test, 4)
    common = Settings(clients=12, val_fraction=val_fraction, partition_seed=seed)
    data = partition(dataset, heterogeneity.parse(level), common)
    train, val = set(data.train.tolist()), set(data.val.tolist())
    assert not train & val
    assert not test[data.train].any()
    assert not test[data.val].any()
    np.testing.assert_array_equal(data.test, np.flatnonzero(test))
    assert len(train) < len(data.train)
