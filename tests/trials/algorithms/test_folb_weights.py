"""FOLB and the sampling rules on gradients given as tables: what each update weighs."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.support.folb import SAMPLING
from tests.support.simulations import partitioned, rounds, settings, simulation
from trials.algorithms import ALGORITHMS
from trials.engine.federation import Federation


def planned(name, table, sets=None, sizes=None, **params):
    """Server weights after a round in which client k has gradient table[k] and update e_k.

    The first weights get nothing, so that the others show what each update weighs. Also returns
    the numbers `draw` was given.
    """
    n, r = table.shape
    asked = []

    class Planned(Federation):
        def gradient(self, ids, w):
            g = torch.zeros(len(ids), self.d, dtype=self.dtype)
            g[:, :r] = torch.from_numpy(table)[ids]
            return g

        def train(self, ids, start, lr, direction, /, at_round=None, **rows):
            self._loss = torch.tensor(1.0)
            return start + torch.eye(self.d, dtype=self.dtype)[r + ids]

        def select(self, stream="select"):
            return super().select(stream) if sets is None else torch.tensor(sets[stream])

        def draw(self, p, *stream):
            asked.append(np.asarray(p, float))
            return super().draw(p, *stream)

    data = partitioned(sizes or [4] * n, shape=(r + n,), classes=2)
    run = simulation(
        ALGORITHMS[name](**params),
        data,
        settings(rounds=1, init="zeros", eval_every=1),
        federation=Planned,
    )
    after = next(rounds(run))
    assert (after[:r] == 0).all()
    assert (after[r + n :] == 0).all()
    return after[r : r + n], asked


TABLES = st.tuples(st.integers(2, 5), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-50, 50))
)


@given(TABLES, st.data())
def test_two_set_weights_sum_to_the_ratio_of_squared_norms(g, more):
    n, g = len(g), g.astype(float)
    draws = st.lists(st.integers(0, n - 1), min_size=n, max_size=n).map(sorted)
    one, other = more.draw(draws), more.draw(draws)
    G1, G2 = g[one].mean(0), g[other].mean(0)
    assume(G2 @ G2 > 1e-6)
    found, _ = planned("folb_two_set", g, {"select": one, "second": other})
    assert found.sum() == pytest.approx(G1 @ G1 / (G2 @ G2), abs=1e-9)
    expected = np.zeros(n)
    np.add.at(expected, one, g[one] @ G1 / (n * G2 @ G2))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_two_sets_without_a_gradient_in_the_second_move_nothing():
    g = np.array([[3.0, 1.0], [2.0, -1.0], [0.0, 0.0]])
    found, _ = planned("folb_two_set", g, {"select": [0, 1], "second": [2, 2]})
    assert (found == 0).all()
    found, _ = planned("folb_two_set", 0 * g)
    assert (found == 0).all()


@given(TABLES, st.data())
def test_signs(g, more):
    n, g = len(g), g.astype(float)
    sizes = more.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    ids = more.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n).map(sorted))
    product = g @ (np.array(sizes) @ g)
    found, _ = planned("fednu_sign", g, {"select": ids}, sizes)
    clear = np.abs(product) > 1e-9
    expected = np.zeros(n)
    np.add.at(expected, ids, np.sign(product[ids]) / n)
    np.testing.assert_allclose(found[clear], expected[clear], atol=1e-12)


def test_the_sign_of_0_is_0():
    found, _ = planned("fednu_sign", np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 0.0], [-3.0, 0.0]]))
    np.testing.assert_allclose(found, [-1 / 4, 1 / 4, 0, 1 / 4])


@given(TABLES, st.data(), st.sampled_from(SAMPLING))
def test_sampling_probabilities(g, more, rule):
    n, g = len(g), g.astype(float)
    sizes = more.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    f = np.array(sizes) / np.sum(sizes) @ g
    merit = np.abs(g @ f) if rule == "lb_optimal" else np.linalg.norm(g, axis=1)
    assume(merit.sum() > 1e-6)
    found, asked = planned(rule, g, sizes=sizes)
    (P,) = asked
    P = P / P.sum()
    np.testing.assert_allclose(P, merit / merit.sum(), atol=1e-9)
    assert (P >= 0).all()
    apart = merit[:, None] > merit + 1e-6
    assert (P[:, None] > P)[apart].all()
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    np.testing.assert_allclose(found * n, np.round(found * n), atol=1e-9)
    assert (found[merit < 1e-12] == 0).all()


@pytest.mark.parametrize("rule", SAMPLING)
def test_sampling_without_any_gradient_gives_numbers(rule):
    found, _ = planned(rule, np.zeros((3, 2)))
    assert np.isfinite(found).all()
