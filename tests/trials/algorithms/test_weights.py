"""What each update weighs, and at which rate it is made, where gradients and models are given as tables."""

import numpy as np
import pytest
import torch

from tests.support.equations import fedagg_literal, theorem_1
from tests.support.oracle import D, Problem, agrees, gradient, initial, shares, spent
from tests.support.simulations import finish, partitioned, rounds, settings, simulation, state
from trials.algorithms import ALGORITHMS
from trials.engine.federation import Federation


def weights_of(name, table, **params):
    """Server weights after a round in which client k has gradient table[k] and update e_k.

    The first weights get nothing, so that the others show what each update weighs.
    """
    n, r = table.shape

    class Planned(Federation):
        def gradient(self, ids, w):
            g = torch.zeros(len(ids), self.d, dtype=self.dtype)
            g[:, :r] = torch.from_numpy(table)[ids]
            return g

        def train(self, ids, start, lr, direction, /, at_round=None, **rows):
            self._loss = torch.tensor(1.0)
            return start + torch.eye(self.d, dtype=self.dtype)[r + ids]

    data = partitioned([4] * n, shape=(r + n,), classes=2)
    common = settings(rounds=1, init="zeros")
    run = simulation(ALGORITHMS[name](**params), data, common, federation=Planned)
    return next(rounds(run))[r : r + n]


def test_the_sign_of_0_is_0():
    g = np.array([[1.0, 0.0], [-2.0, 0.0], [0.0, 0.0], [-3.0, 0.0]])
    np.testing.assert_allclose(weights_of("fednu_sign", g), [-1 / 4, 1 / 4, 0, 1 / 4])


@pytest.mark.parametrize(("name", "total"), [("folb", 0), ("folb_two_set", 0), ("lb_optimal", 1), ("lb_norm", 1)])  # fmt: skip
def test_without_a_gradient_nothing_moves_and_draws_go_on(name, total):
    weights = weights_of(name, np.zeros((4, 2)))
    assert np.abs(weights).sum() == pytest.approx(total)


# FedAgg


def rates_of(paths, g, **params):
    """The rates that clients get from epoch ends (n, L + 1, r) and gradients (n, L, r)."""
    n, epochs, r = g.shape
    rates = []

    class Planned(Federation):
        def trajectory(self, ids, start, lr, direction, /, **rows):
            rates.append(lr)
            self._loss = torch.tensor(1.0)
            path = torch.zeros(n, epochs + 1, self.d, dtype=self.dtype)
            path[..., :r] = torch.from_numpy(paths)
            return path

        def gradient(self, ids, w):
            rows = torch.zeros(n, self.d, dtype=self.dtype)
            rows[:, :r] = torch.from_numpy(g[:, 0])
            return rows

    given = {"local_epochs": epochs, "local_steps": None, "init": "zeros", "rounds": 1}
    data = partitioned([4] * n, shape=(r,), classes=2)
    finish(simulation(ALGORITHMS["fedagg"](**params), data, settings(**given), federation=Planned))
    return rates[-1].numpy()


def test_rates_on_paper():
    """L = 1, w = 0, phi1 = (2, 0), ends (-1, 0) and (-3, 4): phi2_1 = (-2, 2), v = +-(1, -2).

    raw: 0.1 + c (+-2) with c = 1/4, so 0.6 and -0.4 -> 0; cosine: 0.1 (1 +- 1 / (4 sqrt 5)).
    """
    paths = np.array([[[0.0, 0], [-1, 0]], [[0, 0], [-3, 4]]])
    g = np.array([[[1.0, 7]], [[3, -7]]])
    raw = rates_of(paths, g, alpha=0.8, scaling="raw", lr=0.1, eta_max=100.0)
    np.testing.assert_allclose(raw, [[0.6], [0]])
    cosine = rates_of(paths, g, alpha=0.8, scaling="cosine", lr=0.1)
    np.testing.assert_allclose(cosine.ravel(), [0.1 + 0.025 / 5**0.5, 0.1 - 0.025 / 5**0.5])


