"""FedDC's synthetic sets and DeFed's regression, from their random numbers; the interface of all."""

import re

import numpy as np
import pytest

from tests.support.simulations import ROOT
from trials import datasets
from trials.common.randomness import generator
from trials.datasets import DATASETS
from trials.datasets.base import Dataset
from trials.scoring.metrics import REGRESSION


def load(name: str, seed: int = 0, clients: int | None = None) -> Dataset:
    return datasets.parse(name).load(seed, clients, None)


@pytest.mark.parametrize(("alpha", "beta"), [(0, 0), (1, 0), (0, 1), (0.5, 2)])
def test_feddc_synthetic_by_hand(alpha, beta):
    """Device 2 from its own numbers; W common where alpha = 0, v = 0 where beta = 0."""
    seed, k = 7, 2
    made = load(f"feddc_synthetic({alpha},{beta})", seed, 4)
    mine = made.client == k
    rng = generator("feddc_synthetic", seed, k)
    u, b_k = alpha * rng.standard_normal(), beta * rng.standard_normal()
    v = b_k + rng.standard_normal(30) if beta else np.zeros(30)
    w, b = u + rng.standard_normal((30, 5)), u + rng.standard_normal(5)
    x = v + rng.standard_normal((200, 30)) * np.sqrt([j**-1.2 for j in range(1, 31)])
    if not alpha:
        common = generator("feddc_synthetic_common", seed)
        w, b = common.standard_normal((30, 5)), common.standard_normal(5)
    np.testing.assert_allclose(made.x[mine], x, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(made.y[mine], (x @ w + b).argmax(1))
    assert made.test[mine].sum() == 20


def test_sine_by_hand():
    seed, noise = 3, 0.25
    made, rng = load(f"sine({noise})", seed), generator("sine", seed)
    x = np.concatenate([-6 + 12 * rng.random(6000), -12 + 24 * rng.random(1000)])
    y = 0.5 * np.sin(x) + 1 + noise * rng.standard_normal(7000)
    np.testing.assert_allclose(made.x[:, 0], x, atol=1e-5)
    np.testing.assert_allclose(made.y, y, atol=1e-6)
    np.testing.assert_array_equal(made.test, np.arange(7000) >= 6000)
    assert (made.y.dtype, made.classes, made.task) == (np.float32, 1, REGRESSION)


def test_the_page_on_data_has_every_set():
    page = (ROOT / "docs/data.md").read_text()
    missing = [name for name in DATASETS if not re.search(rf"`{name}[`(]", page)]
    missing += [name for name in datasets.PATHS if f"`{name}:PATH`" not in page]
    assert missing == []


def test_digits_are_split_by_seed_and_label(digits):
    assert digits.x.shape == (1797, 1, 8, 8)
    assert digits.x.dtype == np.float32
    assert (digits.x.min(), digits.x.max()) == (0, 1)
    assert digits.test.sum() == 360
    whole, held_out = np.bincount(digits.y), np.bincount(digits.y[digits.test])
    assert np.abs(held_out - 0.2 * whole).max() <= 1
    again, other = load("digits"), load("digits", 1)
    np.testing.assert_array_equal(again.test, digits.test)
    assert (other.test != digits.test).any()


def test_synthetic_by_hand():
    """Device 3 from its own numbers; alpha and beta are standard deviations."""
    alpha, beta, seed, k = 0.5, 2.0, 7, 3
    dataset = load(f"synthetic({alpha},{beta})", seed, 5)
    size = int(np.exp(4 + 2 * generator("synthetic_sizes", seed).standard_normal(5))[k]) + 50
    mine = dataset.client == k
    assert mine.sum() == size
    rng = generator("synthetic", seed, k)
    u, b_k = alpha * rng.standard_normal(), beta * rng.standard_normal()
    v = b_k + rng.standard_normal(60)
    w, b = u + rng.standard_normal((60, 10)), u + rng.standard_normal(10)
    sigma = np.array([j**-1.2 for j in range(1, 61)])
    x = v + rng.standard_normal((size, 60)) * np.sqrt(sigma)
    np.testing.assert_allclose(dataset.x[mine], x, rtol=1e-6, atol=1e-6)
    scores = np.array([[row @ w[:, c] + b[c] for c in range(10)] for row in x])
    np.testing.assert_array_equal(dataset.y[mine], scores.argmax(1))
    assert dataset.test[mine].sum() == size // 10
    assert dataset.classes == 10


def test_synthetic_iid_has_one_model_and_one_input_law():
    seed = 4
    rng = generator("synthetic_iid", seed)
    w, b = rng.standard_normal((60, 10)), rng.standard_normal(10)
    dataset, own = load("synthetic_iid", seed, 6), load("synthetic(0,0)", seed, 6)
    agree = [((data.x.astype(float) @ w + b).argmax(1) == data.y).mean() for data in (dataset, own)]
    assert agree[0] > 0.999
    assert agree[1] < 0.5
    np.testing.assert_allclose(dataset.x.std(0) ** 2, np.arange(1, 61) ** -1.2, rtol=0.3)
