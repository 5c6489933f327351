"""Data sets: an array of samples, a mask of the test samples and, for natural federations, each sample's owner.

A data set is a frozen dataclass whose fields are the arguments of its name (`synthetic(1,1)`) and whose `load` returns a
`Dataset`. A new one is one class and one entry of `_BUILT_IN`, or one class in a file elsewhere (examples/own_dataset.py).
"""

from trials.common import names
from trials.common.errors import unknown
from trials.common.plugins import named
from trials.common.registry import Registry
from trials.datasets import generated, images, natural, sounds
from trials.datasets.base import Dataset as Dataset
from trials.datasets.base import DatasetFamily as DatasetFamily
from trials.datasets.own import Csv, Function, Given, Npz, Own, Parquet

_BUILT_IN: dict[str, type[DatasetFamily]] = {
    "digits": generated.Digits,
    "synthetic": generated.Synthetic,
    "synthetic_iid": generated.SyntheticIID,
    "feddc_synthetic": generated.FedDCSynthetic,
    "sine": generated.Sine,
    "mnist": images.MNIST,
    "fashion_mnist": images.FashionMNIST,
    "mnist_powerlaw": images.MNISTPowerLaw,
    "mnist01": images.MNIST01,
    "fashion_mnist01": images.FashionMNIST01,
    "emnist_letters": images.EMNISTLetters,
    "emnist_byclass": images.EMNISTByClass,
    "femnist": natural.FEMNIST,
    "femnist10": images.FEMNIST10,
    "cifar10": images.CIFAR10,
    "cifar100": images.CIFAR100,
    "speech_commands": sounds.SpeechCommands,
    "shakespeare": natural.Shakespeare,
    "sent140": natural.Sent140,
    "mnist_writers": natural.MNISTWriters,
    "hapt": natural.HAPT,
    "fsdd": sounds.FSDD,
    "wisdm": natural.WISDM,
    "heart_disease": natural.HeartDisease,
    "adult": natural.Adult,
    "news20": natural.News20,
    "shakespeare_text": natural.ShakespeareText,
}
DATASETS: Registry[DatasetFamily] = Registry(
    "dataset",
    "suite.datasets",
    DatasetFamily,  # type: ignore[type-abstract]
    _BUILT_IN,
    needs=("load",),
)
PATHS: dict[str, type[Own]] = {"npz": Npz, "csv": Csv, "parquet": Parquet}
"""Classes of users' files by the scheme of their names, as in `npz:PATH`. Users' code is named without a scheme,
`module:function` or `FILE.py:Class(ARGUMENTS)`.
"""


def parse(text: str) -> DatasetFamily:
    """Return the data set that a name stands for; raise `UserError` for an unknown name or a wrong argument."""
    scheme, colon, path = text.partition(":")
    if colon and scheme in PATHS:
        return PATHS[scheme].at(path)
    if colon and scheme == Given.scheme:
        return Given.at(path)
    if named(text):
        return Function.at(text)
    bare = names.split(text)[0]
    # Installed packages are asked, and imported, only for a name that is not built in.
    if bare not in DATASETS and bare not in DATASETS.known():
        forms = [*(f"{scheme}:PATH" for scheme in PATHS), "FILE.py:function"]
        raise unknown("dataset", text, [*DATASETS.known(), *forms])
    return DATASETS.read(text)[1]


def canonical(text: str) -> str:
    """Return the canonical spelling of a data set's name."""
    dataset = parse(text)
    return dataset.name if isinstance(dataset, Own) else names.spell(names.split(text)[0], dataset)


def family(text: str) -> str:
    """Return the name of a data set's family. Data sets from one generator or with the same samples form a family, since
    results on them are dependent. A user's data set forms its own family.
    """
    head = text.split("(")[0].strip()
    return _BUILT_IN[head].family or head if head in _BUILT_IN else text
