"""Data sets, as one array of samples with a test part and, where data are born on clients, owners.

A data set is a frozen dataclass whose fields are the arguments of its name (`synthetic(1,1)`) and
whose `load` returns a `Dataset`. A new one is one class here (or in a file of its own) and one entry
of `DATASETS`.
"""

import os
import tempfile
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from trials import names, randomness
from trials.errors import UserError, unknown

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Task:
    """What is asked of a model: the ranked metric, whether more is better, its worst finite value."""

    metric: str
    direction: Literal["maximize", "minimize"]
    worst: float


CLASSIFICATION = Task("accuracy", "maximize", 0.0)


@dataclass(frozen=True)
class Dataset:
    """N samples: `x` (N, *shape) float32, `y` (N,) int64 below `classes`, `test` (N,) bool.

    `client` (N,) names the owner of each sample where data are born on clients, else it is None.
    """

    task: ClassVar[Task] = CLASSIFICATION

    x: Array
    y: Array
    test: Array
    classes: int
    client: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample: (features,) or (channels, height, width)."""
        return tuple(self.x.shape[1:])


class DatasetFamily(Protocol):
    """What an entry of `DATASETS` is."""

    summary: ClassVar[str]

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Build the data set. `seed` and `clients` matter to generated ones, `root` to files."""
        ...


@dataclass(frozen=True)
class Digits:
    """1,797 handwritten digits, 8x8, bundled with scikit-learn; pixels / 16; a fifth is test.

    There is no official test split: `seed` draws it, stratified by label.
    """

    summary: ClassVar[str] = (
        "handwritten digits 8x8 bundled with scikit-learn (offline), 10 classes"
    )

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """See the class."""
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        x, y = load_digits(return_X_y=True)
        _, held_out = train_test_split(
            np.arange(len(y)), test_size=0.2, stratify=y, random_state=seed
        )
        test = np.zeros(len(y), bool)
        test[held_out] = True
        return Dataset(
            (x / 16).reshape(-1, 1, 8, 8).astype(np.float32), y.astype(np.int64), test, 10
        )


@dataclass(frozen=True)
class Synthetic:
    """Synthetic(alpha, beta) of FedProx (Li et al. 2020); algorithms.md 8.1.

    Device k has floor(LogNormal(4, 2)) + 50 samples of 60 features and 10 classes:
    u_k ~ N(0, alpha), B_k ~ N(0, beta); v_k ~ N(B_k, 1) in R^60; x ~ N(v_k, diag(j^-1.2));
    W_k in R^{60x10}, b_k in R^10 ~ N(u_k, 1); y = argmax(x W_k + b_k). alpha and beta are standard
    deviations, as in the authors' code. A tenth of each device's samples is test.
    """

    summary: ClassVar[str] = "FedProx's Synthetic(alpha,beta): 30 devices, 60 features, 10 classes"
    alpha: float
    beta: float

    def __post_init__(self) -> None:
        if not (0 <= self.alpha < np.inf and 0 <= self.beta < np.inf):
            raise UserError(
                f"synthetic: alpha >= 0 and beta >= 0 must hold, got {self.alpha:g}, {self.beta:g}"
            )

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """See the class; `clients` devices (default 30)."""

        def device(rng: np.random.Generator) -> tuple[Array, Array, Array]:
            u, b_k = rng.normal(0, self.alpha), rng.normal(0, self.beta)
            v = rng.normal(b_k, 1, 60)
            return v, rng.normal(u, 1, (60, 10)), rng.normal(u, 1, 10)

        return _synthetic(seed, clients or 30, device)


@dataclass(frozen=True)
class SyntheticIID:
    """Synthetic_iid of FedProx; algorithms.md 8.2: sizes and x as Synthetic, but one W, b ~ N(0, 1)
    for all devices and v_k = 0.
    """

    summary: ClassVar[str] = "FedProx's Synthetic_iid: one model and one input law for all devices"

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """See the class; `clients` devices (default 30)."""
        rng = randomness.generator("synthetic_iid", seed)
        w, b = rng.normal(0, 1, (60, 10)), rng.normal(0, 1, 10)
        return _synthetic(seed, clients or 30, lambda _: (np.zeros(60), w, b))


