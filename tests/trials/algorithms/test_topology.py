"""Who talks to whom: named graphs with Metropolis weights, and matrices from a file."""

from itertools import pairwise, product

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


def reached(w):
    """How many clients a message of client 0 reaches."""
    found = np.zeros(len(w), bool)
    found[0] = True
    for _ in w:
        found = found | (w[found] != 0).any(0)
    return found.sum()


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
    assert reached(w) == n
    assert spectral(w) < 1 - 1e-6


@given(st.sampled_from(FIXED), st.integers(1, 25))
def test_named_topologies_by_their_definition(text, n):
    np.testing.assert_allclose(matrix(text, n), metropolis(edges(text, n)), rtol=0, atol=1e-12)


@given(st.integers(1, 25), st.integers(0, 9), st.sampled_from([0.5, 0.8, 1.0]))
def test_a_random_graph_has_metropolis_weights(n, seed, p):
    w = matrix(f"erdos_renyi({p})", n, seed)
    adjacent = (w > 0) & (apart(n) > 0)
    np.testing.assert_allclose(w, metropolis(adjacent), rtol=0, atol=1e-12)
    if p == 1:
        np.testing.assert_allclose(w, 1 / n, rtol=0, atol=1e-12)


def test_a_random_graph_is_the_seeds_own():
    first, again, other = (matrix("erdos_renyi(0.5)", 12, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_random_graph_has_each_edge_with_its_probability():
    """66 edges, 60 graphs dense enough to be connected at once: 5 deviations."""
    n, p, graphs = 12, 0.6, 60
    pairs = n * (n - 1) // 2
    drawn = [np.triu(matrix(f"erdos_renyi({p})", n, seed), 1) > 0 for seed in range(graphs)]
    total = graphs * pairs
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


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_a_ring_wider_than_the_circle_is_complete(n):
    for degree in LATTICES:
        if degree >= n - 1:
            np.testing.assert_allclose(matrix(f"ring({degree})", n), 1 / n, rtol=0, atol=1e-15)


def test_complete_is_one_nth_everywhere():
    np.testing.assert_allclose(matrix("complete", 7), 1 / 7, rtol=0, atol=1e-15)


def test_star_by_hand():
    third = 1 / 3
    expected = [[third, third, third], [third, 1 - third, 0], [third, 0, 1 - third]]
    np.testing.assert_allclose(matrix("star", 3), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("rign(2)", "ring"),
        ("complet", "complete"),
        ("stars", "star"),
        ("erdos_reny(0.5)", "erdos_renyi"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(text, nearest):
    with pytest.raises(UserError, match=f"{nearest}'"):
        topology.parse(text)


NONSENSE = """|ring(x)|ring(0)|ring(3)|ring(2.5)|ring(2, 4)|complete(3)|erdos_renyi|erdos_renyi(-0.5)|\
erdos_renyi(1.5)|erdos_renyi(nan)|file:|file:matrix.txt"""


@pytest.mark.parametrize("text", NONSENSE.split("|"))
def test_names_that_make_no_sense_are_refused(text):
    with pytest.raises(UserError):
        topology.parse(text).matrix(4, 0)


def test_a_graph_too_thin_to_be_connected_is_refused_in_words():
    with pytest.raises(UserError, match="connected"):
        matrix("erdos_renyi(0.0001)", 30)


LAZY = np.array([[0.6, 0.3, 0.1], [0.3, 0.5, 0.2], [0.1, 0.2, 0.7]])


def saved(folder, w, suffix="npy"):
    path = folder / f"matrix.{suffix}"
    if suffix == "npy":
        np.save(path, w)
    else:
        np.savetxt(path, w, delimiter=",", fmt="%.17g")
    return f"file:{path}"


@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_a_matrix_of_ones_own(suffix, tmp_path):
    found = matrix(saved(tmp_path, LAZY, suffix), 3)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, LAZY)


@pytest.mark.parametrize("w", [np.eye(1), np.full((4, 4), 0.25, np.float32)])
def test_other_shapes_and_types_of_ones_own(w, tmp_path):
    found = matrix(saved(tmp_path, w), len(w))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, w)


def test_a_diagonal_may_be_zero_and_rows_may_round(tmp_path):
    third = np.round((1 - np.eye(4)) / 3, 15)
    np.testing.assert_allclose(matrix(saved(tmp_path, third), 4), third, rtol=0, atol=1e-12)


BLOCKS = np.kron(np.eye(2), np.full((2, 2), 0.5))
WRONG = {
    "not square": (np.full((3, 4), 0.25), 3, "3 x 3.*3, 4"),
    "a vector": (np.full(3, 1 / 3), 3, "3 x 3"),
    "a cube": (np.full((2, 2, 2), 0.5), 2, "2 x 2"),
    "empty": (np.zeros((0, 0)), 3, "3 x 3"),
    "too small": (LAZY, 4, "4 x 4.*3, 3"),
    "too large": (LAZY, 2, "2 x 2.*3, 3"),
    "not symmetric": (
        np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]]),
        3,
        "symmetric",
    ),
    "sums below 1": (0.9 * LAZY, 3, "sum"),
    "sums above 1": (LAZY + 0.01 * np.eye(3), 3, "sum"),
    "negative": (np.array([[1.5, -0.5], [-0.5, 1.5]]), 2, "negative"),
    "disconnected": (BLOCKS, 4, "connected"),
    "nobody talks": (np.eye(3), 3, "connected"),
    "only swaps": (np.array([[0.0, 1.0], [1.0, 0.0]]), 2, "lambda < 1"),
    "only passes on": (np.kron([[0, 1], [1, 0]], np.full((2, 2), 0.5)), 4, "lambda < 1"),
    "nan": (np.where(np.eye(3) > 0, np.nan, LAZY), 3, "finite"),
    "infinite": (np.where(np.eye(3) > 0, np.inf, LAZY), 3, "finite"),
    "words": (np.array([["a", "b"], ["b", "a"]]), 2, "number"),
    "complex": (np.array([[0.5, 0.5], [0.5, 0.5]]) + 1j, 2, "numbers"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_matrix_is_refused_in_words(what, tmp_path):
    w, n, words = WRONG[what]
    text = saved(tmp_path, w)
    with pytest.raises(UserError, match=words) as caught:
        matrix(text, n)
    assert "matrix.npy" in str(caught.value)


@pytest.mark.parametrize(
    "what", ["not square", "too small", "not symmetric", "sums below 1", "negative", "disconnected"]
)
def test_a_wrong_table_is_refused_in_words(what, tmp_path):
    w, n, words = WRONG[what]
    with pytest.raises(UserError, match=words):
        matrix(saved(tmp_path, w, "csv"), n)


@pytest.mark.parametrize("text", ["0.5,0.5\n0.5", "a,b\nc,d", "", "0.5;0.5\n0.5;0.5"])
def test_a_table_that_is_none_is_refused(text, tmp_path):
    path = tmp_path / "matrix.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=r"matrix\.csv"):
        matrix(f"file:{path}", 2)


@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_a_missing_file_is_refused(suffix, tmp_path):
    with pytest.raises(UserError, match=f"absent.{suffix}"):
        matrix(f"file:{tmp_path / f'absent.{suffix}'}", 3)


@pytest.mark.parametrize("content", [b"", b"not an array", b"\x93NUMPY\x01\x00"])
def test_a_broken_file_is_refused(content, tmp_path):
    path = tmp_path / "matrix.npy"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"matrix\.npy"):
        matrix(f"file:{path}", 3)


class Trap:
    """Tells when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


def test_a_pickle_is_never_opened(tmp_path):
    path = tmp_path / "matrix.npy"
    np.save(path, np.array([[Trap()]], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match=r"matrix\.npy"):
        matrix(f"file:{path}", 1)


@pytest.mark.parametrize("n", [2, 5])
def test_what_a_topology_hands_out_is_its_callers(n):
    """Changing a matrix changes no later one."""
    for text in NAMED:
        parsed = topology.parse(text)
        first = parsed.matrix(n, 0)
        kept = first.copy()
        try:
            first[:] = 0
        except ValueError:
            continue
        np.testing.assert_array_equal(parsed.matrix(n, 0), kept)


def test_every_lattice_is_at_least_as_fast_as_a_thinner_one():
    norms = [[spectral(matrix(f"ring({degree})", n)) for degree in LATTICES] for n in (9, 10, 20)]
    for row in norms:
        assert all(thin >= wide - 1e-12 for thin, wide in pairwise(row))


@pytest.mark.parametrize(("text", "n"), product(FIXED, [6, 9]))
def test_fixed_topologies_do_not_depend_on_the_seed(text, n):
    np.testing.assert_array_equal(matrix(text, n, 0), matrix(text, n, 1))
