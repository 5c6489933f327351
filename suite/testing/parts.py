"""What every data set, heterogeneity level and model owes, and what a file of one's own defines.

Each check returns what it saw, in words, and raises `WrongError` or `UserError` with what is wrong.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from suite.testing.algorithms import CheckFinding, WrongError, attempt, check_algorithm, demand
from trials import datasets, heterogeneity
from trials.algorithms import ALGORITHMS
from trials.common import names
from trials.common.errors import UserError
from trials.common.plugins import named, tried
from trials.common.registry import Registry
from trials.common.tensors import Tensor, nn, torch
from trials.datasets.own import broken_rules
from trials.models.base import Model
from trials.models.network import EVALUATION, STEP, Network, seeded
from trials.models.own import TORCHVISION, OwnModel, close, numbers, slopes

ALGORITHM, MODEL = "algorithm", "model"
LABELS, SAMPLES = 10, 2000
"""Of the labels that a level is checked on."""
MODEL_SAMPLES = 16
"""Samples of a data set that a model is compared on."""


def check_dataset(name: str, root: str | None = None) -> str:
    """Check that what a data set loads is what `Dataset` promises, and the same again."""
    family, spelled = datasets.parse(name), datasets.canonical(name)
    again = datasets.canonical(spelled)
    demand(again == spelled, f"{spelled} is read as {again}: are its fields its arguments?")
    first, second = (family.load(0, None, root) for _ in range(2))
    for rule in broken_rules(first):
        raise WrongError(rule)
    task = first.task.metric
    demand(first.task == family.task, f"is a {task} task, and its class says {family.task.metric}")
    for part in ("y", "test", "client", "x"):
        once, twice = getattr(first, part), getattr(second, part)
        demand(_equal(once, twice), f"{part} differs when it is loaded again with the same seed")
    owners = () if first.client is None else np.unique(first.client[~first.test])
    born = f", born on {len(owners)} clients" if len(owners) else ""
    tests = int(first.test.sum())
    return f"{len(first.y):,} samples of shape {first.shape}, {tests:,} to test{born}"


def _equal(a: Any, b: Any) -> bool:
    return (a is None and b is None) or np.array_equal(a, b)


def check_partition(text: str, clients: Sequence[int] = (5, 12)) -> str:
    """Check that a level, a partition with or without modifiers, gives every client samples of its own, and the same ones
    when it is asked again.
    """
    level = heterogeneity.parse(text)
    again = heterogeneity.parse(level.name).name
    demand(again == level.name, f"{level.name} is read as {again}: are its fields its arguments?")
    partition, y = level.partition, np.random.default_rng(0).integers(0, LABELS, SAMPLES)
    for n in clients:
        owner, before = np.arange(SAMPLES) % n, y.copy()
        parts, second = (partition.assign(y, n, owner, np.random.default_rng(1)) for _ in range(2))
        demand(np.array_equal(y, before), "assign changes the labels that it is given")
        whole = len(parts) == n and all(len(ids) for ids in parts)
        demand(whole, f"{n} clients get {len(parts)} parts: one array each, none empty")
        ids = np.concatenate(parts)
        indices = ids.dtype.kind in "iu" and 0 <= ids.min() <= ids.max() < SAMPLES
        demand(indices, f"assign gives {ids.dtype}, not indices into the labels")
        once = partition.overlap or len(np.unique(ids)) == len(ids)
        demand(once, "a sample is given twice: say `overlap = True` where that is meant")
        equal = all(map(_equal, parts, second))
        demand(equal, "equal generators give other parts: what is random is drawn from `rng` alone")
        _check_modifiers(level, n)
    try:
        partition.assign(y[:2], 5, np.arange(2), np.random.default_rng(1))
    except UserError:
        pass  # as it should be
    except Exception as error:
        rule = f"two samples for five clients: raise a UserError, not {error!r}"
        raise WrongError(rule) from error
    skew = partition.skew(LABELS)
    demand(skew is None or 0 <= skew <= 1, f"skew is {skew}, and a total variation is from 0 to 1")
    seen = "of the data" if skew is None else f"{skew:.2f}"
    return f"{', '.join(map(str, clients))} clients, skew {seen}"


def _check_modifiers(level: heterogeneity.Heterogeneity, n: int) -> None:
    """Raise `WrongError` where what a level says of n devices makes no sense, or is otherwise when asked again."""
    everyone, rule = np.arange(n), "use trials.common.randomness, or the generator that is given"
    unseen, *again = [level.unseen(n, np.random.default_rng(1)) for _ in range(2)]
    demand(_equal(unseen, *again), f"unseen gives others when asked again: {rule}")
    some = set(unseen.tolist()) < set(range(n))
    demand(some, "unseen gives some of the clients, not all")
    for number in range(3):
        steps, *again = [
            level.local_steps(np.full(n, 5), np.full(n, 4), everyone, number, 0) for _ in range(2)
        ]
        answers, *answered = [level.answering(everyone, number, 0) for _ in range(2)]
        same = _equal(steps, *again) and _equal(answers, *answered)
        demand(same, f"a modifier draws otherwise when asked again: {rule}")
        counts = steps.shape == (n,) and steps.dtype.kind in "iu" and steps.min() >= 1
        demand(counts, "local_steps gives each client a whole number of steps, at least 1")
        heard = len(answers) > 0 and set(answers) <= set(everyone)
        demand(heard, "answering gives some of the clients that it is given, at least one")


def check_model(text: str, dataset: str = "digits") -> str:
    """Check a model of others by its name `FILE.py:function`, on a data set: by itself, beside what PyTorch computes of it,
    then by two rounds of FedAvg. Return how it is computed.
    """
    model, data = OwnModel.at(text), datasets.parse(dataset).load(0, None, None)
    fitted = Model(model, data.shape, data.classes)
    ids = np.arange(min(MODEL_SAMPLES, len(data.y)))
    check_module(fitted.network, torch.from_numpy(data.x[ids]))
    check_algorithm("fedavg", models=(model.name,), dataset=dataset, level="iid")
    return f"right, {fitted.d:,} weights, {fitted.network.note}"


def check_module(network: Network, x: Tensor) -> None:
    """Raise `WrongError` where a module of others is no function of weights, samples and PyTorch's random numbers, or
    where it is computed otherwise than PyTorch does: outputs and gradients, in training and evaluation mode.
    """
    assert network.make is not None
    first, other = network.make(0), network.make(0).state_dict()
    for key, value in first.state_dict().items():
        drawn = "made with the same torch.manual_seed: draw initial weights by torch alone"
        demand(torch.equal(value, other[key]), f"{key} differs between two modules {drawn}")
    x = x.to(next(iter(network.trained.values())).dtype)
    kept = {name: value.clone() for name, value in network.constants(x).items()}
    for purpose, mode in ((EVALUATION, "evaluation mode"), (STEP, "training mode")):
        once, again = (numbers(network, x, purpose) for _ in range(2))
        demand(
            all(map(_same, once, again)),
            f"it gives other outputs for the same weights, samples and torch.manual_seed in {mode}: it keeps "
            "state outside its parameters, or draws random numbers elsewhere than from torch",
        )
        taken = x.clone()
        right = tried(mode, partial(_untouched, first, taken, purpose == STEP, network.frozen))
        demand(torch.equal(taken, x), "it changes its input in place: work on a copy of it")
        wrong = "called with given weights it has other outputs or gradients than by itself"
        demand(all(map(close, once, right)), f"{wrong}, in {mode}")
    for name, value in network.constants(x).items():
        rule = f"it changes its buffer {name} in a forward pass: only BatchNorm may"
        demand(_same(value, kept[name]), rule)
    weights = {name: p.detach() for name, p in network.trained.items()}
    outputs = network({**network.constants(x), **network.tracked, **weights}, x)
    rule = "it trains tensors that are not its parameters: keep layers in attributes, tensors in nn.Parameter"
    demand(not outputs.requires_grad, rule)


def _untouched(module: nn.Module, x: Tensor, training: bool, frozen: bool) -> list[Tensor]:
    """Return outputs and gradients of a module as PyTorch computes them."""
    module.train(training)
    for child in module.modules():
        if frozen and isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            child.eval()
    with seeded(1):
        outputs = module(x)
    parameters = [p for p in module.parameters() if p.requires_grad]
    return [outputs.detach(), *slopes(outputs, parameters)]


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


REGISTRIES: dict[str, Registry[Any]] = {
    ALGORITHM: ALGORITHMS,
    "data set": datasets.DATASETS,
    "partition": heterogeneity.PARTITIONS,
    "modifier": heterogeneity.MODIFIERS,
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
    path, _, class_name = names.split(name)[0].rpartition(":")
    for kind, registry in REGISTRIES.items():
        there = registry.defined(path) if path.endswith(".py") else registry
        if class_name in there:
            return kind
    if name.startswith(TORCHVISION):
        return MODEL
    if named(name):
        with suppress(UserError):
            makes = OwnModel.at(name).function()
            if not isinstance(makes, type) or issubclass(makes, nn.Module):
                return MODEL
    return ALGORITHM


def finding(kind: str, name: str, dataset: str | None = None) -> CheckFinding:
    """Return what the check of a kind finds of a name; of a model, on a data set. Raises `UserError` for a data set that
    is given for anything else.
    """
    if dataset is not None and kind != MODEL:
        raise UserError(f"--dataset {dataset}: is for a model only, and {name} is {kind}")
    words = (name,) if dataset is None else (name, dataset)
    ok, detail = attempt(lambda: CHECKS[kind](*words))
    return CheckFinding("", f"{kind} {name.rpartition(':')[2]}", ok, detail)
