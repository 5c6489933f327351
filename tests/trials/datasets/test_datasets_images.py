"""MNIST and CIFAR files: what is read, how it is scaled, what is refused."""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tests.support.fake_files import cifar_batch, image_set, mnist_files, write
from tests.support.image_sets import load, offline
from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.datasets.base import File
from trials.datasets.cifar import CIFAR10, CIFAR100
from trials.datasets.emnist import EMNISTLetters
from trials.datasets.images import MNIST, FashionMNIST, Pixels, idx
from trials.federated_data import partition
from trials.settings import Settings

# Checksums and places are the ones torchvision publishes


def test_checksums_are_torchvisions():
    from trials.datasets.torchvision_import import torchvision as tv

    for cls in (MNIST, FashionMNIST):
        known = getattr(tv.datasets, cls.archive)
        published = {f"{cls.archive}/raw/{name}": f"md5 {md5}" for name, md5 in known.resources}
        assert {f.path: f.expected for f in cls.layouts[0]} == published
        assert any(cls.url.rstrip("/") == mirror.rstrip("/") for mirror in known.mirrors)
    for cls in (CIFAR10, CIFAR100):
        known = getattr(tv.datasets, cls.archive)
        assert cls.layouts[0] == (File(known.filename, f"md5 {known.tgz_md5}"),)
        assert {(f.path, f.expected) for f in cls.layouts[1]} == {
            (f"{known.base_folder}/{name}", f"md5 {md5}")
            for name, md5 in known.train_list + known.test_list
        }
        assert known.url == cls.url + known.filename
    known = tv.datasets.EMNIST
    assert EMNISTLetters.layouts[0] == (File("EMNIST/raw/gzip.zip", f"md5 {known.md5}"),)
    assert known.url == EMNISTLetters.url + "gzip.zip"


# Scaling


def test_standardising_by_hand():
    train = np.array([0, 51, 102, 255], np.uint8).reshape(2, 1, 1, 2)
    test = np.array([[255, 0]], np.uint8).reshape(1, 1, 1, 2)
    made = Pixels(train, np.array([0, 1]), test, np.array([1])).standardised(2)
    values = np.array([0, 0.2, 0.4, 1])
    mean, deviation = 0.4, np.sqrt((0.16 + 0.04 + 0 + 0.36) / 4)
    np.testing.assert_allclose(made.x[:2].ravel(), (values - mean) / deviation, atol=1e-6)
    np.testing.assert_allclose(made.x[2].ravel(), (np.array([1, 0]) - mean) / deviation, atol=1e-6)
    assert made.test.tolist() == [False, False, True]
    assert made.x.dtype == np.float32
    fixed = Pixels(train, np.array([0, 1]), test, np.array([1])).standardised(2, [0.5], [2.0])
    np.testing.assert_allclose(fixed.x[:2].ravel(), (values - 0.5) / 2, atol=1e-7)


def test_constant_channels_are_only_shifted():
    train = np.full((3, 2, 2, 2), 51, np.uint8)
    train[:, 1] = np.arange(4).reshape(2, 2)
    made = Pixels(train, np.zeros(3, int), train[:1], np.zeros(1, int)).standardised(1)
    assert np.isfinite(made.x).all()
    assert (made.x[:, 0] == made.x[0, 0, 0, 0]).all()
    np.testing.assert_allclose(made.x[:3].mean((0, 2, 3)), 0, atol=1e-6)
    assert made.x[:3, 1].std() == pytest.approx(1, abs=1e-5)


# MNIST


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    arrays = image_set(1, 6000, 5400)
    monkeypatch.setattr(MNIST, "layouts", mnist_files(tmp_path, MNIST, arrays))
    offline(monkeypatch, "MNIST")
    return tmp_path, arrays