EPOCHS = {"local_epochs": 3, "local_steps": None, "participation": 0.6}


@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.9, 1.0])
def test_the_solution_minimises_what_theorem_1_minimises(alpha):
    rng = np.random.default_rng(0)
    w, phi1, phi2 = rng.normal(size=3), rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    eta = theorem_1(w, phi1, phi2, alpha)

    def objective(eta):
        path = w - np.cumsum(eta[:, None] * phi1, 0)
        return alpha * eta @ eta + (1 - alpha) * ((path - phi2[1:]) ** 2).sum()

    path = np.concatenate([w[None], w - np.cumsum(eta[:, None] * phi1, 0)])
    for l in range(len(eta)):
        expected = (1 - alpha) / alpha * phi1[l] @ (path - phi2)[l + 1 :].sum(0)
        assert eta[l] == pytest.approx(expected, abs=1e-8)
    for step in 1e-3 * np.concatenate([np.eye(len(eta)), -np.eye(len(eta))]):
        assert objective(eta + step) > objective(eta)


@pytest.mark.parametrize("tolerance", [0.3, 0.05, 0.01])
def test_the_tolerance_stops_the_sweeps_of_the_printed_procedure(tolerance):
    """Of gradients and models the later to settle decides; 1 + 2 L (sweeps + 1) models go up a client and round."""
    problem, met = Problem(EPOCHS), []
    rule = {"tolerance": tolerance, "max_sweeps": 200}
    run = problem.run("fedagg_literal", rule)
    agrees(run, fedagg_literal(problem, met=met, **rule), least=0)
    models = np.array(spent(run, "uploaded_bytes")) / (8 * 3 * D)
    assert ((models - 1) / 6 - 1).tolist() == [sweeps for _, sweeps in met]
    assert all(sweeps < 200 for _, sweeps in met)


def test_the_rate_of_one_epoch_shrinks_with_each_sweep():
    """L = 1: w - phi2_1 = eta phi1, so that each sweep multiplies eta by c|phi1|^2 / (1 + c|phi1|^2)
    and phi1 = mean g stays; it starts with phi2_1 = w - lr phi1.
    """
    problem, w, c = Problem({"local_epochs": 1, "local_steps": None}), initial(), 9.0
    gradients = np.array([gradient(w, *part) for part in problem.parts])
    size = c * (gradients.mean(0) @ gradients.mean(0))
    for sweeps in (1, 2, 7):
        rule = {"alpha": 0.1, "tolerance": 1e-300, "max_sweeps": sweeps}
        eta = 0.5 * (size / (1 + size)) ** (sweeps + 1)
        expected = w - eta * shares(problem.parts, range(5)) @ gradients
        after = next(rounds(problem.run("fedagg_literal", rule)))
        np.testing.assert_allclose(after, expected, rtol=0, atol=1e-12)


# Extended SAFL


def test_who_hears_nothing_leaves_the_server_as_it_is():
    """So small a nu that clients upload only where the server's model scores as theirs do."""

    class Apart(Federation):
        def score(self, ids, w):
            super().score(ids, w)
            self.asked = not getattr(self, "asked", False)
            return torch.full((len(ids),), 0.5 if self.asked else 0.9, dtype=self.dtype)

    ends = []
    for count in (1, 3):
        problem = Problem({"init": "own", "rounds": count, "local_steps": 1})
        rule = {"epsilon": 0.3, "L": 5.0, "nu": 1e-9}
        run = finish(problem.run("safl_extended", rule, federation=Apart))
        assert spent(run, "clients_uploaded") == [5, 0, 0][:count]
        ends.append(state(run))
    np.testing.assert_array_equal(ends[0]["w"], ends[1]["w"])
    assert np.abs(ends[0]["z"] - ends[1]["z"]).max(1).min() > 1e-4
