"""A user's own data: folders of images and Python functions (npz: tests/trials/datasets/test_datasets.py)."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.support.simulations import ROOT
from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.datasets.base import Dataset
from trials.federated_data import partition
from trials.settings import Settings


def picture(path: Path, pixels: np.ndarray) -> np.ndarray:
    """Save (h, w) or (h, w, 3) bytes; what was saved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)
    return pixels


def album(root: Path, per_label: int, labels=("cat", "dog", "eel"), channels=3) -> np.ndarray:
    """Images 4x6 of each label; their bytes in the order of label and name."""
    rng = np.random.default_rng(per_label)
    shape = (4, 6, 3) if channels == 3 else (4, 6)
    images = [
        picture(root / label / f"{i:03}.png", rng.integers(0, 256, shape))
        for label in labels
        for i in range(per_label)
    ]
    return np.array(images)


def load(path: Path | str, seed: int = 0, scheme: str = "folder:") -> Dataset:
    return datasets.parse(f"{scheme}{path}").load(seed, None, None)


def planes(images: np.ndarray) -> np.ndarray:
    return np.moveaxis(images, -1, 1) / 255 if images.ndim == 4 else images[:, None] / 255


# Folders


@pytest.mark.parametrize("channels", [1, 3])
def test_folder_with_parts(tmp_path, channels):
    train = planes(album(tmp_path / "train", 5, channels=channels))
    test = planes(album(tmp_path / "test", 2, labels=("eel", "cat"), channels=channels))
    made = load(tmp_path)
    mean, deviation = (f(train, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.std))
    by_name = test[[2, 3, 0, 1]]  # cat before eel
    expected = (np.concatenate([train, by_name]) - mean) / deviation
    np.testing.assert_allclose(made.x, expected, atol=1e-5)
    assert made.y.tolist() == [0] * 5 + [1] * 5 + [2] * 5 + [0, 0, 2, 2]
    assert made.test.tolist() == [False] * 15 + [True] * 4
    assert (made.classes, made.shape) == (3, (channels, 4, 6))


def test_folder_without_parts_holds_out_a_stratified_fifth(tmp_path):
    images = planes(album(tmp_path, 10))
    made = load(tmp_path)
    assert np.bincount(made.y[made.test]).tolist() == [2, 2, 2]
    assert np.bincount(made.y[~made.test]).tolist() == [8, 8, 8]
    # Standardising keeps the order of the pixels in a channel, by which an image is known again.
    order = {image[0].argsort(None, kind="stable").tobytes(): i for i, image in enumerate(images)}
    ids = np.array([order[image[0].argsort(None, kind="stable").tobytes()] for image in made.x])
    assert sorted(ids) == list(range(30))
    np.testing.assert_array_equal(made.y, ids // 10)
    train = images[ids[~made.test]]
    mean, deviation = (f(train, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.std))
    np.testing.assert_allclose(made.x, (images[ids] - mean) / deviation, atol=1e-5)
    np.testing.assert_array_equal(load(tmp_path).x, made.x)
    assert (load(tmp_path, seed=1).x != made.x).any()


def test_folder_with_too_few_images_for_a_fifth_of_each_label(tmp_path):
    album(tmp_path, 2, labels=[f"label{i}" for i in range(10)])
    with pytest.raises(UserError, match="a fifth of the 20 images is held out"):
        load(tmp_path)


def test_folder_with_more_than_8_bits_a_channel(tmp_path):
    album(tmp_path, 5, channels=1)
    Image.fromarray(np.full((4, 6), 40_000, np.uint16)).save(tmp_path / "cat" / "000.png")
    with pytest.raises(UserError, match="more than 8 bits"):
        load(tmp_path)


def test_folder_is_dealt_like_any_data_set(tmp_path):
    album(tmp_path, 20)
    data = partition(load(tmp_path), heterogeneity.parse("dirichlet(1)"), Settings(clients=4))
    assert data.clients == 4


def test_folder_with_grey_and_colour_is_colour(tmp_path):
    album(tmp_path / "train", 2)
    picture(tmp_path / "train/cat/grey.png", np.full((4, 6), 9))
    album(tmp_path / "test", 1)
    assert load(tmp_path).shape == (3, 4, 6)


def test_folder_passes_over_what_is_no_image(tmp_path):
    album(tmp_path, 5)
    (tmp_path / "cat/notes.txt").write_text("no image")
    (tmp_path / "cat/.hidden.png").write_text("no image")
    (tmp_path / ".git").mkdir()
    (tmp_path / "readme.md").write_text("no folder")
    assert len(load(tmp_path).y) == 15


def cut(root: Path) -> None:
    path = root / "cat/001.png"
    path.write_bytes(path.read_bytes()[:60])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (cut, r"cannot read the image .*cat/001\.png"),
        (lambda r: (r / "dog/000.png").write_bytes(b"none"), r"cannot read .*dog/000\.png"),
        (lambda r: picture(r / "eel/9.png", np.zeros((4, 7, 3))), r"eel/9\.png is 7x4 and .*6x4"),
        (lambda r: (r / "fox").mkdir(), "fox holds no image"),
        (lambda r: album(r / "train", 1), "needs both train/ and test/.*it has cat, dog, eel"),
        (lambda r: picture(r / "fox/1.png", np.zeros((4, 6, 3))), "label 'fox' needs two images"),
    ],
    ids=["truncated", "no image", "size", "empty label", "train alone", "one image"],
)
def test_folders_that_do_not_fit(tmp_path, spoil, says):
    album(tmp_path, 5)
    spoil(tmp_path)
    with pytest.raises(UserError, match=says):
        load(tmp_path)
    (report,) = datasets.prepare(f"folder:{tmp_path}", None)
    assert (report.name, report.path, report.sound) == (f"folder:{tmp_path}", tmp_path, False)


