"""Networks of others: any `torch.nn.Module`, computed from a client's flat weights.

`my.py:make` names a function `make(shape, classes)` that returns the module; `torchvision:NAME` names a
network of torchvision. What is trained are the module's parameters, by their names. Buffers, and parameters
that need no gradient, are constants, but for BatchNorm's running statistics (`RunningStatistics`).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

from trials.common import names, plugins
from trials.common.errors import UserError
from trials.common.files import resolved
from trials.common.tensors import Tensor, nn, torch
from trials.models.base import Architecture, Parameters
from trials.models.fitted_module import (
    EVALUATION,
    GRADIENT,
    STEP,
    FittedModule,
    built,
    seeded,
    tracked,
    trained,
)

TORCHVISION = "torchvision:"
SMALL = 100_000
"""Weights up to which a CPU is faster at several clients' convolutions at once, in small minibatches."""


def located(make: Callable[..., Any]) -> str:
    """The name of a function that makes a module; raises `UserError` where it is not one of a file."""
    if isinstance(make, nn.Module):
        raise UserError(
            f"model: must be what makes a module, its class {type(make).__name__} or a function of (shape, classes), "
            "not a module that is made"
        )
    place = inspect.getmodule(make)
    name = getattr(make, "__qualname__", "")
    if (
        place is None
        or getattr(place, name, None) is not make
        or not getattr(place, "__file__", "")
    ):
        raise UserError(
            f"model: {name or make!r} must be defined at the top of a file, as in mine.py:make, so that other "
            "processes can run it too"
        )
    return f"{place.__name__ if place.__package__ else place.__file__}:{name}"


