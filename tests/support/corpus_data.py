"""Data that cannot be: archives, folders and files."""

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.corpus import PLAN, Make, Row, both, directory, study, text

N = 40
ARRAYS: dict[str, Any] = {
    "x_train": np.ones((N, 3), np.float32),
    "y_train": np.arange(N) % 2,
    "x_test": np.ones((8, 3), np.float32),
    "y_test": np.arange(8) % 2,
}
"""Data that train, until one of them is replaced."""
POSTSCRIPT = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nquit\n"
"""A program, which Pillow would have Ghostscript run."""


def npz(**changes: Any) -> Make:
    return lambda folder: np.savez(folder / "d.npz", **{**ARRAYS, **changes})


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def members(compression: int = zipfile.ZIP_STORED, **changes: bytes) -> Make:
    """An archive whose members are these bytes."""

    def make(folder: Path) -> None:
        with zipfile.ZipFile(folder / "d.npz", "w", compression) as archive:
            for name, content in {**{k: npy(v) for k, v in ARRAYS.items()}, **changes}.items():
                archive.writestr(f"{name}.npy", content)

    return make


def liar(shape: tuple[int, ...]) -> bytes:
    """An array of four bytes whose header says it has this shape."""
    head = str({"descr": "<f8", "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + b"1234"


def patched(at: bytes, offset: int, value: bytes) -> Make:
    """The archive with a field of each member's record replaced, after the record's signature."""

    def make(folder: Path) -> None:
        npz()(folder)
        data = bytearray((folder / "d.npz").read_bytes())
        place = data.find(at)
        while place >= 0:
            data[place + offset : place + offset + len(value)] = value
            place = data.find(at, place + 4)
        (folder / "d.npz").write_bytes(data)

    return make


def album(make: Callable[[str], Make]) -> list[Make]:
    """A folder with two labels, whose five images each are made so."""
    images = [make(f"d/{label}/{n}.png") for label in ("cat", "dog") for n in "abcde"]
    return [directory("d/cat"), directory("d/dog"), *images]


def _data() -> list[Row]:
    ones = ARRAYS["y_train"]
    big = np.ones((N, 3))
    big[3, 1] = 1e300
    nan = np.ones((N, 3), np.float32)
    nan[2, 1] = np.nan
    label = (
        r"y_train: the largest label is {}, but labels count 0, 1, \.\.\. and there are 48 samples"
    )
    rows = [
        ("a label of 2^31", npz(y_train=ones + 2**31 - 1), label.format(2**31)),
        (
            "labels of 2^64",
            npz(y_train=ones.astype(np.uint64) + np.uint64(2**64 - 2)),
            label.format(2**64 - 1),
        ),
        (
            "labels from 1",
            npz(y_train=ones + 1, y_test=np.ones(8)),
            "the smallest label is 1, but labels count 0, 1, .*: subtract 1 from y_train and y_test",
        ),
        ("labels of 1e300", npz(y_train=ones * 1e300), label.format(r"1e\+300")),
        (
            "labels below 0",
            npz(y_train=ones - 1),
            "y_train must be whole numbers; labels count 0, 1, .*",
        ),
        (
            "labels between",
            npz(y_train=ones / 2),
            "y_train must be whole numbers; labels count 0, 1, .*",
        ),
        (
            "no features",
            npz(x_train=np.ones((N, 0)), x_test=np.ones((8, 0))),
            r"x_train must hold at least one value per sample, but is float64 of shape \(40, 0\)",
        ),
        (
            "no samples",
            npz(x_train=np.ones((0, 3)), y_train=ones[:0]),
            r"x_train must be finite numbers of shape \(samples, \.\.\.\), but is float64 of shape \(0, 3\)",
        ),
        ("beyond float32", npz(x_train=big), r"x_train holds values beyond float32, as 1e\+300"),
        (
            "nan",
            npz(x_train=nan),
            r"x_train must be finite, but holds nan at \[2, 1\]",
        ),
        (
            "owners nan",
            npz(client_train=ones * np.nan),
            r"client_train must be finite, but holds nan at \[0\]",
        ),
        (
            "text",
            npz(x_train=np.array([["a"] * 3] * N)),
            r"x_train must be finite numbers of shape \(samples, \.\.\.\), but is <U1 of shape \(40, 3\)",
        ),
        (
            "complex",
            npz(x_train=ARRAYS["x_train"] * 1j),
            r"x_train must be finite numbers of shape .*",
        ),
        ("a scalar", npz(x_train=np.float32(1)), r"x_train must be finite numbers of shape .*"),
        (
            "owners of half the samples",
            npz(client_train=ones[:20]),
            "x_train has 40 rows, but client_train has 20",
        ),
        (
            "owners in two columns",
            npz(client_train=np.ones((N, 2))),
            r"client_train must be finite numbers of shape .*",
        ),
    ]
    found = [
        Row(
            f"npz: {name}", "run --dataset npz:d.npz --set rounds=1", rf"npz:\S+d.npz: {says}", make
        )
        for name, make, says in rows
    ]
    unread = [
        ("a header that lies", members(x_train=liar((10**12, 3)))),
        ("a header that overflows", members(x_train=liar((2**62, 2**62)))),
        ("a header below 0", members(x_train=liar((-5, 3)))),
        ("a header of words", members(x_train=b"\x93NUMPY\x01\x00\x10\x00{'descr': [[[[[[")),
        ("a member that is no array", members(x_train=b"hello")),
        ("an empty member", members(x_train=b"")),
        ("objects", members(x_train=npy(np.array([{}], object)))),
        ("encrypted", patched(b"PK\x01\x02", 8, b"\x01\x00")),
        ("an unknown compression", patched(b"PK\x01\x02", 10, struct.pack("<H", 77))),
        ("deflated that is not", patched(b"PK\x01\x02", 10, struct.pack("<H", 8))),
        ("lzma that is not", patched(b"PK\x01\x02", 10, struct.pack("<H", 14))),
        ("bzip2 that is not", patched(b"PK\x01\x02", 10, struct.pack("<H", 12))),
        ("offsets beyond the end", patched(b"PK\x01\x02", 42, b"\xff\xff\xff\x7f")),
        ("no archive", text("d.npz", b"PK\x03\x04 and nothing")),
        ("empty", text("d.npz", b"")),
        ("random", text("d.npz", bytes(range(256)) * 8)),
        ("an array alone", text("d.npz", npy(np.ones(3)))),
        ("a folder", directory("d.npz")),
        ("absent", text("e.npz", "")),
    ]
    found += [
        Row(
            f"npz: {name}",
            "run --dataset npz:d.npz --set rounds=1",
            r"cannot read data set npz:\S*d.npz: .+",
            make,
        )
        if name not in ("a folder", "absent")
        else Row(
            f"npz: {name}",
            "run --dataset npz:d.npz --set rounds=1",
            r"(run: 1 fault, nothing was started dataset = 'npz:d.npz': )?cannot read data set (npz: )?\S*d.npz: .+",
            make,
        )
        for name, make in unread
    ]
    found += [
        Row(
            "a name with NUL",
            PLAN,
            r"mine.yaml: 1 fault.* cannot read data set .*: embedded null byte",
            study(datasets=["npz:a\0b"]),
        ),
        Row(
            "a folder that is a file",
            "run --dataset folder:d",
            r"folder:\S+/d: there is no such folder",
            text("d", ""),
        ),
        Row("a folder with NUL", PLAN, r".*", study(datasets=["folder:a\0b"])),
        Row("a long folder", f"run --dataset folder:{'x' * 300}", r".*"),
        Row(
            "folder: PostScript under an image's name",
            "run --dataset folder:d",
            r"folder:\S+/d: cannot read the image \S+/a.png: cannot identify image file .*",
            both(*album(lambda name: text(name, POSTSCRIPT))),
        ),
    ]
    return found


ROWS = _data()
