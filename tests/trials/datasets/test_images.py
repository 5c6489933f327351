"""Images that torchvision decodes: what is read and scaled, what papers cut from it, what is refused."""

import gzip
import hashlib
import pickle
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from tests.support.fake_files import cifar_batch, idx_bytes, image_set, mnist_files, write
from trials import datasets
from trials.common.errors import UserError
from trials.common.randomness import generator
from trials.datasets.base import Published
from trials.datasets.images import CIFAR10, CIFAR100, EMNIST, MNIST, standardised
from trials.datasets.torchvision_import import torchvision as tv


def load(name: str, root: Path, seed: int = 0, clients: int | None = None) -> datasets.Dataset:
    return datasets.parse(name).load(seed, clients, str(root))


def offline(monkeypatch) -> None:
    def fail(*_args, **_given):
        raise OSError("no network")

    monkeypatch.setattr(tv.datasets.utils, "download_url", fail)


# Scaling


def test_standardising_by_hand():
    """The second channel is constant, and only shifted."""
    pixels = np.full((3, 2, 1, 2), 51, np.uint8)
    pixels[:, 0, 0] = [[0, 51], [102, 255], [255, 0]]
    images = datasets.Dataset(pixels, np.array([0, 1, 1]), np.array([False, False, True]), 2)
    made, values = standardised(images), np.array([[0, 0.2], [0.4, 1], [1, 0]])
    deviation = np.sqrt((0.16 + 0.04 + 0 + 0.36) / 4)
    np.testing.assert_allclose(made.x[:, 0, 0], (values - 0.4) / deviation, atol=1e-6)
    np.testing.assert_allclose(made.x[:, 1], 0, atol=1e-6)
    assert made.x.dtype == np.float32


# MNIST


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    arrays = image_set(1, 6000, 5400)
    monkeypatch.setattr(MNIST, "published", mnist_files(tmp_path, MNIST, arrays))
    offline(monkeypatch)
    return tmp_path, arrays


def test_mnist_gzipped_and_unpacked_give_the_same_and_nothing_is_written(mnist):
    root, (x, y, test_x, test_y) = mnist
    before, pixels = sorted(root.rglob("*")), np.concatenate([x, test_x]) / 255
    packed = load("mnist", root)
    assert sorted(root.rglob("*")) == before
    np.testing.assert_allclose(packed.x[:, 0], (pixels - 0.1307) / 0.3081, atol=1e-6)
    np.testing.assert_array_equal(packed.y, np.concatenate([y, test_y]))
    np.testing.assert_array_equal(packed.test, np.arange(11400) >= 6000)
    np.testing.assert_allclose(load("mnist(unit)", root).x[:, 0], pixels, atol=1e-7)
    for path in (root / "MNIST/raw").iterdir():
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    np.testing.assert_array_equal(load("mnist", root).x, packed.x)


def test_a_file_with_another_content_is_named_and_left_alone(mnist):
    root, (*_, test_y) = mnist
    path = root / "MNIST/raw/t10k-labels-idx1-ubyte.gz"
    other = gzip.compress(idx_bytes(test_y[::-1]))
    path.write_bytes(other)
    expected, found = (hashlib.md5(idx_bytes(y)).hexdigest() for y in (test_y, test_y[::-1]))
    with pytest.raises(UserError, match=f"{path} .*{expected}.*{found}"):
        load("mnist", root)
    assert path.read_bytes() == other
    (wrong,) = [file for file in MNIST().files(str(root)) if not file["sound"]]
    assert (wrong["path"], wrong["found"]) == (str(path), f"md5 {found}")


