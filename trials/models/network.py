"""A network of PyTorch that is called with weights, for one client or for k at once, and holds none of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trials.common.tensors import Tensor, nn, torch
from trials.models.running_statistics import Values

STEP, GRADIENT, EVALUATION = "step", "gradient", "evaluation"
"""What a network is called for: a training step, a gradient over all of a client's data, an evaluation. The
first draws random numbers, such as dropout's; in the first two BatchNorm normalises by the batch."""
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class Network:
    """A module for samples of one shape: `network(tensors, x, purpose)` gives outputs (b, C), or of k clients
    (k, b, C), from tensors by the module's names.

    `make` gives the module anew under a seed, where its own initial weights are those of a run. `trained` are
    its parameters that need a gradient, by name. How it is computed is set by who fits it: `why_alone` says why clients are computed one after the other,
    `channels_last` that a CPU may lay out the samples so, `draws` that a step draws random numbers, `one_by_one`
    that a sample's outputs in evaluation are its own.
    """

    def __init__(
        self,
        module: nn.Module,
        shape: tuple[int, ...],
        make: Callable[[int], nn.Module] | None = None,
        frozen: bool = False,
    ) -> None:
        self.module, self.shape, self.make, self.frozen = module, shape, make, frozen
        self.why_alone, self.note = "", ""
        self.draws = self.takes_rows = self.channels_last = False
        self.one_by_one = True
        self.exact: dict[Any, bool] = {}
        self._purpose = ""
        self._constants: dict[Any, Values] = {}
        self.trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
        kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
        self._norms: dict[str, Any] = {
            name: child for name, child in module.named_modules() if isinstance(child, kinds)
        }
        for norm in self._norms.values():
            norm.register_forward_pre_hook(_by_batch)

    def __call__(
        self, tensors: Mapping[str, Tensor], x: Tensor, purpose: str = EVALUATION
    ) -> Tensor:
        """Return the outputs, in the module's own dtype."""
        self._prepare(purpose)
        if x.dim() == len(self.shape) + 1:
            return self._one(tensors, channels_last(x) if self.channels_last else x)
        if self.takes_rows:
            return self._one(tensors, x)
        trained = {name: tensors[name] for name in self.trained}
        if self.why_alone:
            rows = [{name: p[i] for name, p in trained.items()} for i in range(len(x))]
            return torch.stack([self._one({**tensors, **p}, x[i]) for i, p in enumerate(rows)])
        at_once = torch.func.vmap(lambda p, x: self._one({**tensors, **p}, x), randomness="error")
        outputs: Tensor = at_once(trained, x)
        return outputs

    def _one(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        outputs: Tensor = torch.func.functional_call(self.module, dict(tensors), (x,))
        return outputs

    def _prepare(self, purpose: str) -> None:
        """Put the module into the mode of a purpose."""
        if purpose == self._purpose:
            return
        self.module.train(purpose == STEP)
        for norm in self._norms.values():
            norm.by_batch = purpose != EVALUATION and not self.frozen
        self._purpose = purpose

    def tracked(self) -> Values:
        """Return the running statistics of BatchNorm, by name; none where they are frozen."""
        if self.frozen:
            return {}
        return {
            f"{place}.{name}" if place else name: value
            for place, norm in self._norms.items()
            for name in STATISTICS
            if (value := getattr(norm, name)) is not None
        }

    def constants(self, like: Tensor) -> Values:
        """Return what the module has besides, in the dtype and on the device of `like`."""
        key = like.device, like.dtype
        if key not in self._constants:
            everything = dict([*self.module.named_parameters(), *self.module.named_buffers()])
            left = everything.keys() - self.trained.keys() - self.tracked().keys()
            self._constants[key] = {
                name: value.detach().to(like if value.is_floating_point() else like.device)
                for name in sorted(left)
                if (value := everything[name]) is not None
            }
        return self._constants[key]


def _by_batch(norm: Any, args: tuple[Tensor, ...]) -> None:
    """Choose what BatchNorm normalises by: the batch, or its running statistics. A single value a channel, of which
    PyTorch makes no batch, goes by these too.
    """
    norm.training = norm.by_batch and args[0].numel() > args[0].shape[1]


@contextmanager
def seeded(seed: int | None, device: torch.device | None = None) -> Iterator[None]:
    """Draw PyTorch's random numbers from a seed; afterwards they go on as before. None: change nothing."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng([device] if device and device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def channels_last(x: Tensor) -> Tensor:
    """Return x (b, c, h, w), laid out with the channels innermost on a CPU, which convolves and pools so in half the
    time. With one channel both layouts are the same memory and only strides tell them apart.
    """
    if x.device.type != "cpu":
        return x
    if x.shape[1] == 1 and x.is_contiguous():
        height, width = x.shape[2:]
        return x.as_strided(x.shape, (height * width, 1, width, 1))
    return x.contiguous(memory_format=torch.channels_last)
