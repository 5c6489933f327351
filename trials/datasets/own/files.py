"""A user's own data: arrays in a file, a folder of images, or what a Python function returns."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trials.common import names
from trials.common.errors import UserError, unknown
from trials.common.files import plain, resolved
from trials.datasets.base import (
    Array,
    Dataset,
    DatasetFamily,
    FileReport,
    joined,
    stratified_fifth,
)
from trials.datasets.images import Pixels


@dataclass(frozen=True)
class NoOptions:
    """`SCHEME:PATH` takes no arguments."""


@dataclass(frozen=True)
class Own(DatasetFamily):
    """Data that are named by where they are, `SCHEME:PATH`, or `SCHEME(ARGUMENTS):PATH` where the
    dataclass `Options` has fields.
    """

    scheme: ClassVar[str]
    Options: ClassVar[type] = NoOptions
    path: str
    options: Any = NoOptions()

    @classmethod
    def at(cls, path: str, head: str) -> "Own":
        """The data at a path as a person writes it; `head` is what stands before the colon."""
        options = names.parse("dataset", head, {cls.scheme: cls.Options})
        return cls(str(resolved(path, "data set")), options)

    @property
    def name(self) -> str:
        """The canonical spelling."""
        return f"{names.spell(self.scheme, self.options)}:{self.path}"

    def files(self, root: Path) -> list[FileReport]:
        """A report of the data, which are sound when they load."""
        expected, remedy = "data that load", ""
        found = expected
        try:
            self.load(0, None, str(root))
        except UserError as error:
            found, remedy = str(error), f"mend {self.name}, or name other data"
        return [FileReport(self.name, Path(self.path), expected, found, not remedy, remedy)]


@dataclass(frozen=True)
class Npz(Own):
    """A user's own data: `npz:PATH` with x_train, y_train, x_test, y_test and, for `natural`,
    client_train (an integer per training sample). Values are used as they are, as float32.
    """

    summary: ClassVar[str] = (
        "your own data: arrays x_train, y_train, x_test, y_test [, client_train]"
    )
    scheme: ClassVar[str] = "npz"

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """The file's arrays. Raises `UserError` naming the array that is missing or does not fit."""
        path = plain(Path(self.path), f"data set {self.scheme}:")
        try:
            with path.open(
                "rb"
            ) as begin:  # of all else NumPy says that it is a pickle, and how to load it
                if begin.read(2) not in (b"PK", b"\x93N"):
                    raise ValueError("it is no .npz archive, as numpy.savez writes them")
            file = np.load(path, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise ValueError("it holds one array without a name (.npy), not an .npz archive")
            with file:
                arrays = {name: file[name] for name in file.files}
            for name, array in arrays.items():
                if not isinstance(array, np.ndarray):
                    raise ValueError(f"its member {name} is no array")
        except Exception as error:  # NumPy's, zipfile's, and those of whatever parses a member
            reason = str(error).strip() or type(error).__name__
            raise UserError(f"cannot read data set {self.name}: {reason}") from None
        return from_arrays(self.name, arrays)


ARRAYS = ("x_train", "y_train", "x_test", "y_test", "client_train")


def from_arrays(name: str, given: Mapping[str, Array]) -> Dataset:
    """A data set of x_train, y_train, x_test, y_test [, client_train]; labels may be columns.

    Raises `UserError` naming the array that is missing or does not fit.
    """
    missing = {"x_train", "y_train", "x_test", "y_test"} - set(given)
    if missing:
        has = ", ".join(map(str, given)) or "nothing"
        raise UserError(f"{name} lacks {', '.join(sorted(missing))}; it has {has}")
    for key in given:
        if key not in ARRAYS:
            raise UserError(f"{name}: {unknown('array', str(key), ARRAYS)}")
    arrays = {
        key: array[:, 0] if key[:2] != "x_" and array.ndim == 2 and array.shape[1] == 1 else array
        for key, array in given.items()
    }
    for key, array in arrays.items():
        _check(name, key, array)
    for a, b in (("x_train", "y_train"), ("x_test", "y_test"), ("x_train", "client_train")):
        if b in arrays and len(arrays[a]) != len(arrays[b]):
            raise UserError(f"{name}: {a} has {len(arrays[a])} rows, but {b} has {len(arrays[b])}")
    if arrays["x_train"].shape[1:] != arrays["x_test"].shape[1:]:
        raise UserError(
            f"{name}: a sample of x_train has shape {arrays['x_train'].shape[1:]}, "
            f"one of x_test {arrays['x_test'].shape[1:]}"
        )
    count = len(arrays["y_train"]) + len(arrays["y_test"])
    for key in ("y_train", "y_test"):
        if (largest := arrays[key].max()) >= count:
            raise UserError(
                f"{name}: {key}: the largest label is {largest}, but labels count 0, 1, ... and there "
                f"are {count} samples"
            )
    y = np.concatenate([arrays[key].astype(np.int64) for key in ("y_train", "y_test")])
    if smallest := int(y.min()):
        raise UserError(
            f"{name}: the smallest label is {smallest}, but labels count 0, 1, ...: subtract {smallest} from "
            "y_train and y_test"
        )
    if not y.max():
        raise UserError(f"{name}: all labels are 0: two labels at least")
    test = np.arange(len(y)) >= len(arrays["y_train"])
    client = None
    if "client_train" in arrays:
        _, index = np.unique(arrays["client_train"], return_inverse=True)
        client = np.concatenate([index, np.full(int(test.sum()), -1)])
    x = joined([arrays["x_train"], arrays["x_test"]])
    return Dataset(x, y, test, int(y.max()) + 1, client)


def _check(name: str, key: str, array: Array) -> None:
    """Samples are finite numbers (n, ...), labels 0, 1, ... (n,), owners whole numbers (n,)."""
    samples = key.startswith("x_")
    form = "(samples, ...)" if samples else "(samples,)"
    shown = f"is {array.dtype} of shape {array.shape}"
    fits = array.dtype.kind in "iufb" and (array.ndim > 1 if samples else array.ndim == 1)
    if not fits or not len(array):
        words = key[0] == "y" and array.dtype.kind in "USO"
        hint = ": number the labels, as numpy.unique(y, return_inverse=True)[1] does" * words
        raise UserError(f"{name}: {key} must be finite numbers of shape {form}, but {shown}{hint}")
    if not array.size:
        raise UserError(f"{name}: {key} must hold at least one value per sample, but {shown}")
    finite = np.isfinite(array)
    if not finite.all():
        at = tuple(np.argwhere(~finite)[0].tolist())
        raise UserError(f"{name}: {key} must be finite, but holds {array[at]} at {list(at)}")
    if samples and (largest := float(np.abs(array).max())) > float(np.finfo(np.float32).max):
        raise UserError(f"{name}: {key} holds values beyond float32, as {largest:g}")
    if not samples and ((array != np.floor(array)).any() or (key[0] == "y" and array.min() < 0)):
        raise UserError(
            f"{name}: {key} must be whole numbers; labels count 0, 1, ... A regression is a table, "
            "csv:PATH?target=COLUMN&task=regression"
        )


@dataclass(frozen=True)
class Folder(Own):
    """A user's own images: `folder:PATH` with one folder a label, all images of one size. With
    PATH/train/LABEL and PATH/test/LABEL these are the parts; with PATH/LABEL a fifth is test, drawn
    by `seed` and stratified by label. Labels count in the alphabetical order of their folders.

    Grey images have one channel, all others become RGB; if any is not grey, all are RGB. Pixels / 255
    are standardised by the training images' mean and deviation, per channel. Hidden files and those
    without the name of an image format are skipped.
    """

    summary: ClassVar[str] = "your own images: one folder a label [below train/ and test/]"
    scheme: ClassVar[str] = "folder"

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """The folder's images. Raises `UserError` naming the folder or the file that does not fit."""
        top = Path(self.path)
        if not top.is_dir():
            raise UserError(f"{self.name}: there is no such folder")
        parts = {folder.name for folder in _folders(top)}
        if not parts & {"train", "test"}:
            paths, y, labels = self._labelled(top)
            if np.bincount(y).min() < 2:
                label = labels[int(np.bincount(y).argmin())]
                raise UserError(f"{self.name}: label {label!r} needs two images, one to test on")
            if math.ceil(len(y) / 5) < len(labels):
                raise UserError(
                    f"{self.name}: a fifth of the {len(y)} images is held out for tests, which is less "
                    f"than one for each of {len(labels)} labels; add images, or train/ and test/"
                )
            test = stratified_fifth(y, seed)
        elif parts == {"train", "test"}:
            paths, y, labels = self._labelled(top / "train")
            more, test_y, also = self._labelled(top / "test")
            if set(also) - set(labels):
                strange = sorted(set(also) - set(labels))[0]
                raise unknown(f"label in {top / 'test'}:", strange, labels)
            test = np.arange(len(paths) + len(more)) >= len(paths)
            paths += more
            y = np.concatenate([y, np.array([labels.index(label) for label in also])[test_y]])
        else:
            raise UserError(
                f"{self.name}: needs both train/ and test/, each with one folder a label, or one "
                f"folder a label and neither; it has {', '.join(sorted(parts))}"
            )
        if len(labels) < 2:
            raise UserError(f"{self.name}: two labels at least, but there is only {labels[0]!r}")
        x = self._read(paths)
        return Pixels(x[~test], y[~test], x[test], y[test]).standardised(len(labels))

    def _labelled(self, folder: Path) -> tuple[list[Path], Array, list[str]]:
        """Image files, the place of each one's label in the list of labels, and that list."""
        from PIL import Image

        formats = [e for e, kind in Image.registered_extensions().items() if kind in _formats()]
        paths: list[Path] = []
        y: list[int] = []
        labels: list[str] = []
        for place in _folders(folder):
            images = sorted(
                path
                for path in place.iterdir()
                if path.suffix.lower() in formats and path.name[0] != "."
            )
            if not images:
                raise UserError(f"{self.name}: {place} holds no image")
            paths += images
            y += [len(labels)] * len(images)
            labels.append(place.name)
        if not labels:
            raise UserError(
                f"{self.name}: {folder} holds no folder; images go in one folder a label"
            )
        return paths, np.array(y), labels

    def _read(self, paths: list[Path]) -> Array:
        """(n, channels, height, width) uint8."""
        from PIL import Image

        images: list[Array] = []
        for path in paths:
            try:
                with Image.open(plain(path, "image"), formats=_formats()) as image:
                    grey = image.mode in ("1", "L", "LA")
                    if image.mode in ("I", "F") or image.mode.startswith("I;"):
                        raise ValueError(f"it has more than 8 bits a channel ({image.mode})")
                    pixels = np.asarray(image.convert("L" if grey else "RGB"))
            except UserError:
                raise
            except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
                raise UserError(f"{self.name}: cannot read the image {path}: {error}") from None
            if images and pixels.shape[:2] != images[0].shape[:2]:
                (h, w), (first_h, first_w) = pixels.shape[:2], images[0].shape[:2]
                raise UserError(
                    f"{self.name}: images must be of one size, but {path} is {w}x{h} and "
                    f"{paths[0]} is {first_w}x{first_h}"
                )
            images.append(pixels)
        channels = 3 if any(pixels.ndim == 3 for pixels in images) else 1
        x = np.empty((len(images), channels, *images[0].shape[:2]), np.uint8)
        for i, pixels in enumerate(images):
            x[i] = pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels
        return x


@cache
def _formats() -> list[str]:
    """The formats of images that are read: Pillow's, but PostScript, a program that another program runs."""
    from PIL import Image

    Image.init()
    return sorted(set(Image.OPEN) - {"EPS"})


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
