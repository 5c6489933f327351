"""Who talks to whom: named graphs with Metropolis weights, and matrices from a file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trials import topology
from trials.common.errors import UserError

LATTICES = (2, 4, 6, 8)
NAMED = ("complete", "star", "erdos_renyi(0.7)", *(f"ring({degree})" for degree in LATTICES))
FIXED = tuple(name for name in NAMED if not name.startswith("erdos"))


def matrix(text, n, seed=0):
    return topology.parse(text).matrix(n, seed)


def apart(n):
    """Distances on a circle of n."""
    gap = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return np.minimum(gap, n - gap)


def edges(text, n):
    """The adjacency a fixed name stands for."""
    if text == "star":
        return (apart(n) > 0) & np.logical_or.outer(np.arange(n) == 0, np.arange(n) == 0)
    width = n if text == "complete" else int(text[5:-1]) // 2
    return (apart(n) > 0) & (apart(n) <= width)


def metropolis(adjacent):
    """W_kj = 1 / (1 + max(deg k, deg j)) on edges, the rest of each row on its diagonal."""
    degree = adjacent.sum(0)
    w = adjacent / (1 + np.maximum.outer(degree, degree))
    return w + np.diag(1 - w.sum(1))


def spectral(w):
    return np.linalg.norm(w - 1 / len(w), 2)


@given(st.sampled_from(NAMED), st.integers(1, 25), st.integers(0, 9))
def test_named_topologies_are_symmetric_doubly_stochastic_and_connected(text, n, seed):
    w = matrix(text, n, seed)
    assert w.shape == (n, n)
    assert w.dtype == np.float64
    np.testing.assert_array_equal(w, w.T)
    np.testing.assert_allclose(w.sum(0), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(w.sum(1), 1, rtol=0, atol=1e-12)
    assert (w >= 0).all()
    assert (np.diag(w) > 0).all()
    assert spectral(w) < 1 - 1e-6


@given(st.sampled_from(FIXED), st.integers(1, 25))
def test_named_topologies_by_their_definition(text, n):
    np.testing.assert_allclose(matrix(text, n), metropolis(edges(text, n)), rtol=0, atol=1e-12)


def test_a_random_graph_has_each_edge_with_its_probability():
    """66 edges, 60 graphs dense enough to be connected at once: 5 deviations."""
    n, p, graphs = 12, 0.6, 60
    drawn = [np.triu(matrix(f"erdos_renyi({p})", n, seed), 1) > 0 for seed in range(graphs)]
    np.testing.assert_array_equal(
        matrix(f"erdos_renyi({p})", n, 3), matrix(f"erdos_renyi({p})", n, 3)
    )
    total = graphs * n * (n - 1) // 2
    assert abs(np.sum(drawn) - p * total) < 5 * np.sqrt(total * p * (1 - p))
    each = np.sum(drawn, 0)[np.triu_indices(n, 1)]
    assert (np.abs(each - p * graphs) < 5 * np.sqrt(graphs * p * (1 - p))).all()


@pytest.mark.parametrize(
    ("degree", "norm"), zip(LATTICES, (0.873, 0.647, 0.374, 0.111), strict=True)
)
def test_lattices_of_ten(degree, norm):
    """DeFed Fig. 2: weights 1 / (l + 1) on l / 2 neighbours each side; norms to three digits."""
    w = matrix(f"ring({degree})", 10)
    np.testing.assert_allclose(w[w > 0], 1 / (degree + 1), rtol=0, atol=1e-15)
    assert ((w > 0).sum(1) == degree + 1).all()
    assert spectral(w) == pytest.approx(norm, abs=5e-4)


LAZY = np.array([[0.6, 0.3, 0.1], [0.3, 0.5, 0.2], [0.1, 0.2, 0.7]])


def saved(folder, w, suffix="npy"):
    path = folder / f"matrix.{suffix}"
    if suffix == "npy":
        np.save(path, w)
    else:
        np.savetxt(path, w, delimiter=",", fmt="%.17g")
    return f"file:{path}"


WRONG = {
    "too small": (np.full((2, 2), 0.5), "3 x 3"),
    "not symmetric": (np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]]), "symmetric"),
    "sums below 1": (0.9 * LAZY, "stochastic"),
    "negative": (np.array([[1.5, -0.5, 0], [-0.5, 1.5, 0], [0, 0, 1]]), "from 0 on"),
    "disconnected": (np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]]), "lambda < 1"),
    "only swaps": (np.eye(3)[[1, 0, 2]], "lambda < 1"),
    "nan": (np.where(np.eye(3) > 0, np.nan, LAZY), "finite"),
    "words": (np.array([["a", "b"], ["b", "a"]]), "number"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_matrix_is_refused_in_words(what, tmp_path):
    w, words = WRONG[what]
    with pytest.raises(UserError, match=rf"matrix\.npy.*{words}"):
        matrix(saved(tmp_path, w), 3)
