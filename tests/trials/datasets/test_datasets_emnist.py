"""EMNIST's letters and classes, and FEMNIST10: what is read and partitioned, what is refused."""

import gzip
import hashlib
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from tests.support.fake_files import idx_bytes, image_set, write
from tests.support.image_sets import load, offline
from trials.common.errors import UserError
from trials.datasets.base import File
from trials.datasets.emnist import FEMNIST10, EMNISTByClass, EMNISTLetters, emnist_layouts


def letters_set(root: Path, monkeypatch, each=(6, 2)) -> list[np.ndarray]:
    arrays = image_set(4, 26 * each[0], 26 * each[1], np.arange(1, 27))
    monkeypatch.setattr(EMNISTLetters, "each", each)
    monkeypatch.setattr(
        EMNISTLetters, "layouts", emnist_layouts("letters", 26 * each[0], 26 * each[1])
    )
    offline(monkeypatch, "EMNIST")
    for file, array in zip(EMNISTLetters.layouts[1], arrays, strict=True):
        write(root / file.path, idx_bytes(array))
    return arrays


def test_emnist_sizes_are_the_published_counts():
    sizes = [file.expected for file in EMNISTLetters.layouts[1]]
    assert sizes == ["97843216 bytes", "124808 bytes", "16307216 bytes", "20808 bytes"]
    assert EMNISTByClass.layouts[1][1].expected == "697940 bytes"
    assert EMNISTByClass.layouts[1][2].expected == f"{116323 * 784 + 16} bytes"
    assert 26 * (4800 + 800) == 124800 + 20800


def test_emnist_letters_are_upright_and_count_from_zero(tmp_path, monkeypatch):
    x, y, test_x, test_y = letters_set(tmp_path, monkeypatch)
    made = load("emnist_letters", tmp_path)
    upright = np.concatenate([x, test_x]).transpose(0, 2, 1) / 255
    mean, deviation = (x / 255).mean(), (x / 255).std()
    np.testing.assert_allclose(made.x[:, 0], (upright - mean) / deviation, atol=1e-5)
    np.testing.assert_array_equal(made.y, np.concatenate([y, test_y]) - 1)
    assert (made.classes, int(made.test.sum())) == (26, 52)
    ten = load("emnist_letters(10)", tmp_path)
    assert (ten.classes, len(ten.y), int(ten.test.sum())) == (10, 80, 20)
    assert set(ten.y.tolist()) == set(range(10))
    assert ten.x[~ten.test].mean() == pytest.approx(0, abs=1e-5)


def test_emnist_from_nists_archive(tmp_path, monkeypatch):
    arrays = letters_set(tmp_path, monkeypatch)
    plain = load("emnist_letters", tmp_path)
    path = tmp_path / "zip/EMNIST/raw/gzip.zip"
    path.parent.mkdir(parents=True)
    with ZipFile(path, "w") as archive:
        for file, array in zip(EMNISTLetters.layouts[1], arrays, strict=True):
            name = f"gzip/{Path(file.path).name}.gz"
            archive.writestr(name, gzip.compress(idx_bytes(array), mtime=0))
    with pytest.raises(UserError, match=r"gzip.zip .* expected md5 58c8d27c.*, found md5"):
        load("emnist_letters", tmp_path / "zip")
    md5 = f"md5 {hashlib.md5(path.read_bytes()).hexdigest()}"
    given = ((File("EMNIST/raw/gzip.zip", md5),), EMNISTLetters.layouts[1])
    monkeypatch.setattr(EMNISTLetters, "layouts", given)
    np.testing.assert_array_equal(load("emnist_letters", tmp_path / "zip").x, plain.x)