def test_absent_files_are_downloaded_and_then_checked(tmp_path, monkeypatch):
    """Only those: what is there is left alone."""
    published = mnist_files(tmp_path / "elsewhere", MNIST, image_set(2, 20, 20))
    monkeypatch.setattr(MNIST, "published", published)
    asked, cut = [], 9

    def deliver(url, folder, name):
        asked.append(url)
        data = (tmp_path / "elsewhere/MNIST/raw" / name.removesuffix(".part")).read_bytes()
        write(Path(folder) / name, data[: len(data) - cut])

    monkeypatch.setattr(tv.datasets.utils, "download_url", deliver)
    with pytest.raises(UserError, match="has the wrong content"):
        load("mnist", tmp_path / "bad")
    shutil.copytree(tmp_path / "elsewhere", tmp_path / "good")
    (tmp_path / "good/MNIST/raw/t10k-images-idx3-ubyte.gz").unlink()
    asked, cut = [], 0
    assert len(load("mnist", tmp_path / "good").y) == 40
    assert asked == [published[2].url]


def place_of(images: np.ndarray) -> dict[bytes, int]:
    """Return the places of images (n, 28, 28) by their pixels."""
    return {image.astype(np.uint8).tobytes(): i for i, image in enumerate(images)}


def test_binary_subsets(mnist):
    root, (x, y, test_x, test_y) = mnist
    made = load("mnist01", root)
    assert (made.classes, made.x.shape, int(made.test.sum())) == (2, (2000, 1, 28, 28), 1000)
    assert set(made.y.tolist()) == {0, 1}
    pixels = np.rint((made.x[:, 0] * np.float32(0.3081) + np.float32(0.1307)) * 255)
    for chosen, images, labels in ((~made.test, x, y), (made.test, test_x, test_y)):
        place = place_of(images)
        ids = [place[image.tobytes()] for image in pixels[chosen].astype(np.uint8)]
        assert len(set(ids)) == 1000
        np.testing.assert_array_equal(labels[ids], made.y[chosen])


# FedProx's MNIST


def check_devices(made: datasets.Dataset, pixels: np.ndarray, of: np.ndarray, labels: int) -> list:
    """Check that each image is one of `of` and on one device of `labels` labels; return which they are."""
    np.testing.assert_allclose(pixels, np.rint(pixels), atol=1e-3)
    place = place_of(of)
    ids = [place[image.tobytes()] for image in np.rint(pixels).astype(np.uint8)]
    assert len(set(ids)) == len(ids)
    for u in range(made.client.max() + 1):
        mine = made.client == u
        assert set(made.y[mine].tolist()) == {(u + j) % 10 for j in range(labels)}
        assert made.test[mine].sum() == mine.sum() // 10
    return ids


@pytest.mark.parametrize("labels", [2, 5])
def test_mnist_power_law_pools_the_images_and_splits_on_the_devices(mnist, labels):
    root, (x, y, test_x, test_y) = mnist
    made = load(f"mnist_powerlaw({labels})", root, seed=3, clients=6)
    images = np.concatenate([x, test_x]).astype(np.float64)
    pixels = made.x[:, 0] * (images.std(0) + 0.001) + images.mean(0)
    ids = check_devices(made, pixels, images, labels)
    np.testing.assert_array_equal(np.concatenate([y, test_y])[ids], made.y)
    assert min(ids) < len(x) < max(ids)


# CIFAR