def test_mnist_gzipped_and_unpacked_give_the_same(mnist):
    root, (x, y, test_x, test_y) = mnist
    packed = load("mnist", root)
    expected = (np.concatenate([x, test_x]) / 255 - 0.1307) / 0.3081
    np.testing.assert_allclose(packed.x[:, 0], expected, atol=1e-6)
    np.testing.assert_array_equal(packed.y, np.concatenate([y, test_y]))
    np.testing.assert_array_equal(packed.test, np.arange(11400) >= 6000)
    for path in (root / "MNIST/raw").iterdir():
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    plain = load("mnist", root)
    np.testing.assert_array_equal(plain.x, packed.x)
    np.testing.assert_array_equal(plain.y, packed.y)
    assert all(report.sound for report in datasets.prepare("mnist", str(root)))


def test_unit_leaves_pixels_between_0_and_1(mnist):
    root, (x, _, test_x, _) = mnist
    made = load("mnist(unit)", root)
    np.testing.assert_array_equal(
        made.x[:, 0], np.concatenate([x, test_x]).astype(np.float32) / 255
    )
    plain, devices = (load(f"mnist_powerlaw({f})", root, clients=6) for f in ("2", "2, unit"))
    np.testing.assert_array_equal(devices.y, plain.y)
    assert (devices.x.min(), devices.x.max()) == (0, 1)
    assert datasets.canonical("mnist_powerlaw(2, unit)") == "mnist_powerlaw(unit)"


def test_a_truncated_file_is_named_and_left_alone(mnist):
    root, _ = mnist
    path = root / "MNIST/raw/t10k-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    expected, found = (hashlib.md5(data).hexdigest() for data in (whole, whole[:-100]))
    for name in ("mnist", "mnist01"):
        with pytest.raises(UserError) as raised:
            load(name, root)
        for part in (str(path), f"expected md5 {expected}", f"found md5 {found}", "Nothing was"):
            assert part in str(raised.value)
    assert path.read_bytes() == whole[:-100]
    wrong = [r for r in datasets.prepare("mnist", str(root)) if not r.sound]
    assert [(r.name, r.path, r.expected, r.found) for r in wrong] == [
        (path.name, path, f"md5 {expected}", f"md5 {found}")
    ]
    assert f"curl -L --create-dirs -o {path} https://" in wrong[0].remedy


def test_absent_files_are_downloaded_and_then_checked(tmp_path, monkeypatch):
    from trials.datasets.torchvision_import import torchvision

    arrays = image_set(2, 20, 20)
    layouts = mnist_files(tmp_path / "elsewhere", MNIST, arrays)
    monkeypatch.setattr(MNIST, "layouts", layouts)

    def deliver(cut):
        def download(root, download):
            assert download
            for file in layouts[0]:
                data = (tmp_path / "elsewhere" / file.path).read_bytes()
                write(Path(root) / file.path, data[: len(data) - cut])

        return download

    monkeypatch.setattr(torchvision.datasets, "MNIST", deliver(1))
    with pytest.raises(UserError, match="has the wrong content"):
        load("mnist", tmp_path / "bad")
    monkeypatch.setattr(torchvision.datasets, "MNIST", deliver(0))
    assert len(load("mnist", tmp_path / "good").y) == 40


def test_binary_subsets(mnist, monkeypatch):
    root, (x, y, test_x, test_y) = mnist
    fashion = image_set(3, 6000, 5400)
    monkeypatch.setattr(FashionMNIST, "layouts", mnist_files(root, FashionMNIST, fashion))
    made = load("mnist01", root)
    assert (made.classes, made.x.shape, int(made.test.sum())) == (2, (2000, 1, 28, 28), 1000)
    assert set(made.y.tolist()) == {0, 1}
    pixels = np.rint((made.x[:, 0] * np.float32(0.3081) + np.float32(0.1307)) * 255).astype(int)
    for chosen, labels, images, from_y in (
        (~made.test, made.y[~made.test], x, y),
        (made.test, made.y[made.test], test_x, test_y),
    ):
        place = {image.tobytes(): i for i, image in enumerate(images.astype(int))}
        ids = [place[image.tobytes()] for image in pixels[chosen]]
        assert len(set(ids)) == 1000
        np.testing.assert_array_equal(from_y[ids], labels)
    np.testing.assert_array_equal(load("mnist01", root).x, made.x)
    assert (load("mnist01", root, seed=1).x != made.x).any()
    other = load("fashion_mnist01", root)
    low = np.float32(-0.2860) / np.float32(0.3530)
    assert other.x.min() == pytest.approx(low, abs=1e-6)


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\x08", b"\0\0\x08\x03\0\0\0\1", b"\0\0\x09\x01\0\0\0\0"]
)
def test_idx_refuses_what_is_none(data):
    with pytest.raises(ValueError, match=r"."):
        idx(data)