@pytest.mark.parametrize(
    ("which", "change", "says"),
    [
        (0, lambda d: d[:-1], "expected 122320 bytes, found 122319 bytes"),
        (0, lambda d: b"\1" + d[1:], "an idx file of 122320 bytes that do not fit its header"),
        (1, lambda d: d[:8] + b"\2" + d[9:], "expected 6 of each of 26 labels, found 5..7"),
        (1, lambda d: d[:8] + b"\0" + d[9:], "expected labels 1..26, found 0..26"),
        (3, lambda d: d[:-1] + b"\x1b", "expected labels 1..26, found 1..27"),
    ],
    ids=["truncated", "no idx", "label counts", "label below", "label above"],
)
def test_wrong_emnist_files(tmp_path, monkeypatch, which, change, says):
    letters_set(tmp_path, monkeypatch)
    path = tmp_path / EMNISTLetters.layouts[1][which].path
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=says) as raised:
        load("emnist_letters", tmp_path)
    assert str(path) in str(raised.value)


def byclass_set(root: Path, monkeypatch, per_class: int) -> list[np.ndarray]:
    arrays = image_set(5, 62 * per_class, 62 * 3, np.arange(62))
    layouts = emnist_layouts("byclass", 62 * per_class, 62 * 3)
    monkeypatch.setattr(EMNISTByClass, "layouts", layouts)
    for file, array in zip(layouts[1], arrays, strict=True):
        write(root / file.path, idx_bytes(array))
    return arrays


def test_emnist_byclass(tmp_path, monkeypatch):
    _, y, _, test_y = byclass_set(tmp_path, monkeypatch, 5)
    made = load("emnist_byclass", tmp_path)
    assert (made.classes, made.client) == (62, None)
    np.testing.assert_array_equal(made.y, np.concatenate([y, test_y]))


@pytest.mark.parametrize("labels", [5, 3])
def test_femnist10_deals_ten_letters_by_recipe(tmp_path, monkeypatch, labels):
    x, y, test_x, test_y = byclass_set(tmp_path, monkeypatch, 80)
    name = "femnist10" if labels == 5 else f"femnist10({labels})"
    made = load(name, tmp_path, seed=3, clients=12)
    assert (made.classes, made.x.min() >= 0, made.x.max() <= 1) == (10, True, True)
    images = np.concatenate([x, test_x]).transpose(0, 2, 1)
    letter = np.concatenate([y, test_y]) - 36
    place = {image.astype(np.uint8).tobytes(): i for i, image in enumerate(images)}
    pixels = np.rint(made.x[:, 0] * 255).astype(np.uint8)
    ids = [place[image.tobytes()] for image in pixels]
    assert len(set(ids)) == len(ids)
    np.testing.assert_array_equal(letter[ids], made.y)
    from trials.common.randomness import generator

    drawn = np.exp(4 + generator("femnist10", 3).standard_normal(12))
    share = np.maximum((drawn + 5).astype(int) // labels, 2)
    for u in range(12):
        mine = made.client == u
        counts = np.bincount(made.y[mine], minlength=10)
        assert set(np.flatnonzero(counts)) == {(u + j) % 10 for j in range(labels)}
        assert counts[counts > 0].min() >= 2
        assert counts.max() <= share[u]
        assert made.test[mine].sum() == mine.sum() // 10
    for label in range(10):
        holders = [u for u in range(12) if (label - u) % 10 < labels]
        held = (made.y == label).sum()
        assert held == min(83, sum(share[u] for u in holders))
    again = load(name, tmp_path, seed=3, clients=12)
    np.testing.assert_array_equal(again.x, made.x)


def test_femnist10_says_when_there_are_too_many_devices(tmp_path, monkeypatch):
    byclass_set(tmp_path, monkeypatch, 5)
    with pytest.raises(
        UserError, match=r"femnist10: .* label 0 has 8 .* for 20 of 40 clients, and each needs 2"
    ):
        load("femnist10", tmp_path, clients=40)


def test_femnist10_has_200_devices_of_about_92():
    letter = np.repeat(np.arange(10), 4000)
    partitioned = [
        part
        for seed in range(20)
        for part in FEMNIST10()._partition(letter, 200, np.random.default_rng(seed))
    ]
    sizes = np.array([len(part) for part in partitioned])
    assert sizes.mean() == pytest.approx(92, abs=3)
    assert sizes.min() >= 10
