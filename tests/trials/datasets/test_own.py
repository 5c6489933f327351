"""A person's own data: arrays in a file, Python functions, torch Datasets; and names of data that are none."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from torch.utils.data import TensorDataset

import suite
from tests.support.simulations import holdings
from trials import datasets, heterogeneity
from trials.common import plugins
from trials.common.errors import UserError
from trials.datasets.base import Dataset
from trials.datasets.own import dataset_of
from trials.datasets.tables import Options
from trials.federated_data import partition
from trials.settings import Settings


def load(text: str) -> Dataset:
    return datasets.parse(text).load(0, None, None)


def arrays(**given: object) -> dict[str, object]:
    rng = np.random.default_rng(0)
    usual = {
        "x_train": rng.normal(size=(30, 2, 3)),
        "y_train": np.arange(30) % 3,
        "x_test": rng.normal(size=(6, 2, 3)),
        "y_test": np.arange(6) % 3,
        "client_train": np.repeat([40, 10, 20], 10),
    }
    return {name: value for name, value in {**usual, **given}.items() if value is not None}


# Arrays


def saved(folder: Path, **given: object) -> str:
    np.savez(folder / "mine.npz", **arrays(**given))
    return f"npz:{folder}/mine.npz"


def test_npz(tmp_path: Path) -> None:
    given = arrays()
    dataset = load(saved(tmp_path))
    assert (dataset.shape, dataset.classes, dataset.x.dtype) == ((2, 3), 3, np.float32)
    np.testing.assert_allclose(dataset.x[~dataset.test], given["x_train"], rtol=1e-6)
    np.testing.assert_array_equal(dataset.y[dataset.test], given["y_test"])
    data = partition(dataset, heterogeneity.parse("natural"), Settings(val_fraction=0))
    first, second, third = (sorted(ids) for ids in holdings(data))
    assert first + second + third == [*range(10, 30), *range(10)]


def test_a_regression_of_arrays_says_so_in_its_name(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    real = {"x_train": x[:50], "x_test": x[50:], "client_train": None}
    name = saved(tmp_path, **real, y_train=x[:50, 0] * 2, y_test=x[50:, 0] * 2)
    with pytest.raises(UserError, match="for a regression add task=regression"):
        load(name)
    settings = {"clients": 2, "rounds": 15, "lr": 0.2}
    done = suite.run(dataset=f"{name}?task=regression", model="linear", **settings)
    assert done.history[-1]["test_mse"] < 0.05


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"x_test": None}, "must hold x_train"),
        ({"y_train": np.arange(29)}, "y_train has 29 rows"),
        ({"y_train": np.arange(30) % 3 + 18, "y_test": np.full(6, 18)}, "task=regression"),
        ({"y_train": np.arange(30) % 11}, "11 labels"),
        ({"y_train": np.array(["a"] * 30)}, "y_train must be numbers"),
        ({"x_train": np.zeros(30), "x_test": np.zeros(6)}, "x must be finite"),
        ({"client_train": np.r_[np.nan, np.arange(29)]}, "client_train must be whole numbers"),
    ],
)
def test_arrays_that_do_not_fit(given: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        dataset_of(arrays(**given), Options(), 0)


# Functions

SETS = """
import numpy as np
import pandas as pd
import torch
from torch.utils.data import TensorDataset
from dataclasses import dataclass
from trials.scoring.metrics import REGRESSION
from trials.datasets.base import Dataset, DatasetFamily

def arrays():
    x = np.arange(24.0).reshape(12, 2)
    return {"x_train": x[:8], "y_train": [0, 1] * 4, "x_test": x[8:], "y_test": np.ones((4, 1))}

def whole(**changed):
    given = {"x": np.ones((4, 2), np.float32), "y": np.array([0, 1, 0, 1]), "classes": 2,
             "test": np.array([0, 0, 0, 1], bool), "client": np.array([0, 0, 1, 1])}
    return Dataset(**{**given, **changed})

def double(): return whole(x=np.ones((4, 2)))
def high(): return whole(y=np.array([0, 1, 2, 1]))
def real(): return whole(y=np.ones(4, np.float32), classes=1, task=REGRESSION)
def fails(): raise KeyError("gone")
def pair():
    x, y = torch.arange(24.0).reshape(12, 2), torch.tensor([0, 1] * 4 + [1] * 4)
    return TensorDataset(x[:8], y[:8]), TensorDataset(x[8:], y[8:])