# FedProx's MNIST


@pytest.mark.parametrize("labels", [2, 1, 5])
def test_mnist_power_law_pools_the_images_and_splits_on_the_devices(mnist, labels):
    root, arrays = mnist
    name = "mnist_powerlaw" if labels == 2 else f"mnist_powerlaw({labels})"
    made = load(name, root, seed=3, clients=6)
    assert (made.shape, made.classes, made.x.dtype) == ((1, 28, 28), 10, np.float32)
    images = np.concatenate([arrays[0], arrays[2]]).astype(np.float64)
    digits = np.concatenate([arrays[1], arrays[3]])
    place = {image.astype(np.uint8).tobytes(): i for i, image in enumerate(images)}
    pixels = made.x[:, 0] * (images.std(0) + 0.001) + images.mean(0)
    np.testing.assert_allclose(pixels, np.rint(pixels), atol=1e-3)
    ids = np.array([place[image.tobytes()] for image in np.rint(pixels).astype(np.uint8)])
    assert len(set(ids.tolist())) == len(ids)
    np.testing.assert_array_equal(digits[ids], made.y)
    assert (ids < len(arrays[0])).any()
    assert (ids >= len(arrays[0])).any()
    for u in range(6):
        mine = made.client == u
        counts = np.bincount(made.y[mine], minlength=10)
        assert set(np.flatnonzero(counts)) == {(u + j) % 10 for j in range(labels)}
        assert counts[counts > 0].min() >= 5
        assert made.test[mine].sum() == mine.sum() // 10
    again, other = (load(name, root, seed=seed, clients=6) for seed in (3, 4))
    np.testing.assert_array_equal(again.x, made.x)
    assert len(other.y) != len(made.y) or (other.x != made.x).any()


def test_validation_comes_out_of_the_nine_tenths(mnist):
    made = load("mnist_powerlaw", mnist[0], clients=6)
    data = partition(made, heterogeneity.parse("natural"), Settings())
    whole = np.bincount(made.client)
    test = whole // 10
    val = ((whole - test) * 0.1).astype(int)
    assert np.bincount(made.client[data.test], minlength=6).tolist() == test.tolist()
    assert np.bincount(made.client[data.val], minlength=6).tolist() == val.tolist()
    assert data.sizes.tolist() == (whole - test - val).tolist()


def test_mnist_power_law_says_when_there_are_too_many_devices(mnist):
    with pytest.raises(UserError, match=r"mnist_powerlaw: .*label \d has .* each needs 5"):
        load("mnist_powerlaw", mnist[0], clients=1500)


# CIFAR


@pytest.fixture
def cifar(tmp_path, monkeypatch):
    """A root with CIFAR-10's batches of 40 images, and one with them in the archive."""
    packed, images, labels, files = {}, [], [], []
    for i, file in enumerate(CIFAR10.layouts[1]):
        data, x, y = cifar_batch(i, 40, "labels", 10)
        packed[file.path] = data
        images.append(x)
        labels.append(y)
        files.append(File(file.path, write(tmp_path / "plain" / file.path, data)))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, data in packed.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    name = CIFAR10.layouts[0][0].path
    tar = File(name, write(tmp_path / "tar" / name, buffer.getvalue()))
    official = CIFAR10.layouts
    monkeypatch.setattr(CIFAR10, "layouts", ((tar,), tuple(files)))
    offline(monkeypatch, "CIFAR10", "CIFAR100")
    return tmp_path, np.concatenate(images), np.concatenate(labels), official


