"""Data sets, as one array of samples with a test part and, where data are born on clients, owners.

A data set is a frozen dataclass whose fields are the arguments of its name (`synthetic(1,1)`) and
whose `load` returns a `Dataset`. A new one is one class and one entry of `_OWN`, or one class in a file
elsewhere (examples/own_dataset.py).
"""

from pathlib import Path

from trials.common import names
from trials.common.errors import UserError, unknown
from trials.common.files import look
from trials.common.plugins import named
from trials.common.registry import Registry
from trials.datasets import generated, images, leaf, natural
from trials.datasets.base import Dataset, DatasetFamily, data_root
from trials.datasets.own import Csv, Function, Given, Npz, Own, Parquet
from trials.datasets.published import FileReport
from trials.datasets.speech import SpeechCommands

__all__ = [
    "DATASETS",
    "PATHS",
    "Dataset",
    "DatasetFamily",
    "canonical",
    "family",
    "parse",
    "prepare",
]

_OWN: dict[str, type[DatasetFamily]] = {
    "digits": generated.Digits,
    "synthetic": generated.Synthetic,
    "synthetic_iid": generated.SyntheticIID,
    "feddc_synthetic": generated.FedDCSynthetic,
    "sine": generated.Sine,
    "gaussians": generated.Gaussians,
    "mnist": images.MNIST,
    "fashion_mnist": images.FashionMNIST,
    "mnist_powerlaw": images.MNISTPowerLaw,
    "mnist01": images.MNIST01,
    "fashion_mnist01": images.FashionMNIST01,
    "emnist_letters": images.EMNISTLetters,
    "emnist_byclass": images.EMNISTByClass,
    "femnist": leaf.FEMNIST,
    "femnist10": images.FEMNIST10,
    "cifar10": images.CIFAR10,
    "cifar100": images.CIFAR100,
    "speech_commands": SpeechCommands,
    "shakespeare": leaf.Shakespeare,
    "sent140": leaf.Sent140,
    "sent140_bow": leaf.Sent140BagOfWords,
    "mnist_writers": natural.MNISTWriters,
    "hapt": natural.HAPT,
    "fsdd": natural.FSDD,
    "wisdm": natural.WISDM,
    "heart_disease": natural.HeartDisease,
    "adult": natural.Adult,
    "news20": natural.News20,
    "shakespeare_text": natural.ShakespeareText,
    "mnist_usps": natural.MNISTUSPS,
}
DATASETS: Registry[DatasetFamily] = Registry(
    "dataset",
    "suite.datasets",
    DatasetFamily,  # type: ignore[type-abstract]
    _OWN,
    needs=("load",),
)
PATHS: dict[str, type[Own]] = {"npz": Npz, "csv": Csv, "parquet": Parquet}
"""Data sets named by a path, `npz:PATH`. A function or a class elsewhere is named `module:function` or
`FILE.py:Class(ARGUMENTS)`.
"""


def parse(text: str) -> DatasetFamily:
    """Return the data set a name stands for; raises `UserError` on an unknown name or a bad argument."""
    head, colon, path = text.partition(":")
    scheme = head.split("(")[0].strip()
    if colon and scheme in PATHS:
        return PATHS[scheme].at(path, head)
    if colon and scheme == Given.scheme:
        return Given.at(path, head)
    if named(text):
        return Function.at(text)
    bare, _ = names.split(text)
    if bare not in DATASETS and bare not in DATASETS.known():
        paths = [f"{scheme}:PATH" for scheme in PATHS]
        if look(text.partition("?")[0], "dataset")[1] or Path(bare).suffix:
            forms = ", ".join([*paths, "FILE.py:function"])
            raise UserError(f"unknown dataset {text!r}. Your own data are {forms} (docs/data.md)")
        raise unknown("dataset", text, [*DATASETS.known(), *paths, "module:function"])
    return DATASETS.read(text)[1]


def canonical(text: str) -> str:
    """Return the canonical spelling of a data set's name."""
    dataset = parse(text)
    return dataset.name if isinstance(dataset, Own) else names.spell(names.split(text)[0], dataset)


def family(text: str) -> str:
    """Return the family that a data set belongs to, by its name alone: variants of one generator or of the same samples
    are no independent answers to which method is better. What is not of this project is a family of its own.
    """
    head = text.split("(")[0].strip()
    return _OWN[head].family or head if head in _OWN else text


def prepare(text: str, root: str | None) -> list[FileReport]:
    """Report the files that a data set needs below the data root, and whether each is there and sound.

    Nothing is downloaded and nothing is written; a generated data set needs none. `fetch(root)` of
    what `parse` returns downloads absent files where that can be done.
    """
    return parse(text).files(data_root(root))
