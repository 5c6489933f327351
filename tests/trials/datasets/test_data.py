"""How data sets are split and partitioned to clients."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.simulations import holdings, well_split
from trials import heterogeneity
from trials.common.errors import UserError
from trials.datasets.base import Dataset
from trials.federated_data import partition
from trials.heterogeneity import PARTITIONS
from trials.run.spec import Scenario, canonical
from trials.run.trial import partition_data
from trials.settings import Settings


@given(
    st.sampled_from(["iid", "dirichlet(0.1)", "dirichlet(100)"]),
    st.integers(1, 8),
    st.integers(1, 6),
    st.sampled_from([0, 0.1, 0.25]),
    st.integers(0, 99),
)
def test_equal_shares(level, clients, classes, val_fraction, seed):
    y = np.random.default_rng(seed).permutation(np.tile(np.arange(classes), 3 * clients + 5))
    test = np.arange(len(y)) % 7 == 0
    dataset = Dataset(np.zeros((len(y), 1), np.float32), y, test, classes)
    common = Settings(clients=clients, val_fraction=val_fraction, partition_seed=seed)
    data = partition(dataset, heterogeneity.parse(level), common)
    well_split(data)
    free = int((~dataset.test).sum())
    assert len(data.val) == int(free * common.val_fraction)
    free -= len(data.val)
    if level == "iid":
        assert len(data.train) == free
        assert data.sizes.max() - data.sizes.min() <= 1
    else:
        assert (data.sizes == free // common.clients).all()


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.sampled_from([0, 0.1, 0.5]))
def test_natural_keeps_owners(sizes, val_fraction):
    owner = np.random.default_rng(len(sizes)).permutation(np.repeat(np.arange(len(sizes)), sizes))
    client, n = np.append(owner, [-1] * 4), len(owner)
    dataset = Dataset(np.zeros((n + 4, 1), np.float32), client % 3, client < 0, 3, client)
    data = partition(dataset, heterogeneity.parse("natural"), Settings(val_fraction=val_fraction))
    well_split(data)
    assert len(data.train) + len(data.val) == n
    for k, ids in enumerate(holdings(data)):
        assert (dataset.client[ids] == k).all()
        assert len(ids) == sizes[k] - int(sizes[k] * val_fraction)


def test_what_seeds_and_the_fingerprint_tell_apart(digits):
    def partitioned(level="iid", **given):
        return partition(digits, heterogeneity.parse(level), Settings(**given))

    base, other = partitioned(), partitioned(partition_seed=1)
    assert partitioned("iid+system(steps=1..3)").fingerprint == base.fingerprint
    changes = [{"data_seed": 1}, {"clients": 19}, {"level": "dirichlet(1)"}, {"val_fraction": 0}]
    others = [other, *(partitioned(**change) for change in changes)]
    assert len({data.fingerprint for data in [base, *others]}) == len(others) + 1
    np.testing.assert_array_equal(other.val, base.val)
    np.testing.assert_array_equal(np.sort(other.train), np.sort(base.train))


@pytest.mark.parametrize("a", [1e-2, 1e-4])
def test_a_very_skewed_dirichlet_deals_all_sizes(a):
    """Priors underflow here: what is left of a client's prior can be a subnormal number."""
    y = np.repeat(np.arange(10), 30)
    for seed in range(100):
        parts = PARTITIONS["dirichlet"](a).assign(y, 10, None, np.random.default_rng(seed))
        assert [len(part) for part in parts] == [30] * 10
        assert len(np.unique(np.concatenate(parts))) == 300


# What reaches nobody


LEVELS = {
    "iid": 20,
    "dirichlet(0.3)": 1000,
    "dirichlet_by_class(0.3)": 7,
    "labels(2)": 4,
    "labels(3)+sizes(powerlaw)": 20,
    "labels(1)+sizes(lognormal_absolute(1,0))": 3,
    "shards(1,strict)": 10,
    "gaussian(labels=10,mean=30,std=0)": 4,
    "groups(mean=100,std=1)": 4,
}
"""Of each partition, with a number of clients at which samples may be left over."""


def test_every_partition_is_counted():
    assert {re.match(r"\w+", level)[0] for level in LEVELS} == PARTITIONS.keys() - {"natural"}


@pytest.mark.parametrize("level", LEVELS)
def test_labels_and_samples_that_reach_nobody_are_counted(digits, level):
    data = partition(digits, heterogeneity.parse(level), Settings(clients=LEVELS[level]))
    free = np.setdiff1d(np.flatnonzero(~digits.test), data.val)
    unused = np.setdiff1d(free, data.train)
    counted = re.findall(r"([\d,]+) of 1,294", data.note)
    assert sum(int(number.replace(",", "")) for number in counted) == len(unused)
    labels = [*map(int, np.setdiff1d(digits.y[free], digits.y[data.train]))]
    assert ("no client holds the labels" in data.note) == bool(labels)
    assert ", ".join(map(str, labels)) in data.note


def of_owners(sizes: list[int]) -> Dataset:
    owner = np.repeat(np.arange(len(sizes) + 1), [*sizes, 4])
    y = np.arange(len(owner)) % 2
    test = owner == len(sizes)
    return Dataset(np.zeros((len(y), 1), np.float32), y, test, 2, np.where(test, -1, owner))


@pytest.mark.parametrize(
    ("sizes", "share", "small"),
    [
        ([30, 9, 12, 9], 0.1, "2 of 4 clients"),
        ([5, 6, 7, 100], 0.01, "3 of 4 clients"),
        ([10, 10], 0.1, ""),
        ([9, 9, 9], 0.0, ""),
        ([6] * 20, 0.1, None),
        ([19] * 5, 0.05, None),
        ([1, 1], 0.5, None),
    ],
)
def test_owners_too_small_for_validation_are_counted_and_refused_where_none_is_left(
    sizes, share, small
):
    settings = Settings(val_fraction=share)
    spec = canonical("fedavg", {}, Scenario("digits", "logreg", "natural"), settings, 0)
    if small is None:
        with pytest.raises(UserError, match="val_fraction"):
            partition_data(spec, of_owners(sizes))
        return
    note = partition_data(spec, of_owners(sizes)).note
    assert note == (small and f"reaches nobody: {small} are too small to give a validation sample")


def test_what_is_tested_and_never_trained_is_counted() -> None:
    y, owner, test = np.array([0, 1, 0, 1, 2, 1]), np.array([0, 1, 0, 1, 1, 5]), np.arange(6) > 3
    spec = canonical(
        "fedavg", {}, Scenario("digits", "logreg", "natural"), Settings(val_fraction=0), 0
    )
    data = partition_data(spec, Dataset(np.zeros((6, 1), np.float32), y, test, 3, owner))
    assert data.note.count("reaches nobody: 1 of 2 test samples") == 2