@dataclass(frozen=True)
class OwnModel(Architecture):
    """A module by its name. It becomes a `FittedModule` for a data set's shape."""

    batchable: ClassVar[bool] = False
    batched_up_to: ClassVar[float] = 0
    name: str
    buffers: str = "averaged"

    @classmethod
    def at(cls, text: str) -> OwnModel:
        """The module as a person names it; a file's path is made absolute. No code runs."""
        bare, given = names.split(text)
        place, _, function = bare.rpartition(":")
        if place.endswith(".py"):
            place = str(resolved(place, "model file"))
        _arguments(text, given)
        return cls(f"{place}:{function}" + (f"({given.strip()})" if given else ""))

    def fitted(self, shape: tuple[int, ...], classes: int) -> FittedModule:
        frozen = self.buffers == "frozen"
        return _fitted(self.name, self.function(), tuple(shape), classes, frozen).of_a_run()

    def keeping(self, buffers: str) -> OwnModel:
        return replace(self, buffers=buffers)

    def parameters(self, shape: tuple[int, ...], classes: int) -> Parameters:
        return self.fitted(shape, classes).parameters(shape, classes)

    def forward(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        raise NotImplementedError("a module is computed when it is fitted to a shape")

    def function(self) -> Any:
        """What makes the module, a function or a class; raises `UserError` where there is none."""
        bare, _ = names.split(self.name)
        if self.name.startswith(TORCHVISION):
            from trials.models.torch_module import torchvision_network

            return partial(torchvision_network, bare.removeprefix(TORCHVISION))
        return plugins.function(bare, "model")


def _arguments(text: str, given: str | None) -> dict[str, Any]:
    """The arguments by name, `(width=32)`, as Python's literals; raises `UserError` for others."""
    try:
        call = ast.parse(f"f({given or ''})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not all(k.arg for k in call.keywords):
            raise ValueError
        return {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    except (SyntaxError, ValueError):
        raise UserError(
            f"model {text!r}: arguments are given by name and are plain values, as in make(width=32)"
        ) from None


def _made(
    name: str, make: Callable[..., Any], shape: tuple[int, ...], classes: int, frozen: bool
) -> nn.Module:
    """The module of a call, whose BatchNorm is told what it normalises by; raises `UserError` where it is none."""
    from trials.models.torch_module import told

    given = _arguments(name, names.split(name)[1])
    try:
        inspect.signature(make).bind(shape, classes, **given)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"model {name} must take the shape of a sample and the number of outputs, as make({shape}, {classes}), "
            f"then the arguments of its name: {error}"
        ) from None
    call = partial(make, shape, classes, **given)
    module = plugins.tried(f"model {name}({shape}, {classes})", call)
    if not isinstance(module, torch.nn.Module):
        raise UserError(
            f"model {name} returned {type(module).__name__}, but must return a torch.nn.Module"
        )
    if any(isinstance(p, torch.nn.UninitializedParameter) for p in module.parameters()):
        raise UserError(
            f"model {name} has lazy layers: give their sizes, which follow from (shape, classes)"
        )
    parameters = trained(module)
    if not parameters:
        raise UserError(f"model {name} has no parameters to train")
    for key, value in parameters.items():
        if value.dtype not in (torch.float32, torch.float64):
            raise UserError(
                f"model {name}: parameter {key} is {value.dtype}, but must be torch.float32"
            )
    return told(module, frozen)


@lru_cache(maxsize=8)
def _fitted(
    name: str, make: Callable[..., Any], shape: tuple[int, ...], classes: int, frozen: bool
) -> FittedModule:
    """The module for samples of `shape`, tried on three of them; raises `UserError` where it does not do."""
    from trials.models.torch_module import by_running

    build = partial(_made, name, make, shape, classes, frozen)
    step, gradient = built(build, 0).train(), built(build, 0).eval()
    for (key, one), two in zip(
        step.state_dict().items(), gradient.state_dict().values(), strict=True
    ):
        if not torch.equal(one, two):
            raise UserError(
                f"model {name}: {key} differs between two modules made with the same torch.manual_seed: draw "
                "initial weights by torch alone"
            )
    evaluation = by_running(built(build, 0).eval())
    modules = {STEP: step, GRADIENT: gradient, EVALUATION: evaluation}
    return _Trial(name, FittedModule(build, shape, modules).of_a_run(), classes).verdict()


class _Trial:
    """A module, tried on three samples of zeros and ones, which pixels and tokens may be."""

    def __init__(self, name: str, module: FittedModule, classes: int) -> None:
        self.name, self.module, self.classes = name, module, classes
        of = trained(module.modules[EVALUATION])
        self.p = {key: value.detach().clone() for key, value in of.items()}
        with seeded(0):
            self.x = torch.randint(0, 2, (3, *module.shape)).to(next(iter(self.p.values())).dtype)

    def verdict(self) -> FittedModule:
        """The module with how it is computed; raises `UserError` for what cannot be computed right."""
        outputs, _ = self._called(self.module)
        again, _ = self._called(self.module)
        if not _equal(outputs, again):
            raise UserError(
                f"model {self.name} gives other outputs for the same weights and samples in evaluation mode: "
                "it keeps state outside its parameters, or draws random numbers there"
            )
        stepping = self.module.drawn(1)
        stepped, drew = self._called(stepping)
        again, _ = self._called(stepping)
        if not _equal(stepped, again):
            raise UserError(
                f"model {self.name} gives other outputs for the same weights, samples and torch.manual_seed in "
                "training mode: it keeps state outside its parameters, or draws random numbers elsewhere "
                "than from torch"
            )
        plain = replace(self.module, purpose=GRADIENT)
        outputs, _ = self._called(plain)
        draws = drew or not _equal(stepped, outputs)
        why = self._why_not_at_once(draws, self._by_sample(plain))
        note = "clients at once, by torch.func.vmap"
        if why:
            note = f"one client after the other: {why}"
        if tracked(plain.modules[GRADIENT]):
            note += "; BatchNorm's running statistics are averaged"
        sizes = [value.numel() for value in self.p.values()]
        convolves = any(value.dim() > 2 for value in self.p.values())
        up_to = float("inf") if not convolves else 16.0 if sum(sizes) < SMALL else 0.0
        return replace(
            self.module,
            batchable=not why,
            batched_up_to=0.0 if why else up_to,
            independent=self._by_sample(self.module),
            draws=draws,
            note=note,
        )

    def _by_sample(self, module: FittedModule) -> bool:
        """Whether a sample's outputs are its own, whatever the batch."""
        whole, part = (self._called(module, x)[0] for x in (self.x, self.x[:2]))
        return torch.allclose(part, whole[:2], rtol=1e-3, atol=1e-5, equal_nan=True)

    def _called(self, module: FittedModule, x: Tensor | None = None) -> tuple[Tensor, bool]:
        """Its outputs, and whether it drew random numbers."""
        x = (self.x if x is None else x).clone()
        before = {key: value.clone() for key, value in module.constants(x).items()}
        given = x.clone()
        with seeded(1):
            state = torch.get_rng_state()
            where = f"model {self.name} on samples {tuple(x.shape)}"
            outputs = plugins.tried(where, partial(module.forward, self.p, x))
            drew = not torch.equal(state, torch.get_rng_state())
        if not isinstance(outputs, torch.Tensor) or outputs.shape != (len(x), self.classes):
            found = (
                tuple(outputs.shape)
                if isinstance(outputs, torch.Tensor)
                else type(outputs).__name__
            )
            raise UserError(
                f"model {self.name} must give a tensor ({len(x)}, {self.classes}) for {len(x)} samples of shape "
                f"{module.shape} in {self.classes} classes, not {found}"
            )
        if outputs.requires_grad:
            raise UserError(
                f"model {self.name} trains tensors that are not its parameters: keep layers in attributes or "
                "nn.ModuleList, tensors in nn.Parameter"
            )
        if not torch.equal(x, given):
            raise UserError(f"model {self.name} changes its input in place: work on a copy of it")
        for key, value in module.constants(x).items():
            if not _equal(value, before[key]):
                raise UserError(
                    f"model {self.name} changes its buffer {key} in a forward pass: only BatchNorm may change "
                    "its own"
                )
        return outputs, drew

    def _why_not_at_once(self, draws: bool, independent: bool) -> str:
        """Why several clients cannot be computed at once; "" where they can."""
        if draws:
            return "it draws random numbers in training, such as dropout's"
        if not independent:
            return "a sample's outputs depend on its batch, as with BatchNorm"
        two = replace(self.module, batchable=True)
        p = {key: torch.stack([value, 1.01 * value]) for key, value in self.p.items()}
        x = torch.stack([self.x, self.x.flip(0)])
        y, weight = torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3)
        found = []
        for module in (two, self.module):
            try:
                with plugins.contained():
                    losses, parts = module.gradients(p, x, y, weight.to(x), _squares)
            except Exception as error:
                if module is two:
                    return f"torch.func.vmap cannot: {str(error).split('. ')[0].strip()}"
                raise UserError(
                    f"model {self.name} has no gradient: {type(error).__name__}: {error}"
                ) from error
            found.append([losses, *parts])
        close = partial(torch.allclose, rtol=1e-3, atol=1e-4, equal_nan=True)
        agree = all(close(a, b) for a, b in zip(*found, strict=True))
        return "" if agree else "torch.func.vmap gives other numbers"


def _squares(outputs: Tensor, y: Tensor) -> Tensor:
    """A loss that any task has."""
    return outputs.square().mean(-1)


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
