"""Partitions as their papers' recipes tell them, computed by hand."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.partitions import POOLED, counted, of_counts, shared


def power_law(y: np.ndarray, clients: int, c: int, seed: int) -> np.ndarray:
    """User u's images of each digit, as the recipe tells it: 5 each, then floor of a share."""
    images = np.bincount(y)
    a = np.random.default_rng(seed).lognormal(0, 2, (clients, 10))
    holdings = [(u, (u + j) % 10) for u in range(clients) for j in range(c)]
    total, holders = Counter(), Counter()
    for u, label in holdings:
        total[label] += a[u, label]
        holders[label] += 1
    found = np.zeros((clients, 10), int)
    for u, label in holdings:
        rest = images[label] - 5 * holders[label]
        found[u, label] = 5 + int(a[u, label] / total[label] * rest)
    return found


@pytest.mark.parametrize(("clients", "c"), [(1000, 2), (37, 1), (25, 5), (30, 10), (4, 3)])
def test_power_law_by_hand(clients, c):
    y = of_counts(POOLED if clients == 1000 else [n // 10 for n in POOLED])
    found = counted(shared(f"labels({c})+sizes(powerlaw)", y, clients, seed=3), y)
    # The order in which a label's shares are added up may move a share across a whole number.
    assert np.abs(found - power_law(y, clients, c, 3)).max() <= 1
    assert (found == power_law(y, clients, c, 3)).mean() > 0.999
    for k, row in enumerate(found):
        assert set(np.flatnonzero(row)) == {(k + j) % 10 for j in range(c)}
        assert row[row > 0].min() >= 5


def test_shards_by_hand():
    """Ten sorted samples in 4 shards: sizes 3, 3, 2, 2, of labels 000 001 11 11."""
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    found = Counter(tuple(np.sort(y[ids])) for ids in shared("shards(1)", y, 4))
    assert found == {(0, 0, 0): 1, (0, 0, 1): 1, (1, 1): 2}


def test_strict_shards_by_hand():
    """Stocks 7, 2, 1 in 6 shards: the largest shard is split until there are 6, so 7 in 4 parts."""
    y = of_counts([7, 2, 1])
    parts = shared("shards(1,strict)", y, 6)
    found = Counter((int(y[ids][0]), len(ids)) for ids in parts)
    assert found == {(0, 2): 3, (0, 1): 1, (1, 2): 1, (2, 1): 1}
    assert all(len(set(y[ids].tolist())) == 1 for ids in parts)


@given(st.integers(1, 6), st.integers(0, 5), st.integers(1, 40), st.integers(0, 999))
def test_label_counts_lie_in_their_range_and_sizes_do_not_depend_on_it(low, more, clients, seed):
    high = min(low + more, 6)
    low = min(low, high)
    y = of_counts([200] * 6, seed)
    level = "gaussian(labels={}, mean=60, std=4)"
    parts = shared(level.format(f"{low}..{high}"), y, clients, seed)
    held = (counted(parts, y, 6) > 0).sum(1)
    assert low <= held.min() <= held.max() <= high
    assert all(len(set(ids.tolist())) == len(ids) for ids in parts)
    fixed = shared(level.format(high), y, clients, seed)
    assert [len(ids) for ids in parts] == [len(ids) for ids in fixed]
    same = shared(level.format(f"{high}..{high}"), y, clients, seed)
    for a, b in zip(fixed, same, strict=True):
        np.testing.assert_array_equal(a, b)


@given(
    st.sets(st.integers(0, 5), min_size=1),
    st.sets(st.integers(0, 5), min_size=1),
    st.floats(0.01, 0.99),
    st.integers(2, 40),
    st.integers(0, 999),
)
def test_groups_hold_their_labels_and_no_others(first, second, share, clients, seed):
    y = of_counts([100] * 6, seed)
    one, two = ("{" + ",".join(map(str, labels)) + "}" for labels in (first, second))
    level = f"groups({one}, {two}, share={share}, mean=60, std=4)"
    parts = shared(level, y, clients, seed)
    drawn = np.maximum(np.floor(np.random.default_rng(seed).normal(60, 4, clients)), 1)
    assert [len(ids) for ids in parts] == drawn.astype(int).tolist()
    leading = min(max(round(share * clients), 1), clients - 1)
    for k, ids in enumerate(parts):
        labels = set(y[ids].tolist())
        assert labels <= (first if k < leading else second)
        assert len(set(ids.tolist())) == len(ids)


def absolute(stock: np.ndarray, clients: int, c: int, mu: float, seed: int) -> np.ndarray:
    """(n, C), told client after client: two of each label, then what is wanted while it lasts."""
    sizes = (np.exp(mu + np.random.default_rng(seed).standard_normal(clients)) + 5).astype(int)
    holders = [
        [u for u in range(clients) if (label - u) % len(stock) < c] for label in range(len(stock))
    ]
    found = np.zeros((clients, len(stock)), int)
    for label, who in enumerate(holders):
        spare = stock[label] - 2 * len(who)
        for u in who:
            more = min(max(sizes[u] // c, 2) - 2, spare)
            spare -= more
            found[u, label] = 2 + more
    return found


@given(
    st.lists(st.integers(140, 300), min_size=7, max_size=62),
    st.integers(1, 70),
    st.integers(1, 7),
    st.floats(0, 6),
    st.integers(0, 99),
)
def test_absolute_sizes_by_hand(stock, clients, c, mu, seed):
    y = of_counts(stock, seed)
    parts = shared(f"labels({c})+sizes(lognormal_absolute({mu},1))", y, clients, seed)
    found = counted(parts, y, len(stock))
    np.testing.assert_array_equal(found, absolute(np.bincount(y), clients, c, mu, seed))
    ids = np.concatenate(parts)
    assert len(set(ids.tolist())) == len(ids)


def test_lognormal_sizes_by_the_recipe():
    draw = np.random.default_rng(8).lognormal(np.log(6000 / 50), 0.3, 50)
    expected = (draw / draw.sum() * 6000).astype(int)
    expected[0] += 6000 - expected.sum()
    y = of_counts([600] * 10)
    for level in ("iid", "dirichlet(0.6)"):
        parts = shared(f"{level}+sizes(lognormal(0.3))", y, 50, seed=8)
        assert [len(ids) for ids in parts] == expected.tolist()
        assert sorted(np.concatenate(parts).tolist()) == list(range(6000))


def test_dirichlet_takes_the_label_that_its_numbers_say():
    """The first draw of FedDC's recipe from its own random numbers."""
    y, n = of_counts([30, 30, 30]), 9
    rng = np.random.default_rng(4)
    q = rng.dirichlet([0.3] * 3, n)
    pools = [rng.permutation(np.flatnonzero(y == label)) for label in range(3)]
    pick, coin = rng.random((90, 2))[0]
    k = int(pick * n)
    label = int((np.cumsum(q[k]) / np.cumsum(q[k])[-1] <= coin).sum())
    assert shared("dirichlet(0.3)", y, n, seed=4)[k][0] == pools[label][-1]


def test_dirichlet_by_class_by_hand():
    """Each label is cut at the cumulated proportions, rounded down."""
    y, stock = of_counts([40, 70]), np.array([40, 70])
    p = np.random.default_rng(6).dirichlet([2.0] * 3, 2)
    cuts = (np.cumsum(p, 1)[:, :2] * stock[:, None]).astype(int)
    expected = np.diff(np.column_stack([cuts, stock]), prepend=0)
    found = counted(shared("dirichlet_by_class(2)", y, 3, seed=6), y, 2)
    np.testing.assert_array_equal(found.T, expected)
