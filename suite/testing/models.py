"""What every model of others owes: it computes what it says, whatever computes it."""

from contextlib import suppress
from functools import partial

import numpy as np

from suite.testing.algorithms import check_algorithm
from suite.testing.comparing import demand
from trials import datasets
from trials.common.errors import UserError
from trials.common.plugins import named, tried
from trials.common.tensors import Tensor, nn, torch
from trials.datasets.base import OnDemand
from trials.models.base import Model
from trials.models.network import EVALUATION, STEP, Network, seeded
from trials.models.own import TORCHVISION, OwnModel, close, numbers, slopes

SAMPLES = 16
"""Samples of a data set that a model is compared on."""
MODES = {EVALUATION: "evaluation mode", STEP: "training mode"}


def makes_a_model(text: str) -> bool:
    """Return whether a name is that of a function or of a module's class that makes a model."""
    if text.startswith(TORCHVISION) or not named(text):
        return text.startswith(TORCHVISION)
    with suppress(UserError):
        makes = OwnModel.at(text).function()
        return not isinstance(makes, type) or issubclass(makes, nn.Module)
    return False


def check_model(text: str, dataset: str = "digits") -> str:
    """Return how a model of others is computed, by its name `FILE.py:function`; raises `WrongError` or `UserError` with
    what is wrong with it, on a data set: by itself, beside what PyTorch computes of it, then by two rounds of FedAvg.
    """
    model, data = OwnModel.at(text), datasets.parse(dataset).load(0, None, None)
    fitted = Model(model, data.shape, data.classes)
    ids = np.arange(min(SAMPLES, len(data.y)))
    x = data.x.take(ids) if isinstance(data.x, OnDemand) else data.x[ids]
    check_module(fitted.network, torch.from_numpy(np.array(x, np.float32)))
    check_algorithm("fedavg", models=(model.name,), dataset=dataset, level="iid")
    return f"right, {fitted.d:,} weights, {fitted.network.note}"


def check_module(network: Network, x: Tensor) -> None:
    """Raise `WrongError` where a module of others is no function of weights, samples and PyTorch's random numbers, or
    where it is computed otherwise than PyTorch does: outputs and gradients, in training and evaluation mode.
    """
    assert network.make is not None
    first, second = network.make(0), network.make(0)
    drawn_again = second.state_dict()
    for key, value in first.state_dict().items():
        drawn = "made with the same torch.manual_seed: draw initial weights by torch alone"
        demand(torch.equal(value, drawn_again[key]), f"{key} differs between two modules {drawn}")
    x = x.to(next(iter(network.trained.values())).dtype)
    kept = {name: value.clone() for name, value in network.constants(x).items()}
    for purpose, mode in MODES.items():
        once, again = (numbers(network, x, purpose) for _ in range(2))
        demand(
            all(map(_equal, once, again)),
            f"it gives other outputs for the same weights, samples and torch.manual_seed in {mode}: it keeps "
            "state outside its parameters, or draws random numbers elsewhere than from torch",
        )
        taken = x.clone()
        right = tried(mode, partial(_untouched, first, taken, purpose == STEP, network.frozen))
        demand(torch.equal(taken, x), "it changes its input in place: work on a copy of it")
        equal = all(map(close, once, right))
        wrong = "called with given weights it has other outputs or gradients than by itself"
        demand(equal, f"{wrong}, in {mode}")
    for name, value in network.constants(x).items():
        rule = f"it changes its buffer {name} in a forward pass: only BatchNorm may"
        demand(_equal(value, kept[name]), rule)
    weights = {name: p.detach() for name, p in network.trained.items()}
    outputs = network({**network.constants(x), **network.tracked, **weights}, x)
    demand(
        not outputs.requires_grad,
        "it trains tensors that are not its parameters: keep layers in attributes or nn.ModuleList, tensors in "
        "nn.Parameter",
    )


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


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
