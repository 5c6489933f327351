"""A `torch.nn.Module` of others, fitted to a data set: computed from a client's flat weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trials.common import randomness
from trials.common.tensors import Tensor, nn, torch
from trials.models.base import Architecture, Array, Parameters
from trials.models.running_statistics import RunningStatistics, Values
from trials.scoring.losses import Loss

STEP, GRADIENT, EVALUATION = "step", "gradient", "evaluation"
"""What a module is called for: a training step, a gradient over all of a client's data, an evaluation. The
first draws random numbers, such as dropout's; in the first two BatchNorm normalises by the batch."""


@dataclass(frozen=True, eq=False)
class FittedModule(Architecture):
    """A module for samples of one shape: it is called with weights, and holds none of a run.

    `modules` are the module as it is called for each of `STEP`, `GRADIENT` and `EVALUATION`; a step's random
    numbers are seeded by `seed`. `statistics` are BatchNorm's of one run. `note` says how clients are computed,
    and why.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    modules: Mapping[str, nn.Module]
    statistics: RunningStatistics | None = None  # type: ignore[misc] # by instance here
    batchable: bool = False  # type: ignore[misc]
    batched_up_to: float = 0  # type: ignore[misc]
    draws: bool = False  # type: ignore[misc]
    note: str = ""  # type: ignore[misc]
    independent: bool = True
    purpose: str = EVALUATION
    seed: int = 0
    kept: dict[Any, Values] = field(default_factory=dict, repr=False)

    @property
    def one_by_one(self) -> bool:
        return self.independent

    def parameters(self, shape: tuple[int, ...], classes: int) -> Parameters:
        return [(name, tuple(value.shape)) for name, value in trained(self._module).items()]

    def initial(self, ids: Array, seed: int) -> Array:
        rows = []
        for one in np.ravel(ids):
            module = built(self.make, int(randomness.bits("initial", seed, one)[0]))
            rows.append(
                torch.cat([p.detach().double().flatten() for p in trained(module).values()])
            )
        return torch.stack(rows).numpy()

    def drawn(self, seed: int) -> FittedModule:
        return replace(self, purpose=STEP, seed=seed)

    def of_a_run(self) -> FittedModule:
        """The module with statistics of its own, as they are at the start."""
        initial = tracked(self._module)
        return replace(self, statistics=RunningStatistics(initial)) if initial else self

    def forward(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        module, like = self._module, next(iter(p.values()))
        constants = self.constants(like) | self._running(like)

        def one(p: Mapping[str, Tensor], x: Tensor) -> Tensor:
            found: Tensor = torch.func.functional_call(module, {**constants, **p}, (x,))
            return found

        if x.dim() == len(self.shape) + 1:
            return one(p, x)
        if self.batchable:
            outputs: Tensor = torch.func.vmap(one)(dict(p), x)
            return outputs
        rows = [{name: value[i] for name, value in p.items()} for i in range(len(x))]
        return torch.stack([one(w, samples) for w, samples in zip(rows, x, strict=True)])

    def gradients(
        self, p: Mapping[str, Tensor], x: Tensor, y: Tensor, weight: Tensor, loss: Loss
    ) -> tuple[Tensor, list[Tensor]]:
        if self.purpose == STEP:
            with seeded(self.seed, x.device):
                return super().gradients(p, x, y, weight, loss)
        whole = replace(self, purpose=GRADIENT)
        return Architecture.gradients(whole, p, x, y, weight, loss)

    def constants(self, like: Tensor) -> Values:
        """What the module has besides its parameters and statistics, in their dtype and on their device."""
        key = like.device, like.dtype
        if key not in self.kept:
            self.kept[key] = {
                name: value.detach().to(*key) if value.is_floating_point() else value.to(key[0])
                for name, value in _constants(self._module).items()
            }
        return self.kept[key]

    def _running(self, like: Tensor) -> Values:
        if self.statistics is None:
            return {}
        if self.purpose == EVALUATION:
            return self.statistics.evaluating(like)
        return self.statistics.training(like)

    @property
    def _module(self) -> nn.Module:
        return self.modules[self.purpose]


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """PyTorch's random numbers from a seed; afterwards they go on as before."""
    with torch.random.fork_rng([device] if device and device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def built(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """What `make` returns under a seed, on the CPU."""
    with seeded(seed >> 1), torch.device("cpu"):
        return make()


def trained(module: nn.Module) -> Values:
    """The parameters that need a gradient, by name."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def tracked(module: nn.Module) -> Values:
    """The running statistics of a module's BatchNorm, by name; none where they are frozen."""
    from trials.models.torch_module import BatchStatistics

    return {
        f"{place}.{name}" if place else name: value
        for place, child in module.named_modules()
        if isinstance(child, BatchStatistics) and not child.frozen
        for name, value in child.named_buffers()
    }


def _constants(module: nn.Module) -> Values:
    frozen = {name: p for name, p in module.named_parameters() if not p.requires_grad}
    buffers = dict(module.named_buffers())
    return {**frozen, **{name: buffers[name] for name in buffers.keys() - tracked(module).keys()}}
