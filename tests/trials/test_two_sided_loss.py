"""SAFL's two-sided cross-entropy (27) against plain NumPy and exact decimals."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch

from tests.support.equations import fedavg
from tests.support.oracle import CLASSES, FEATURES, GENERAL, Problem, agrees
from tests.support.simulations import finish, state
from trials.scoring.losses import LOSSES


def two_sided(z, y):
    """SAFL (27): -sum_c y_c ln p_c + (1 - y_c) ln (1 - p_c), p = softmax(z)."""
    p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    truth = np.eye(z.shape[-1])[y]
    return -(truth * np.log(p) + (1 - truth) * np.log(1 - p)).sum(-1)


def two_sided_slope(z, y):
    """dL/dz_j = p_j - [j = y] + sum_{c != y} p_c ([j = c] - p_j) / (1 - p_c)."""
    p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    truth = np.eye(z.shape[-1])[y]
    odds = (1 - truth) * p / (1 - p)
    return p - truth + odds - odds.sum(-1, keepdims=True) * p


def two_sided_gradient(w, x, y, widths):
    z = x @ w[: CLASSES * FEATURES].reshape(CLASSES, FEATURES).T + w[CLASSES * FEATURES :]
    dz = two_sided_slope(z, y) / len(y)
    return np.concatenate([(dz.T @ x).ravel(), dz.sum(0)])


def torch_two_sided(z, y, dtype=torch.float64):
    """Losses and their slopes."""
    leaf = torch.tensor(z, dtype=dtype, requires_grad=True)
    losses = LOSSES["two_sided"](leaf, torch.as_tensor(y))
    losses.sum().backward()
    return losses.detach().numpy(), leaf.grad.numpy()


def exact(z, y):
    """Loss and slope in 500 digits."""
    with localcontext() as context:
        context.prec = 500
        e = [Decimal(v).exp() for v in z]
        p = [v / sum(e) for v in e]
        others = [c for c in range(len(z)) if c != y]
        loss = -p[y].ln() - sum((1 - p[c]).ln() for c in others)
        slope = [
            p[j] - (j == y) + sum(p[c] * ((j == c) - p[j]) / (1 - p[c]) for c in others)
            for j in range(len(z))
        ]
        return float(loss), [float(v) for v in slope]


@pytest.mark.parametrize(("dtype", "relative"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize(
    "z",
    [
        [200, -200, -200],
        [-200, 200, 200],
        [200, 199, -200],
        [-200, -200, -200],
        [200, -200],
        [0, 30, 60],
        [200, 0, -200, 100],
    ],
)
def test_two_sided_does_not_overflow(z, dtype, relative):
    for y in range(len(z)):
        losses, slopes = torch_two_sided([[float(v) for v in z]], [y], dtype)
        loss, slope = exact(z, y)
        assert np.isfinite(losses).all()
        np.testing.assert_allclose(losses[0], loss, rtol=relative, atol=relative)
        np.testing.assert_allclose(slopes[0], slope, rtol=relative, atol=relative)


@pytest.mark.parametrize("execution", GENERAL)
def test_fedavg_under_the_two_sided_loss(execution):
    problem = Problem({"loss": "two_sided"}, gradient=two_sided_gradient)
    run = agrees(problem.run("fedavg", {}, execution), fedavg(problem))
    x, y = run.fed.x[run.fed.data.test].numpy(), run.fed.y[run.fed.data.test].numpy()
    w = state(run)["w"]
    loss = two_sided(x @ w[:6].reshape(3, 2).T + w[6:], y).mean()
    assert run.history[-1]["test_loss"] == pytest.approx(loss, abs=1e-10)
    ordinary = finish(Problem().run("fedavg", {}, execution))
    assert np.abs(w - state(ordinary)["w"]).max() > 1e-2