def _synthetic(seed: int, devices: int, device: Any) -> Dataset:
    sizes = randomness.generator("synthetic_sizes", seed).lognormal(4, 2, devices).astype(int) + 50
    scale = np.arange(1, 61) ** -0.6
    parts = []
    for k, size in enumerate(sizes):
        rng = randomness.generator("synthetic", seed, k)
        v, w, b = device(rng)
        x = rng.normal(v, scale, (size, 60))
        test = rng.permutation(size) < size // 10
        parts.append((x, np.argmax(x @ w + b, axis=1), test, np.full(size, k)))
    x, y, test, client = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Dataset(x.astype(np.float32), y.astype(np.int64), test, 10, client)


@dataclass(frozen=True)
class MNIST:
    """MNIST (LeCun et al. 1998) through torchvision: 60,000 / 10,000 images 28x28, standardised by
    the training set's mean 0.1307 and deviation 0.3081.
    """

    summary: ClassVar[str] = "MNIST 28x28 through torchvision, 10 classes"
    archive: ClassVar[str] = "MNIST"
    mean: ClassVar[float] = 0.1307
    deviation: ClassVar[float] = 0.3081

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """See the class; files under `root` (or SUITE_DATA), downloaded when absent."""
        train, test = (_torchvision(self.archive, part, root) for part in (True, False))
        pixels = np.concatenate([train.data.numpy(), test.data.numpy()])
        x = (pixels.astype(np.float32) / 255 - self.mean) / self.deviation
        y = np.concatenate([train.targets.numpy(), test.targets.numpy()])
        return Dataset(
            x[:, None].astype(np.float32), y.astype(np.int64), np.arange(len(y)) >= len(train), 10
        )


@dataclass(frozen=True)
class FashionMNIST(MNIST):
    """Fashion-MNIST (Xiao et al. 2017): the same layout, mean 0.2860, deviation 0.3530."""

    summary: ClassVar[str] = "Fashion-MNIST 28x28 through torchvision, 10 classes"
    archive: ClassVar[str] = "FashionMNIST"
    mean: ClassVar[float] = 0.2860
    deviation: ClassVar[float] = 0.3530