def test_cifar10_batches_and_archive(cifar):
    root, images, labels, _ = cifar
    made = load("cifar10", root / "plain")
    x = images.reshape(-1, 3, 32, 32) / 255
    mean, deviation = (f(x[:200], axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.std))
    np.testing.assert_allclose(made.x, (x - mean) / deviation, atol=1e-5)
    np.testing.assert_array_equal(made.y, labels)
    np.testing.assert_array_equal(made.test, np.arange(240) >= 200)
    np.testing.assert_array_equal(load("cifar10", root / "tar").x, made.x)


def test_cifar10_that_is_not_official_is_refused_and_not_unpickled(cifar, monkeypatch):
    root, _, _, official = cifar
    monkeypatch.setattr(CIFAR10, "layouts", official)
    monkeypatch.setattr("trials.datasets.cifar.pickle.loads", None)
    with pytest.raises(UserError) as raised:
        load("cifar10", root / "plain")
    path = root / "plain/cifar-10-batches-py/data_batch_1"
    found = hashlib.md5(path.read_bytes()).hexdigest()
    for part in (str(path), "c99cafc152244af753f735de768cd75f", found, "folder:PATH; docs/data.md"):
        assert part in str(raised.value)


def test_cifar100_has_fine_labels(tmp_path, monkeypatch):
    files, labels = [], []
    for i, file in enumerate(CIFAR100.layouts[1]):
        data, _, y = cifar_batch(i, 30, "fine_labels", 100)
        labels.append(y)
        files.append(File(file.path, write(tmp_path / file.path, data)))
    monkeypatch.setattr(CIFAR100, "layouts", (CIFAR100.layouts[0], tuple(files)))
    made = load("cifar100", tmp_path)
    np.testing.assert_array_equal(made.y, np.concatenate(labels))
    assert (made.classes, made.shape, int(made.test.sum())) == (100, (3, 32, 32), 30)


@pytest.mark.parametrize(
    ("name", "archive", "file"),
    [
        ("emnist_letters", "EMNIST", "EMNIST/raw/gzip.zip"),
        ("emnist_byclass", "EMNIST", "EMNIST/raw/gzip.zip"),
        ("femnist10", "EMNIST", "EMNIST/raw/gzip.zip"),
        ("cifar10", "CIFAR10", "cifar-10-python.tar.gz"),
        ("cifar100", "CIFAR100", "cifar-100-python.tar.gz"),
        ("mnist01", "MNIST", "MNIST/raw/train-images-idx3-ubyte.gz"),
        ("fashion_mnist01", "FashionMNIST", "FashionMNIST/raw/t10k-labels-idx1-ubyte.gz"),
    ],
)
def test_absent_sets_give_their_remedy(tmp_path, monkeypatch, name, archive, file):
    offline(monkeypatch, archive)
    with pytest.raises(UserError, match="no network") as raised:
        load(name, tmp_path)
    assert f"-o {tmp_path / file} http" in str(raised.value)
    assert "--data-root or SUITE_DATA" in str(raised.value)
    reports = datasets.prepare(name, str(tmp_path))
    assert any(r.path == tmp_path / file and r.found is None for r in reports)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("emnist_letters(1)", "2 <= letters <= 26"),
        ("emnist_letters(27)", "2 <= letters <= 26"),
        ("femnist10(0)", "1 <= labels <= 10"),
        ("mnist_powerlaw(11)", "1 <= labels <= 10"),
        ("femnist10(11)", "1 <= labels <= 10"),
        ("emnist_letter", "Did you mean 'emnist_letters'"),
        ("cifar11", "Did you mean 'cifar1"),
    ],
)
def test_bad_names(name, says):
    with pytest.raises(UserError, match=says):
        datasets.parse(name)


def test_canonical_spelling():
    for text, name in (
        ("emnist_letters(26)", "emnist_letters"),
        ("emnist_letters( 10 )", "emnist_letters(10)"),
        ("emnist_letters(letters=10)", "emnist_letters(10)"),
        ("femnist10(5)", "femnist10"),
        ("speech_commands(10)", "speech_commands(10)"),
    ):
        assert datasets.canonical(text) == name
        assert datasets.canonical(name) == name
