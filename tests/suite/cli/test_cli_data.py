"""`suite data`: what it says of who holds what, its pictures, and the state of data files."""

import gzip
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

import suite
from tests.support.commands import document, fault, suite_here
from trials.datasets import DATASETS


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """Three devices: labels 0 0 0 2, labels 1 1, label 2; five test samples."""
    y = np.array([0, 0, 0, 2, 1, 1, 2])
    x = np.arange(7.0)[:, None]
    owner = np.array([0, 0, 0, 0, 1, 1, 2])
    test = {"x_test": np.zeros((5, 1)), "y_test": np.array([0, 1, 2, 0, 1])}
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=y, client_train=owner, **test)
    return "npz:mine.npz"


def described(folder: Path, *args: object) -> dict:
    return document(suite_here("data", "describe", *args, "--json", cwd=folder))


def test_a_description_by_hand(mine: str, tmp_path: Path) -> None:
    """All have 0 and 1 and 2 in shares 3/7, 2/7, 2/7. A client's distance to them is the area
    between the cumulated shares: |3/4 - 3/7| + |3/4 - 5/7|, |0 - 3/7| + |1 - 5/7|, 3/7 + 5/7.
    """
    found = described(tmp_path, mine, "natural")
    assert found["clients"] == 3
    assert found["totals"] == {"train": 7, "val": 0, "test": 5, "unused": 0, "shared": 0}
    assert found["label_counts"] == [[3, 0, 1], [0, 2, 0], [0, 0, 1]]
    assert found["label_names"] == ["0", "1", "2"]
    assert found["per_client"]["samples"] == [4, 2, 1]
    assert found["per_client"]["labels"] == [2, 1, 1]
    distances = [9 / 28 + 1 / 28, 3 / 7 + 2 / 7, 8 / 7]
    assert found["per_client"]["wasserstein"] == pytest.approx(distances, abs=1e-12)
    assert found["samples"] == {"min": 1, "median": 2, "mean": 7 / 3, "max": 4}
    assert found["labels"]["mean"] == pytest.approx(4 / 3)
    assert found["wasserstein"]["max"] == pytest.approx(8 / 7)


# Files

OTHER = b"\0\0\x08\x01\0\0\0\1x"
FILES = [
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
]


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A data root whose MNIST is one file of another content."""
    raw = tmp_path / "root" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / f"{FILES[0]}.gz").write_bytes(gzip.compress(OTHER))
    return tmp_path


def test_all_data_sets_and_what_is_here(damaged: Path) -> None:
    """Nothing is fetched: this works without a network, and writes nothing."""
    before = sorted(damaged.rglob("*"))
    args = ["data", "prepare", "--data-root", "root"]
    items = document(suite_here(*args, "--json", cwd=damaged))
    names = {item["dataset"] for item in items}
    assert names == {name for name, cls in DATASETS.items() if cls.published}
    mnist = {item["name"]: item for item in items if item["dataset"] == "mnist"}
    assert len(mnist) == 4
    assert mnist[FILES[0]]["found"] == f"md5 {hashlib.md5(OTHER).hexdigest()}"
    assert not mnist[FILES[0]]["sound"]
    assert mnist[FILES[-1]]["found"] is None
    shown = suite_here(*args, cwd=damaged).stdout
    states = dict(re.findall(r"│ (\w+)\s*│ (ready|missing|wrong)", shown))
    assert (states["mnist"], states["cifar10"]) == ("wrong", "missing")
    assert set(states) == names
    assert sorted(damaged.rglob("*")) == before


def test_an_exported_split_is_that_of_a_run(tmp_path: Path) -> None:
    asked = ("--clients", "5", "--partition-seed", "3", "--data-seed", "2", "--val-fraction", "0.2")
    asked = ("data", "describe", "digits", "dirichlet(0.5)", *asked, "--output", "digits.npz")
    suite_here(*asked, cwd=tmp_path)
    assert "exists" in fault(suite_here(*asked, cwd=tmp_path, code=2)), "it is kept"
    ran = suite.run(
        heterogeneity="dirichlet(0.5)",
        rounds=1,
        clients=5,
        partition_seed=3,
        data_seed=2,
        val_fraction=0.2,
    ).simulation.fed.data
    with np.load(tmp_path / "digits.npz") as split:
        assert str(split["fingerprint"]) == ran.fingerprint
        for k in range(5):
            held = ran.train[ran.offsets[k] : ran.offsets[k + 1]]
            np.testing.assert_array_equal(split[f"client_{k}"], held)
        np.testing.assert_array_equal(split["val"], ran.val)
        np.testing.assert_array_equal(split["test"], ran.test)
        np.testing.assert_array_equal(split["y"], ran.dataset.y)
        assert len(split.files) == 5 + 4