def cifar(root: Path, monkeypatch, cls: type, key: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Small batches below `root`/plain and as an archive below `root`/tar."""
    known, (published,) = getattr(tv.datasets, cls.archive), cls.published
    folder, listed = root / "plain" / known.base_folder, [*known.train_list, *known.test_list]
    batches = [cifar_batch(i, n, key, cls.classes) for i in range(len(listed))]
    for (name, _), (data, _, _) in zip(listed, batches, strict=True):
        write(folder / name, data)
    write(folder / known.meta["filename"], pickle.dumps({known.meta["key"]: []}))
    (root / "tar").mkdir()
    with tarfile.open(root / "tar" / Path(published.url).name, "w:gz") as archive:
        archive.add(folder, known.base_folder)
    monkeypatch.setattr(tv.datasets.cifar, "check_integrity", lambda *_: True)
    md5 = published.digest(root / "plain")
    monkeypatch.setattr(cls, "published", (replace(published, md5=md5),))
    return tuple(np.concatenate([batch[part] for batch in batches]) for part in (1, 2))


@pytest.mark.parametrize(
    ("name", "cls", "key", "train"),
    [("cifar10", CIFAR10, "labels", 200), ("cifar100", CIFAR100, "fine_labels", 40)],
)
def test_cifar_batches_and_archive(tmp_path, monkeypatch, name, cls, key, train):
    images, labels = cifar(tmp_path, monkeypatch, cls, key, 40)
    made = load(name, tmp_path / "plain")
    x = images.reshape(-1, 3, 32, 32) / 255
    mean, deviation = (f(x[:train], axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.std))
    np.testing.assert_allclose(made.x, (x - mean) / deviation, atol=1e-5)
    np.testing.assert_array_equal(made.y, labels)
    np.testing.assert_array_equal(made.test, np.arange(len(labels)) >= train)
    np.testing.assert_array_equal(load(name, tmp_path / "tar").x, made.x)


def test_cifar10_that_is_not_official_is_refused_and_not_unpickled(tmp_path, monkeypatch):
    write(tmp_path / "cifar-10-batches-py/data_batch_1", b"cos\nsystem\n(S'false'\ntR.")
    monkeypatch.setattr(CIFAR10, "unpack", None)
    with pytest.raises(UserError, match="cifar-10-batches-py has the wrong content"):
        load("cifar10", tmp_path)


# EMNIST


def emnist(root: Path, monkeypatch, split: str, n: int, labels: np.ndarray) -> list[np.ndarray]:
    """NIST's archive with one split of `n` and 52 images, gzipped, below `root`."""
    arrays = image_set(4, n, 52, labels)
    path = root / "EMNIST/raw/gzip.zip"
    path.parent.mkdir(parents=True)
    names = [
        f"{part}-{kind}" for part in ("train", "test") for kind in ("images-idx3", "labels-idx1")
    ]
    with ZipFile(path, "w") as archive:
        archive.writestr("gzip/emnist-digits-train-images-idx3-ubyte.gz", b"another split")
        for name, array in zip(names, arrays, strict=True):
            content = gzip.compress(idx_bytes(array), mtime=0)
            archive.writestr(f"gzip/emnist-{split}-{name}-ubyte.gz", content)
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    monkeypatch.setattr(EMNIST, "published", (Published("EMNIST/raw/gzip.zip", md5, "http://x"),))
    return arrays


def test_emnist_letters_are_upright_and_count_from_zero(tmp_path, monkeypatch):
    x, y, test_x, test_y = emnist(tmp_path, monkeypatch, "letters", 156, np.arange(1, 27))
    made, ten = load("emnist_letters", tmp_path), load("emnist_letters(10)", tmp_path)
    upright = np.concatenate([x, test_x]).transpose(0, 2, 1) / 255
    np.testing.assert_allclose(
        made.x[:, 0], (upright - (x / 255).mean()) / (x / 255).std(), atol=1e-5
    )
    np.testing.assert_array_equal(made.y, np.concatenate([y, test_y]) - 1)
    assert (made.classes, int(made.test.sum())) == (26, 52)
    assert (ten.classes, len(ten.y), int(ten.test.sum())) == (10, 80, 20)
    assert ten.x[~ten.test].mean() == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("labels", [5, 3])
def test_femnist10_deals_ten_letters_by_recipe(tmp_path, monkeypatch, labels):
    x, y, test_x, test_y = emnist(tmp_path, monkeypatch, "byclass", 62 * 80, np.arange(62))
    made = load(f"femnist10({labels})", tmp_path, seed=3, clients=12)
    images = np.concatenate([x, test_x]).transpose(0, 2, 1)
    ids = check_devices(made, made.x[:, 0] * 255, images, labels)
    np.testing.assert_array_equal(np.concatenate([y, test_y])[ids] - 36, made.y)
    share = (np.exp(4 + generator("femnist10", 3).standard_normal(12)) + 5).astype(int) // labels
    for u in range(12):
        assert np.bincount(made.y[made.client == u]).max() <= max(share[u], 2)