def data_root(root: str | None) -> Path:
    """Where data files are: the argument, else SUITE_DATA, else a folder in the user's cache."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "suite-fl" / "data"
    return Path(root or os.environ.get("SUITE_DATA") or default).expanduser()


def _torchvision(archive: str, train: bool, root: str | None) -> Any:
    """A torchvision data set from unpacked files, from its archives, or from the internet.

    Archives that lie in the root are checked and unpacked in a temporary folder, never in the root.
    """
    from trials.vision import torchvision

    cls = getattr(torchvision.datasets, archive)
    folder = data_root(root)
    raw = folder / archive / "raw"
    files = [Path(name) for name, _ in cls.resources]
    try:
        if all((raw / f.stem).exists() for f in files):
            return cls(folder, train=train, download=False)
        if all((raw / f).exists() for f in files):
            with tempfile.TemporaryDirectory() as scratch:
                target = Path(scratch) / archive / "raw"
                target.mkdir(parents=True)
                for f in files:
                    (target / f).symlink_to((raw / f).resolve())
                return cls(scratch, train=train, download=True)
        return cls(folder, train=train, download=True)
    except (OSError, RuntimeError, HTTPException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"{archive} is not in {folder} and could not be downloaded ({reason}).\n"
            f"Put {', '.join(map(str, files))} into {raw}/,\n"
            f"or name the folder that holds {archive}/raw with --data-root or SUITE_DATA."
        ) from None


@dataclass(frozen=True)
class Npz:
    """A user's own data: `npz:PATH` with x_train, y_train, x_test, y_test and, for `natural`,
    client_train (an integer per training sample). Values are used as they are, as float32.
    """

    summary: ClassVar[str] = (
        "your own data: arrays x_train, y_train, x_test, y_test [, client_train]"
    )
    path: str

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """See the class. Raises `UserError` naming the array that is missing or does not fit."""
        arrays = self._read()
        missing = {"x_train", "y_train", "x_test", "y_test"} - set(arrays)
        if missing:
            raise UserError(
                f"npz:{self.path} lacks {', '.join(sorted(missing))}; it has {', '.join(arrays) or 'nothing'}"
            )
        for name, array in arrays.items():
            self._check(name, array)
        owners = arrays.get("client_train")
        for a, b in (("x_train", "y_train"), ("x_test", "y_test"), ("x_train", "client_train")):
            if b in arrays and len(arrays[a]) != len(arrays[b]):
                raise UserError(
                    f"npz:{self.path}: {a} has {len(arrays[a])} rows, but {b} has {len(arrays[b])}"
                )
        if arrays["x_train"].shape[1:] != arrays["x_test"].shape[1:]:
            raise UserError(
                f"npz:{self.path}: a sample of x_train has shape {arrays['x_train'].shape[1:]}, "
                f"one of x_test {arrays['x_test'].shape[1:]}"
            )
        x = np.concatenate([arrays["x_train"], arrays["x_test"]]).astype(np.float32)
        y = np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(np.int64)
        test = np.arange(len(y)) >= len(arrays["y_train"])
        client = None
        if owners is not None:
            _, index = np.unique(owners, return_inverse=True)
            client = np.concatenate([index, np.full(int(test.sum()), -1)])
        return Dataset(x, y, test, int(y.max()) + 1, client)

    def _read(self) -> dict[str, Array]:
        try:
            file = np.load(self.path, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise ValueError("it holds one array without a name (.npy), not an .npz archive")
            with file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, BadZipFile) as error:
            raise UserError(f"cannot read data set npz:{self.path}: {error}") from None
        columns = [
            k for k, v in arrays.items() if k[:2] != "x_" and v.ndim == 2 and v.shape[1] == 1
        ]
        return arrays | {name: arrays[name][:, 0] for name in columns}

    def _check(self, name: str, array: Array) -> None:
        """Samples are finite numbers (n, ...), labels 0, 1, ... (n,), owners whole numbers (n,)."""
        samples = name.startswith("x_")
        fits = array.dtype.kind in "iufb" and (array.ndim > 1 if samples else array.ndim == 1)
        if not fits or not len(array) or not np.isfinite(array).all():
            form = "(samples, ...)" if samples else "(samples,)"
            raise UserError(
                f"npz:{self.path}: {name} must be finite numbers of shape {form}, "
                f"but is {array.dtype} of shape {array.shape}"
            )
        if not samples and (
            (array != np.floor(array)).any() or (name[0] == "y" and array.min() < 0)
        ):
            raise UserError(
                f"npz:{self.path}: {name} must be whole numbers; labels count 0, 1, ..."
            )


DATASETS: dict[str, type[DatasetFamily]] = {
    "digits": Digits,
    "synthetic": Synthetic,
    "synthetic_iid": SyntheticIID,
    "mnist": MNIST,
    "fashion_mnist": FashionMNIST,
}
PATHS: dict[str, type[Npz]] = {"npz": Npz}
"""Data sets named by a path, `npz:PATH`."""


def parse(text: str) -> DatasetFamily:
    """The data set a name stands for; raises `UserError` on an unknown name or a bad argument."""
    scheme, colon, path = text.partition(":")
    if colon and scheme in PATHS:
        return PATHS[scheme](str(Path(path).expanduser().resolve()))
    if text.split("(")[0].strip() not in DATASETS:
        raise unknown("dataset", text, [*DATASETS, *(f"{scheme}:PATH" for scheme in PATHS)])
    dataset: DatasetFamily = names.parse("dataset", text, DATASETS)
    return dataset


def canonical(text: str) -> str:
    """The canonical spelling of a data set's name."""
    dataset = parse(text)
    if isinstance(dataset, Npz):
        return f"npz:{dataset.path}"
    return names.spell(text.split("(")[0].strip(), dataset)
