"""Data sets that are made, and those that are read from files."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.support.simulations import holdings, well_split
from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.common.randomness import generator
from trials.datasets.base import Dataset
from trials.datasets.generated import Synthetic, SyntheticIID
from trials.federated_data import partition
from trials.run.scenario import Scenario
from trials.run.spec import canonical
from trials.run.trial import load_dataset, partition_data
from trials.settings import Settings

REAL = Path(os.environ.get("SUITE_DATA", "/nowhere"))


# Data sets


def test_digits_are_split_by_seed_and_label(digits):
    assert digits.x.shape == (1797, 1, 8, 8)
    assert digits.x.dtype == np.float32
    assert (digits.x.min(), digits.x.max()) == (0, 1)
    assert digits.test.sum() == 360
    whole, held_out = np.bincount(digits.y), np.bincount(digits.y[digits.test])
    assert np.abs(held_out - 0.2 * whole).max() <= 1
    again, other = (datasets.parse("digits").load(seed, None, None) for seed in (0, 1))
    np.testing.assert_array_equal(again.test, digits.test)
    assert (other.test != digits.test).any()


def test_synthetic_by_hand():
    """Device 3 from its own numbers; alpha and beta are standard deviations."""
    alpha, beta, seed, k = 0.5, 2.0, 7, 3
    dataset = Synthetic(alpha, beta).load(seed, 5, None)
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


def test_synthetic_is_fixed_by_its_seed():
    a, b, other = (Synthetic(1, 1).load(seed, 4, None) for seed in (0, 0, 1))
    for name in ("x", "y", "test", "client"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert len(a.y) != len(other.y) or (a.x != other.x).any()


def test_alpha_changes_no_sample_and_no_label_of_synthetic():
    """The same number is added to every class's score, which moves no maximum."""
    a, b = (Synthetic(alpha, 0.5).load(0, None, None) for alpha in (0, 1))
    np.testing.assert_array_equal(a.x, b.x)
    np.testing.assert_array_equal(a.y, b.y)


def test_synthetic_has_30_devices_of_at_least_50():
    dataset = Synthetic(0, 0).load(0, None, None)
    sizes = np.bincount(dataset.client)
    assert len(sizes) == 30
    assert sizes.min() >= 50
    assert np.median(sizes) == pytest.approx(50 + np.exp(4), abs=60)


def test_synthetic_keeps_its_devices_under_natural():
    place = Scenario("synthetic(1,1)", "logreg", "natural")
    spec = canonical("fedavg", {}, place, Settings(clients=4, data_seed=2), 0)
    dataset = load_dataset(spec, None)
    data = partition_data(spec, dataset)
    well_split(data)
    np.testing.assert_array_equal(dataset.x, Synthetic(1, 1).load(2, 4, None).x)
    for k, ids in enumerate(holdings(data)):
        assert (dataset.client[ids] == k).all()
        free = (dataset.client == k) & ~dataset.test
        assert len(ids) == free.sum() - int(free.sum() * 0.1)


def test_synthetic_iid_has_one_model_and_one_input_law():
    seed = 4
    dataset = SyntheticIID().load(seed, 6, None)
    rng = generator("synthetic_iid", seed)
    w, b = rng.standard_normal((60, 10)), rng.standard_normal(10)
    agree = (dataset.x.astype(float) @ w + b).argmax(1) == dataset.y
    assert agree.mean() > 0.999
    assert set(dataset.client.tolist()) == set(range(6))
    deviation = dataset.x.std(0)
    np.testing.assert_allclose(deviation**2, np.arange(1, 61) ** -1.2, rtol=0.3)
    assert np.abs(dataset.x.mean(0)).max() < 6 * len(dataset.y) ** -0.5
    own = Synthetic(0, 0).load(seed, 6, None)
    assert ((own.x.astype(float) @ w + b).argmax(1) == own.y).mean() < 0.5


@pytest.mark.parametrize("name", ["synthetic(-1,1)", "synthetic(1,-1)", "synthetic(nan,1)"])
def test_synthetic_refuses_bad_deviations(name):
    with pytest.raises(UserError, match="alpha >= 0 and beta >= 0 must hold"):
        datasets.parse(name)


# Files


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.normal(size=(30, 2, 3)),
        "y_train": np.arange(30) % 3,
        "x_test": rng.normal(size=(6, 2, 3)),
        "y_test": np.arange(6) % 3,
        "client_train": np.repeat([40, 10, 20], 10),
    }


def load(folder: Path, **given: np.ndarray | None) -> Dataset:
    """The data set of a file with these arrays instead of the usual ones."""
    kept = {name: value for name, value in {**arrays(), **given}.items() if value is not None}
    np.savez(folder / "mine.npz", **kept)
    return datasets.parse(f"npz:{folder}/mine.npz").load(0, None, None)


def test_npz(tmp_path):
    dataset = load(tmp_path)
    assert (dataset.shape, dataset.classes) == ((2, 3), 3)
    assert dataset.x.dtype == np.float32
    given = arrays()
    np.testing.assert_allclose(dataset.x[~dataset.test], given["x_train"], rtol=1e-6)
    np.testing.assert_array_equal(dataset.y[dataset.test], given["y_test"])
    data = partition(dataset, heterogeneity.parse("natural"), Settings(val_fraction=0))
    well_split(data)
    assert [sorted(ids) for ids in holdings(data)] == [
        list(range(10, 20)),
        list(range(20, 30)),
        list(range(10)),
    ]
    columns = load(tmp_path, y_train=given["y_train"][:, None], y_test=given["y_test"][:, None])
    np.testing.assert_array_equal(columns.y, dataset.y)


def test_npz_without_owners(tmp_path):
    dataset = load(tmp_path, client_train=None)
    assert partition(dataset, heterogeneity.parse("iid"), Settings(clients=4)).clients == 4
    with pytest.raises(UserError, match="does not say which client"):
        partition(dataset, heterogeneity.parse("natural"), Settings())


def needs(archive: str) -> None:
    raw = REAL / archive / "raw"
    stem = "train-images-idx3-ubyte"
    if not ((raw / stem).exists() or (raw / f"{stem}.gz").exists()):
        pytest.skip(f"set SUITE_DATA to a folder that holds {archive}/raw with the {archive} files")


@pytest.mark.parametrize(
    ("name", "archive"), [("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")]
)
def test_mnist_files(name, archive):
    needs(archive)
    before = sorted((REAL / archive / "raw").iterdir())
    dataset = datasets.parse(name).load(0, None, None)
    assert sorted((REAL / archive / "raw").iterdir()) == before
    assert dataset.x.shape == (70000, 1, 28, 28)
    assert dataset.x.dtype == np.float32
    assert (dataset.test.sum(), (~dataset.test).sum()) == (10000, 60000)
    assert not dataset.test[:60000].any()
    assert np.bincount(dataset.y).shape == (10,)
    train = dataset.x[~dataset.test]
    assert train.mean(dtype=float) == pytest.approx(0, abs=1e-3)
    assert train.std(dtype=float) == pytest.approx(1, abs=1e-3)
