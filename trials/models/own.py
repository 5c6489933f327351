"""Users' networks: any `torch.nn.Module`, computed from a client's flat weights.

`my.py:make` names a function `make(shape, classes)` that returns the module. Its parameters are trained, and all else
is constant, except for BatchNorm's running statistics (`RunningStatistics`). When it is fitted to a shape, tests decide
how it is computed. If clients at once do not give the numbers of each alone, they are computed one by one.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from trials.common import names, plugins
from trials.common.errors import UserError, unknown
from trials.common.files import resolved
from trials.common.tensors import Tensor, nn, torch
from trials.models.base import Architecture
from trials.models.network import EVALUATION, GRADIENT, STEP, Network, seeded

Make = Callable[..., Any]
TORCHVISION = "torchvision:"
TRIED = 4  # samples on which a module is tested: zeros and ones, valid as pixels and as tokens


def located(make: Make) -> str:
    """Return the name of a function that builds a module, such as `mine.py:make`. Raise `UserError` if no file defines the function."""
    place, name = inspect.getmodule(make), getattr(make, "__qualname__", "")
    file = getattr(place, "__file__", None)
    if not file or getattr(place, name, None) is not make or isinstance(make, nn.Module):
        rule = "a class of modules or a function of (shape, classes), defined at the top of a file"
        raise UserError(f"model: must be {rule}, as in mine.py:make; not {name or make!r}")
    return f"{place.__name__ if place and place.__package__ else file}:{name}"


@dataclass(frozen=True)
class OwnModel(Architecture):
    """A user's model by its name: `FILE.py:make(width=32)`, `package.module:make` or `torchvision:NAME`."""

    name: str

    @classmethod
    def at(cls, text: str) -> OwnModel:
        """Return the model that a user names, such as `mine.py:make`, with the file's absolute path. The file is not run."""
        bare, arguments = names.split(text)
        place, _, function = bare.rpartition(":")
        if place.endswith(".py"):
            place = str(resolved(place, "model file"))
        _arguments(text)
        return cls(f"{place}:{function}" + (f"({arguments.strip()})" if arguments else ""))

    def function(self) -> Any:
        """Return the function or class that builds the module. Raise `UserError` if there is none."""
        bare, _ = names.split(self.name)
        if self.name.startswith(TORCHVISION):
            return partial(torchvision_network, bare.removeprefix(TORCHVISION))
        return plugins.function(bare, "model")

    def fitted(self, shape: tuple[int, ...], classes: int, frozen: bool) -> Network:
        return _fitted(self.name, self.function(), shape, classes, frozen)