def table(): return pd.DataFrame({"a": [0.5, 1.5, 1.0, 0.1] * 5, "y": ["p", "q"] * 10})

@dataclass(frozen=True)
class Class(DatasetFamily):
    n: int = 4
    def load(self, seed, clients, root): return whole(classes=self.n)
"""


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "my_sets.py"
    path.write_text(SETS)
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    sys.modules.pop("my_sets", None)


def test_functions(sets: Path) -> None:
    for name in ("my_sets:arrays", f"{sets}:arrays", f"{sets}:pair"):
        made = load(name)
        assert made.x.tolist() == np.arange(24.0).reshape(12, 2).tolist()
        assert (made.x.dtype, made.y.dtype) == (np.float32, np.int64)
        assert made.y.tolist() == [0, 1] * 4 + [1] * 4
        assert made.test.tolist() == [False] * 8 + [True] * 4
    assert load("my_sets:whole").client.tolist() == [0, 0, 1, 1]
    assert load(f"{sets}:Class(7)").classes == 7
    regression = datasets.parse("my_sets:real?task=regression")
    assert regression.load(0, None, None).task == regression.task


def test_a_function_that_returns_a_table_has_columns_in_its_name(sets: Path) -> None:
    name = f"{sets}:table?target=y&test=0.5"
    assert (datasets.canonical(name), [*plugins.hashes(name)]) == (name, [name])
    assert load(name).test.sum() == 10


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("double", "x must be finite float32"),
        ("high", "0 <= y < classes"),
        ("real", r"\?task=regression"),
        ("arrays?target=y", "only a table has columns"),
        ("table", "a table needs the column to predict"),
        ("fails", "raised KeyError: 'gone'"),
    ],
)
def test_functions_that_do_not_fit(sets: Path, function: str, says: str) -> None:
    with pytest.raises(UserError, match=f"my_sets:{function.split('(')[0].split('?')[0]}.*{says}"):
        load(f"my_sets:{function}")


# Torch Datasets

X, Y = torch.randn(20, 4), torch.arange(20) % 2


@pytest.mark.parametrize(
    "x",
    [X.bfloat16(), X.half(), X.to(torch.float8_e5m2), X.clone().requires_grad_(), X > 0],
    ids=["bfloat16", "half", "float8", "parameter", "bool"],
)
def test_samples_and_arrays_may_be_tensors_of_any_kind(x: torch.Tensor) -> None:
    pair = TensorDataset(x[:15], Y[:15]), TensorDataset(x[15:], Y[15:])
    by_name = {"x_train": x[:15], "y_train": Y[:15], "x_test": x[15:], "y_test": Y[15:]}
    for content in (pair, by_name):
        made = dataset_of(content, Options(), 0)
        np.testing.assert_array_equal(made.x, x.detach().float().numpy())


# What a program gives


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    return pd.DataFrame(x, columns=list("abc")).assign(
        y=np.where(x[:, 0] > 0, "up", "down"), who=np.arange(200) % 4
    )


@pytest.mark.parametrize("table", [pd.DataFrame, pyarrow.Table.from_pandas])
def test_a_program_gives_its_tables(table) -> None:
    place = {"target": "y", "client": "who", "heterogeneity": "natural"}
    done = suite.run(data=table(frame()), **place, rounds=10, lr=0.5)
    assert done.simulation.fed.n == 4
    assert done.history[-1]["test_accuracy"] > 0.9
    two = suite.run(data=(table(frame()[:150]), table(frame()[150:])), target="y", rounds=1)
    assert len(two.simulation.fed.data.test) == 50
    assert two.spec.dataset != done.spec.dataset


# Names


def test_names_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text, name in (
        ("npz:a/../b.npz", f"npz:{tmp_path}/b.npz"),
        ("npz:b.npz?task=regression", f"npz:{tmp_path}/b.npz?task=regression"),
        ("sets.py:Pets( 3 )?task=regression", f"{tmp_path}/sets.py:Pets(3)?task=regression"),
        ("my.sets:pets", "my.sets:pets"),
    ):
        assert datasets.canonical(text) == name
        assert datasets.canonical(name) == name
