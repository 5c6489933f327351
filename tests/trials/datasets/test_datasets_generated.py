"""FedDC's synthetic sets and DeFed's regression, from their random numbers; the interface of all."""

import re

import numpy as np
import pytest

from tests.support.simulations import ROOT
from trials import datasets
from trials.common.errors import UserError
from trials.common.randomness import generator
from trials.datasets import DATASETS
from trials.datasets.base import Dataset
from trials.scoring.metrics import CLASSIFICATION, REGRESSION, Task


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


def test_feddc_synthetic_has_20_devices_of_200():
    made = load("feddc_synthetic(1,0)")
    assert np.bincount(made.client).tolist() == [200] * 20
    assert (made.classes, made.shape) == (5, (30,))
    other = load("feddc_synthetic(1,0)", seed=1)
    assert (other.x != made.x).any()
    np.testing.assert_array_equal(load("feddc_synthetic(1,0)").x, made.x)


def test_feddc_synthetic_refuses_bad_deviations():
    with pytest.raises(UserError, match="feddc_synthetic: alpha >= 0 and beta >= 0 must hold"):
        datasets.parse("feddc_synthetic(-1,0)")


def test_sine_by_hand():
    seed, noise = 3, 0.25
    made = load(f"sine({noise})", seed)
    rng = generator("sine", seed)
    x = np.concatenate([-6 + 12 * rng.random(6000), -12 + 24 * rng.random(1000)])
    y = 0.5 * np.sin(x) + 1 + noise * rng.standard_normal(7000)
    np.testing.assert_allclose(made.x[:, 0], x, atol=1e-5)
    np.testing.assert_allclose(made.y, y, atol=1e-6)
    np.testing.assert_array_equal(made.test, np.arange(7000) >= 6000)
    assert (made.x.dtype, made.y.dtype, made.classes) == (np.float32, np.float32, 1)
    assert made.task == REGRESSION == Task("mse", "minimize", 1e30)
    assert made.client is None


def test_sine_is_half_a_sine_plus_one():
    made = load("sine(0)")
    np.testing.assert_allclose(made.y, 0.5 * np.sin(made.x[:, 0]) + 1, atol=1e-6)
    slope, level = np.polyfit(made.x[~made.test, 0], made.y[~made.test], 1)
    left = made.y[~made.test] - level - slope * made.x[~made.test, 0]
    assert np.mean(left**2) == pytest.approx(0.11, abs=0.01)


@pytest.mark.parametrize("noise", ["-0.1", "nan", "inf"])
def test_sine_refuses_bad_noise(noise):
    with pytest.raises(UserError, match="noise >= 0 must hold"):
        datasets.parse(f"sine({noise})")


@pytest.mark.parametrize("name", DATASETS)
def test_every_family_says_what_it_is(name):
    cls = DATASETS[name]
    assert cls.summary
    assert cls.__doc__
    assert cls.task == (REGRESSION if name == "sine" else CLASSIFICATION)


def test_the_task_comes_last_and_is_a_classification_unless_said():
    x, y = np.zeros((2, 1), np.float32), np.array([0, 1])
    assert Dataset(x, y, y > 0, 2).task is Dataset.task is CLASSIFICATION
    assert Dataset(x, y, y > 0, 1, None, REGRESSION).task is REGRESSION


@pytest.mark.parametrize("name", ["digits", "synthetic(1,1)", "feddc_synthetic(0,0)", "sine"])
def test_generated_sets_need_no_files(name, tmp_path):
    assert datasets.prepare(name, str(tmp_path)) == []


def test_the_page_on_data_has_every_set_and_checksum():
    page = (ROOT / "docs/data.md").read_text()
    missing = [name for name in DATASETS if not re.search(rf"`{name}[`(]", page)]
    missing += [name for name in datasets.PATHS if f"`{name}:PATH`" not in page]
    for cls in DATASETS.values():
        for file in (file for layout in getattr(cls, "layouts", ()) for file in layout):
            kind, _, md5 = file.expected.partition(" ")
            missing += [file.path] if kind == "md5" and md5 not in page else []
    assert missing == []
