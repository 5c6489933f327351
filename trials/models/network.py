"""PyTorch networks that are called with weights, for one client or for k clients at once, instead of holding them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trials.common.tensors import Tensor, nn, torch

STEP, GRADIENT, EVALUATION = "step", "gradient", "evaluation"
"""The purposes of a forward pass: a training step, a gradient on a client's full data, an evaluation. Only a step draws
random numbers, such as dropout's. BatchNorm normalises by the batch except in evaluation."""
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
Values = dict[str, Tensor]  # tensors by their names in a module


class Network:
    """A module for samples of one shape, which gets its weights as an argument: `network(tensors, x, purpose)`.

    `tensors` are named as in the module. `make(seed)` builds a new module, for models that set their own initial
    weights. `trained` are the parameters with a gradient. `tracked` are BatchNorm's running statistics, none if
    BatchNorm is `frozen`. `draws` says whether a step draws random numbers. `why_alone` is the reason why clients are
    computed one after the other, or "" if they are computed at once.
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
        self.one_by_one, self._purpose = True, ""
        self.exact: dict[Any, bool] = {}
        self._constants: dict[Any, Values] = {}
        self.trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
        kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
        module.train()  # a BatchNorm that a module keeps from training is constant
        norms = {n: m for n, m in module.named_modules() if isinstance(m, kinds) and m.training}
        self._norms: list[Any] = list(norms.values())
        self.tracked: Values = {}
        for place, norm in norms.items():
            norm.register_forward_pre_hook(_by_batch)
            for name in () if frozen else STATISTICS:
                if (value := getattr(norm, name)) is not None:
                    self.tracked[f"{place}.{name}".lstrip(".")] = value

    def __call__(
        self, tensors: Mapping[str, Tensor], x: Tensor, purpose: str = EVALUATION
    ) -> Tensor:
        """Return outputs (b, C) for samples x (b, *shape). For the samples x (k, b, *shape) of k clients, return (k, b, C)."""
        if purpose != self._purpose:
            self.module.train(purpose == STEP)
            for norm in self._norms:
                norm.by_batch = purpose != EVALUATION and not self.frozen
            self._purpose = purpose
        alone = x.dim() == len(self.shape) + 1
        if alone and self.channels_last and x.device.type == "cpu":
            # A CPU convolves in half the time with the channels innermost.
            if x.shape[1] == 1 and x.is_contiguous():
                # With one channel both layouts have the same memory, and differ in strides.
                height, width = x.shape[2:]
                x = x.as_strided(x.shape, (height * width, 1, width, 1))
            else:
                x = x.contiguous(memory_format=torch.channels_last)
        if alone or self.takes_rows:
            return self._one(tensors, x)
        trained = {name: tensors[name] for name in self.trained}
        at_once = torch.func.vmap(lambda p, x: self._one({**tensors, **p}, x), randomness="error")
        outputs: Tensor = at_once(trained, x)
        return outputs

    def _one(self, tensors: Mapping[str, Tensor], x: Tensor) -> Tensor:
        outputs: Tensor = torch.func.functional_call(self.module, dict(tensors), (x,))
        return outputs

    def constants(self, like: Tensor) -> Values:
        """Return the parameters and buffers that training leaves unchanged, in the dtype and on the device of `like`."""
        key = like.device, like.dtype
        if key not in self._constants:
            everything = [*self.module.named_parameters(), *self.module.named_buffers()]
            self._constants[key] = {
                name: value.detach().to(like if value.is_floating_point() else like.device)
                for name, value in everything
                if name not in self.trained and name not in self.tracked
            }
        return self._constants[key]


def _by_batch(norm: Any, args: tuple[Tensor, ...]) -> None:
    """Let BatchNorm normalise by the batch if `norm.by_batch` is set and each channel has several values."""
    norm.training = norm.by_batch and args[0].numel() > args[0].shape[1]


@contextmanager
def seeded(seed: int | None, device: torch.device | None = None) -> Iterator[None]:
    """Seed PyTorch's random numbers inside the context, and restore the generators' state afterwards. With None do nothing."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng([device] if device and device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


class RunningStatistics:
    """BatchNorm's running statistics: those of the server, used in evaluation, and those of each client that trains in a round.

    A client's statistics start each round at the server's. Each forward pass in training moves them by BatchNorm's
    momentum a: s <- (1 - a) s + a s_batch. At the end of the round the server takes their mean by aggregation weights.
    """

    def __init__(self, initial: Values) -> None:
        self.server: Values = {name: v.detach().double().clone() for name, v in initial.items()}
        self._clients: dict[int, Values] = {}
        self._at_work: Values | None = None

    def begin(self) -> None:
        """Begin a round: forget the clients' statistics of the last round."""
        self._clients, self._at_work = {}, None

    def work(self, client: int, like: Tensor) -> None:
        """Use the statistics of `client` in the next training passes, in the dtype and on the device of `like`."""
        if client not in self._clients:
            self._clients[client] = {name: v.to(like, copy=True) for name, v in self.server.items()}
        self._at_work = self._clients[client]

    def training(self, like: Tensor) -> Values:
        """Return the current client's statistics in the dtype of `like`, or a copy of the server's if no client is training."""
        if self._at_work is None:
            return {name: value.to(like, copy=True) for name, value in self.server.items()}
        return self._at_work

    def evaluating(self, like: Tensor) -> Values:
        """Return the server's statistics, in the dtype and on the device of `like`."""
        return {name: value.to(like) for name, value in self.server.items()}

    def end(self, weights: Callable[[Tensor], Tensor]) -> None:
        """End a round: set the server's statistics to the mean over clients that trained, weighted by `weights(ids)`."""
        ids = sorted(self._clients)
        if ids:
            share = weights(torch.tensor(ids)).double().cpu()
            means = dict(self.server)  # a copy, since the former ones may be in a checkpoint
            for name in means:
                each = torch.stack([self._clients[i][name].double().cpu() for i in ids])
                means[name] = torch.tensordot(share, each, 1)
            self.server = means
        self.begin()
