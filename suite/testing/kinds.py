"""What a file of one's own defines, and which check each kind has."""

from collections.abc import Callable
from typing import Any

from suite.testing.algorithms import CheckFinding, attempt
from suite.testing.models import check_model, makes_a_model
from suite.testing.parts import check_dataset, check_partition
from trials.algorithms import ALGORITHMS
from trials.common import names
from trials.common.errors import UserError
from trials.common.registry import Registry
from trials.datasets import DATASETS
from trials.heterogeneity import MODIFIERS, PARTITIONS

ALGORITHM, MODEL = "algorithm", "model"
REGISTRIES: dict[str, Registry[Any]] = {
    ALGORITHM: ALGORITHMS,
    "data set": DATASETS,
    "partition": PARTITIONS,
    "modifier": MODIFIERS,
}
CHECKS: dict[str, Callable[..., str]] = {
    "data set": check_dataset,
    "partition": check_partition,
    "modifier": lambda name: check_partition(f"iid+{name}"),
    MODEL: check_model,
}
"""Algorithms have several checks (`suite.testing.algorithms`)."""


def defined(file: str) -> list[tuple[str, str]]:
    """Return the kind and the name of each class that a file defines; raises `UserError` for none."""
    classes = []
    for kind, registry in REGISTRIES.items():
        classes += [(kind, f"{file}:{name}") for name in registry.defined(file)]
    if not classes:
        model = f"a model is named with what makes it, as in {file}:make"
        raise UserError(f"{file} has no {', '.join(REGISTRIES)}; {model}")
    return classes


def kind_of(name: str) -> str:
    """Return the kind of a name with its arguments; an algorithm where it is none."""
    bare, _ = names.split(name)
    path, _, class_name = bare.rpartition(":")
    for kind, registry in REGISTRIES.items():
        there = registry.defined(path, class_name) if path.endswith(".py") else registry
        if class_name in there:
            return kind
    return MODEL if makes_a_model(name) else ALGORITHM


def finding(kind: str, name: str, dataset: str | None = None) -> CheckFinding:
    """Return what the check of a kind finds of a name; of a model, on a data set. Raises `UserError` for a data set that
    is given for anything else.
    """
    if dataset is not None and kind != MODEL:
        raise UserError(f"--dataset {dataset}: is for a model only, and {name} is {kind}")
    words = (name,) if dataset is None else (name, dataset)
    ok, detail = attempt(lambda: CHECKS[kind](*words))
    return CheckFinding("", f"{kind} {name.rpartition(':')[2]}", ok, detail)