def test_folders_that_are_none(tmp_path):
    with pytest.raises(UserError, match="there is no such folder"):
        load(tmp_path / "absent")
    with pytest.raises(UserError, match="holds no folder"):
        load(tmp_path)
    album(tmp_path / "one", 5, labels=("cat",))
    with pytest.raises(UserError, match="two labels at least"):
        load(tmp_path / "one")
    album(tmp_path / "two/train", 5)
    album(tmp_path / "two/test", 5, labels=("cats",))
    with pytest.raises(UserError, match=r"label .*'cats'\. Did you mean 'cat'"):
        load(tmp_path / "two")


def test_names_are_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text, name in (
        ("folder:pets", f"folder:{tmp_path}/pets"),
        ("npz:a/../b.npz", f"npz:{tmp_path}/b.npz"),
        ("sets.py:pets", f"{tmp_path}/sets.py:pets"),
        ("my.sets:pets", "my.sets:pets"),
    ):
        assert datasets.canonical(text) == name
        assert datasets.canonical(name) == name


# Functions

SETS = """
import numpy as np
from trials.scoring.metrics import REGRESSION
from trials.datasets.base import Dataset

def arrays():
    x = np.arange(24.0).reshape(12, 2)
    return {"x_train": x[:8], "y_train": [0, 1] * 4, "x_test": x[8:], "y_test": np.ones((4, 1))}

def whole(**changed):
    given = {"x": np.ones((4, 2), np.float32), "y": np.array([0, 1, 0, 1]), "classes": 2,
             "test": np.array([0, 0, 0, 1], bool), "client": np.array([0, 0, 1, 1])}
    return Dataset(**{**given, **changed})

def double(): return whole(x=np.ones((4, 2)))
def gap(): return whole(x=np.full((4, 2), np.nan, np.float32))
def high(): return whole(y=np.array([0, 1, 2, 1]))
def floats(): return whole(y=np.array([0, 1, 0, 1.0]))
def untested(): return whole(test=np.zeros(4, bool))
def owners(): return whole(client=np.zeros(3, int))
def regression(): return whole(y=np.ones(4, np.float32), classes=1, task=REGRESSION)
pets = 3
"""


@pytest.fixture
def sets(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "my_sets.py"
    path.write_text(SETS)
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    sys.modules.pop("my_sets", None)


@pytest.mark.parametrize("by", ["module", "file"])
def test_functions(sets, by):
    place = "my_sets" if by == "module" else str(sets)
    made = load(f"{place}:arrays", scheme="")
    assert made.x.tolist() == np.arange(24.0).reshape(12, 2).tolist()
    assert (made.x.dtype, made.y.dtype) == (np.float32, np.int64)
    assert made.y.tolist() == [0, 1] * 4 + [1] * 4
    assert made.test.tolist() == [False] * 8 + [True] * 4
    assert load(f"{place}:whole", scheme="").client.tolist() == [0, 0, 1, 1]
    (report,) = datasets.prepare(f"{place}:arrays", None)
    assert (report.name, report.sound) == (f"{place}:arrays", True)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("double", "x must be finite float32"),
        ("gap", "x must be finite float32"),
        ("high", "0 <= y < classes"),
        ("floats", "y must be int64"),
        ("untested", "test must be bool .* neither all nor none"),
        ("owners", "client must be None or whole numbers"),
        ("regression", "task must be a classification"),
        ("array", "unknown function .*'array'. Did you mean 'arrays'"),
        ("pets", "unknown function .*'pets'"),
    ],
)
def test_functions_that_do_not_fit(sets, function, says):
    with pytest.raises(UserError, match=says):
        load(f"my_sets:{function}", scheme="")


SAMPLES = ROOT / "tests" / "support" / "own_samples.py"


def test_a_pair_of_torch_datasets():
    made = load(f"{SAMPLES}:digits", scheme="")
    assert (made.x.shape, made.x.dtype, made.y.dtype) == ((240, 1, 8, 8), np.float32, np.int64)
    assert made.test.tolist() == [False] * 180 + [True] * 60
    assert (made.y[:4].tolist(), made.classes) == ([0, 1, 2, 3], 10)
    assert made.x[0, 0, 0].tolist() == [v / 16 for v in (0, 0, 5, 13, 9, 1, 0, 0)]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("of_no_pairs", r"sample 0 of train must be a pair \(x, y\), but is float"),
        ("of_two_shapes", r"sample 1 of train has \(3,\) and sample 0 \(2,\)"),
        ("of_pictures", "it is Image: use a transform that makes tensors"),
        ("of_empty", "the test part has no samples"),
        ("of_words", "one number as its y, but it is 'cat'"),
    ],
)
def test_pairs_that_do_not_fit(function, says):
    with pytest.raises(UserError, match=says):
        load(f"{SAMPLES}:{function}", scheme="")


@pytest.mark.parametrize(
    "text", ["npz", "zip:pets/data.zip", "pets:", ":pets", "a b:c", "sets.py:"]
)
def test_names_that_are_none(text):
    with pytest.raises(UserError, match="unknown dataset"):
        datasets.parse(text)
