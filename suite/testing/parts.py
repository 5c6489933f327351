"""Checks of the contracts of data sets, heterogeneity levels and models, and of every class that a user's file defines.

A check returns a text with what it measured, or raises `WrongError` or `UserError` with what is wrong.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from suite.testing.algorithms import (
    SETTINGS,
    CheckFinding,
    WrongError,
    check_algorithm,
    checks,
    demand,
)
from trials import datasets, heterogeneity
from trials.algorithms import ALGORITHMS
from trials.common import names
from trials.common.errors import UserError
from trials.common.plugins import named
from trials.common.registry import Registry
from trials.common.tensors import nn
from trials.datasets.base import Dataset
from trials.datasets.own import broken_rules
from trials.federated_data import partition
from trials.models.base import Model
from trials.models.own import OwnModel
from trials.settings import Settings

LABELS, SAMPLES = 10, 2000
"""The numbers of labels and of samples with which a heterogeneity level is checked."""


def check_dataset(name: str, root: str | None = None) -> str:
    """Check that a data set keeps the rules of `Dataset` and that a second load gives equal data. Return a summary as text."""
    family, spelled = datasets.parse(name), datasets.canonical(name)
    again = datasets.canonical(spelled)
    demand(again == spelled, f"{spelled} is read as {again}: are its fields its arguments?")
    first, second = family.load(0, None, root), family.load(0, None, root)
    for rule in broken_rules(first):
        raise WrongError(rule)
    task = first.task.metric
    demand(first.task == family.task, f"is a {task} task, and its class says {family.task.metric}")
    for part in ("y", "test", "client", "x"):
        equal = np.array_equal(getattr(first, part), getattr(second, part))  # None is None
        demand(equal, f"{part} differs when it is loaded again with the same seed")
    owners = () if first.client is None else np.unique(first.client[~first.test])
    born = f", born on {len(owners)} clients" if len(owners) else ""
    return f"{len(first.y):,} samples of shape {first.shape}, {first.test.sum():,} to test{born}"


def check_partition(text: str, clients: Sequence[int] = (5, 12)) -> str:
    """Check a heterogeneity level, such as `iid+dropout(0.1)`, with each number of `clients`. Every client must get samples,
    and equal seeds must give equal results. Return the numbers of clients as text.
    """
    level = heterogeneity.parse(text)
    again = heterogeneity.parse(level.name).name
    demand(again == level.name, f"{level.name} is read as {again}: are its fields its arguments?")
    y, x = np.random.default_rng(0).integers(0, LABELS, SAMPLES), np.zeros((SAMPLES, 1), np.float32)
    for n in clients:
        dataset = Dataset(x, y, np.zeros(SAMPLES, bool), LABELS, client=np.arange(SAMPLES) % n)
        settings = Settings(clients=n, val_fraction=0)
        first, second = partition(dataset, level, settings), partition(dataset, level, settings)
        parts = first.clients + len(first.unseen_offsets) - 1
        demand(parts == n, f"{n} clients get {parts} parts: one array each")
        ids = np.concatenate([first.train, first.unseen_train])
        once = level.partition.overlap or len(np.unique(ids)) == len(ids)
        demand(once, "a sample is given twice: say `overlap = True` where that is meant")
        equal = first.fingerprint == second.fingerprint
        demand(equal, "equal generators give other parts: draw all random numbers from `rng`")
        everyone = np.arange(n)
        for number in range(3):
            budget = np.full(n, 5), np.full(n, 4), everyone, number, 0
            steps, heard = level.local_steps(*budget), level.answering(everyone, number, 0)
            equal = np.array_equal(steps, level.local_steps(*budget))
            equal &= np.array_equal(heard, level.answering(everyone, number, 0))
            rule = "a modifier gives other values in a second call: use trials.common.randomness"
            demand(equal, rule)
            counts = steps.shape == (n,) and steps.dtype.kind in "iu" and steps.min() >= 1
            demand(counts, "local_steps must give each client a whole number of steps, at least 1")
            some = len(heard) > 0 and set(heard) <= set(everyone)
            demand(some, "answering must return at least one of the clients in its argument")
    return f"{', '.join(map(str, clients))} clients"


def check_model(text: str, dataset: str = "digits") -> str:
    """Check a user's model `FILE.py:function` in short runs of FedAvg on a data set. Return its number of weights as text."""
    model, data = OwnModel.at(text), datasets.parse(dataset).load(0, None, None)
    fitted = Model(model, data.shape, data.classes)
    check_algorithm("fedavg", models=(model.name,), dataset=dataset, level="iid")
    return f"right, {fitted.d:,} weights, {fitted.network.note}"


CHECKS: dict[str, tuple[Registry[Any], Callable[..., Any]]] = {
    "algorithm": (ALGORITHMS, check_algorithm),
    "data set": (datasets.DATASETS, check_dataset),
    "partition": (heterogeneity.PARTITIONS, check_partition),
    "modifier": (heterogeneity.MODIFIERS, lambda name: check_partition(f"iid+{name}")),
}
"""By kind, the registry of its classes and their check. Models are not among them, since they may be functions."""


def findings(
    name: str, values: Mapping[str, Any], dataset: str | None, **how: Any
) -> Iterator[CheckFinding]:
    """Check the class or model `name`, or all classes in the file `name`, and yield each finding. An algorithm gets
    hyperparameters and settings (`values`) and options such as `reduces_to` (`how`). Only a model gets `dataset`; raise
    `UserError` if it is given for anything else.
    """
    for kind, each in _named(name):
        title = f"{kind} {each.rpartition(':')[2]}"
        if kind == "model":
            yield CheckFinding.of("", title, partial(check_model, each, dataset or "digits"))
        elif dataset is not None:
            raise UserError(
                f"--dataset {dataset}: is only for a model, and {each} is of kind {kind}"
            )
        elif kind == "algorithm":
            params, settings = dict(values), {**SETTINGS}
            for key in values.keys() & Settings.model_fields:
                settings[key] = params.pop(key)
            yield from checks(each, params, settings=settings, **how)
        else:
            yield CheckFinding.of("", title, partial(CHECKS[kind][1], each))


def _named(name: str) -> list[tuple[str, str]]:
    """Return the kind and the name of each class in the file `name`, or of the class or model `name`. An unknown name has the
    kind "algorithm". Raise `UserError` for a file without classes to check.
    """
    if name.endswith(".py"):
        classes = []
        for kind, (registry, _) in CHECKS.items():
            classes += [(kind, f"{name}:{each}") for each in registry.defined(name)]
        if not classes:
            model = f"a model needs the name of the function that makes it, as in {name}:make"
            raise UserError(f"{name} has no {', '.join(CHECKS)}; {model}")
        return classes
    file, _, class_name = names.split(name)[0].rpartition(":")
    for kind, (registry, _) in CHECKS.items():
        if class_name in (registry.defined(file) if file.endswith(".py") else registry):
            return [(kind, name)]
    if named(name):
        # Code that cannot be loaded is taken for an algorithm, the most probable kind, whose check reports the error.
        with suppress(UserError):
            function = OwnModel.at(name).function()
            if not isinstance(function, type) or issubclass(function, nn.Module):
                return [("model", name)]
    return [("algorithm", name)]