def _arguments(text: str) -> dict[str, Any]:
    """Return the keyword arguments in a name such as `make(width=32)`. Raise `UserError` unless all values are literals."""
    try:
        call = ast.parse(f"f({names.split(text)[1] or ''})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not all(k.arg for k in call.keywords):
            raise ValueError
        return {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError):
        rule = "arguments are plain values by name, as in make(width=32)"
        raise UserError(f"model {text!r}: {rule}") from None


def torchvision_network(name: str, shape: tuple[int, ...], classes: int, **more: Any) -> nn.Module:
    """Return an untrained classifier of torchvision for images of `shape`. Raise `UserError` if torchvision has no such classifier."""
    from trials.datasets.torchvision_import import torchvision
    from trials.models.torch_modules import ForImages

    classifiers = torchvision.models.list_models(module=torchvision.models)
    if name not in classifiers:
        raise unknown("model of torchvision", name, classifiers)
    if len(shape) != 3 or shape[0] not in (1, 3) or any(key.startswith("weights") for key in more):
        rule = f"is for images (1 or 3, height, width), not {shape}, and weights are not downloaded"
        raise UserError(f"model torchvision:{name} {rule}: load them in my.py:make")
    if name in ("googlenet", "inception_v3"):
        # Their auxiliary outputs would need a loss of their own.
        more = {"aux_logits": False, "init_weights": True, **more}
    return ForImages(name, torchvision.models.get_model(name, num_classes=classes, **more), shape)


def _built(name: str, make: Make, shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
    """Return the module that `make` builds under a seed. Raise `UserError` unless this is a module with trainable float32 parameters."""
    call = partial(make, shape, classes, **_arguments(name))
    with seeded(seed >> 1), torch.device("cpu"):
        module = plugins.tried(f"model {name}({shape}, {classes})", call)
    if not isinstance(module, nn.Module):
        kind = type(module).__name__
        raise UserError(f"model {name} returned {kind}, but must return a torch.nn.Module")
    kinds = {p.dtype for p in module.parameters() if p.requires_grad}
    if kinds != {torch.float32}:
        raise UserError(f"model {name} must have parameters to train, of torch.float32")
    return module


@lru_cache(maxsize=8)
def _fitted(name: str, make: Make, shape: tuple[int, ...], classes: int, frozen: bool) -> Network:
    """Build a user's module, test it on a few samples, and return it as a `Network`. Raise `UserError` if a test fails."""
    build = partial(_built, name, make, shape, classes)
    network, draw = Network(build(0), shape, build, frozen), torch.Generator().manual_seed(0)
    x = torch.randint(0, 2, (TRIED, *shape), generator=draw).float()
    call = partial(numbers, network, x, EVALUATION)
    outputs, *_ = plugins.tried(f"model {name} on samples {tuple(x.shape)}", call)
    if outputs.shape != (len(x), classes):
        size = f"({len(x)}, {classes}) of samples {tuple(x.shape)}"
        raise UserError(f"model {name} must give a tensor {size}, not {tuple(outputs.shape)}")
    if not name.startswith(TORCHVISION):
        plugins.tried(f"model {name}", partial(check_module, network, x, f"model {name}: "))
    # A training step that draws random numbers changes the state of PyTorch's generator.
    with seeded(1), torch.no_grad():
        before = torch.get_rng_state()
        statistics = {name: value.clone() for name, value in network.tracked.items()}
        network({**network.constants(x), **statistics, **network.trained}, x.clone(), STEP)
        network.draws = not torch.equal(torch.get_rng_state(), before)
    network.one_by_one = _by_sample(network, x, EVALUATION)
    network.why_alone = _why_alone(network, x)
    alone = f"one client after the other: {network.why_alone}"
    network.note = alone if network.why_alone else "clients at once, by torch.func.vmap"
    if classes > 1 and close(outputs.sum(1), torch.ones(len(x))) and (outputs >= 0).all():
        network.note += "; its outputs look like probabilities, but a loss takes logits: no softmax"
    return network


def numbers(network: Network, x: Tensor, purpose: str, **tensors: Tensor) -> list[Tensor]:
    """Return a network's outputs for `x`, and gradients of a loss on them. `purpose` is "step", "gradient" or "evaluation"; `tensors` replaces weights."""
    trained = {name: tensors.get(name, p) for name, p in network.trained.items()}
    leaves = {name: p.detach().clone().requires_grad_() for name, p in trained.items()}
    statistics = {name: value.clone() for name, value in network.tracked.items()}
    with seeded(1):
        outputs = network({**network.constants(x), **statistics, **leaves}, x.clone(), purpose)
    if not isinstance(outputs, torch.Tensor):
        raise TypeError(f"a model must give a tensor, not {type(outputs).__name__}")
    return [outputs.detach(), *slopes(outputs, list(leaves.values()))]


def slopes(outputs: Tensor, parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return a loss's gradients with respect to `parameters`. The loss needs no labels: it sums the samples' mean squared outputs."""
    loss = outputs.double().square().mean(-1).sum()
    return torch.autograd.grad(loss, parameters, materialize_grads=True)


def _by_sample(network: Network, x: Tensor, purpose: str) -> bool:
    """Return whether a sample's outputs are independent of the other samples in its batch."""
    outputs, part = numbers(network, x, purpose)[0], numbers(network, x[:2], purpose)[0]
    return close(part, outputs[:2])


def _why_alone(network: Network, x: Tensor) -> str:
    """Return why clients must be computed one by one, or "" if clients computed together get the same numbers."""
    if network.draws:
        return "it draws random numbers in training, such as dropout's"
    if not _by_sample(network, x, GRADIENT):
        return "a sample's outputs depend on its batch, as with BatchNorm"
    other = {name: 1.01 * p.detach() for name, p in network.trained.items()}
    alone = [numbers(network, x, GRADIENT), numbers(network, x.flip(0), GRADIENT, **other)]
    both = {name: torch.stack([p.detach(), other[name]]) for name, p in network.trained.items()}
    try:
        with plugins.contained():
            at_once = numbers(network, torch.stack([x, x.flip(0)]), GRADIENT, **both)
    except Exception as error:
        return f"torch.func.vmap cannot: {str(error).split('. ')[0].strip()}"
    expected = map(torch.stack, zip(*alone, strict=True))
    return "" if all(map(close, at_once, expected)) else "torch.func.vmap gives other numbers"


def check_module(network: Network, x: Tensor, where: str = "") -> None:
    """Raise `UserError` if a user's module breaks a rule. Its outputs may depend only on weights, samples and PyTorch's
    random numbers. `network`, which wraps the module, must give the same outputs and gradients as the module by itself.
    """

    def demand(holds: bool, problem: str) -> None:
        if not holds:
            raise UserError(where + problem)

    assert network.make is not None
    first, twin = network.make(0), network.make(0)
    tensors = [*first.named_parameters(), *first.named_buffers()]
    before = {key: value.clone() for key, value in tensors}
    for key, value in [*twin.named_parameters(), *twin.named_buffers()]:
        rule = "made with the same torch.manual_seed: draw initial weights by torch alone"
        demand(torch.equal(value, before[key]), f"{key} differs between two modules {rule}")
    taken = x.clone()
    pytorchs(twin, taken, training=True, frozen=network.frozen)
    demand(torch.equal(taken, x), "it changes its input in place: work on a copy of it")
    for key, value in [*twin.named_parameters(), *twin.named_buffers()]:
        same = key in network.tracked or _same(value, before[key])
        demand(same, f"it changes its {key} in a forward pass: only BatchNorm may")
    for purpose, mode in ((EVALUATION, "evaluation mode"), (STEP, "training mode")):
        once, again = (numbers(network, x, purpose) for _ in range(2))
        rule = "it keeps state outside its parameters, or draws random numbers elsewhere than from torch"
        other = "it gives other outputs for the same weights, samples and torch.manual_seed in"
        demand(all(map(_same, once, again)), f"{other} {mode}: {rule}")
        expected = pytorchs(first, x.clone(), purpose == STEP, network.frozen)
        wrong = "called with given weights it has other outputs or gradients than by itself"
        demand(all(map(close, once, expected)), f"{wrong}, in {mode}")
    weights = {name: p.detach() for name, p in network.trained.items()}
    outputs = network({**network.constants(x), **network.tracked, **weights}, x)
    rule = "it trains tensors that are not its parameters: keep layers in attributes, tensors in nn.Parameter"
    demand(not outputs.requires_grad, rule)


def pytorchs(module: nn.Module, x: Tensor, training: bool, frozen: bool) -> list[Tensor]:
    """Return a module's outputs and gradients as PyTorch computes them. If `frozen`, BatchNorm uses its running statistics."""
    module.train(training)
    for child in module.modules():
        if frozen and isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            child.eval()
    with seeded(1):
        outputs = module(x)
    parameters = [p for p in module.parameters() if p.requires_grad]
    return [outputs.detach(), *slopes(outputs, parameters)]


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def close(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are equal up to rounding in single precision."""
    near: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-5, "equal_nan": True}
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), **near)
