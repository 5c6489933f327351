"""Models: networks of PyTorch as functions of a flat weight vector, of one client or of k clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import inf, prod
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from trials.common import randomness
from trials.common.tensors import Tensor, nn, torch
from trials.models.network import EVALUATION, GRADIENT, STEP, Network, RunningStatistics, seeded
from trials.scoring.losses import Loss, cross_entropy

Array = npt.NDArray[Any]
ROWS = 7  # clients on which it is tried whether a client's bits depend on who is computed with it


class Slot(NamedTuple):
    """One parameter tensor inside the flat vector: its name, place, shape and layer (from 0)."""

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]
    layer: int


@dataclass(frozen=True)
class Architecture:
    """What an entry of `MODELS` is: a builder of networks, whose fields are the arguments of its name."""

    summary: ClassVar[str]
    """The first line of the class's docstring."""
    linear: ClassVar[bool] = False
    """Whether outputs are W x + b with nothing but W (C, p) and b (C,), in this order."""

    def __init_subclass__(cls) -> None:
        cls.summary = (cls.__doc__ or "").partition("\n")[0]

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return the network for samples of `shape`, parameters in order of use; raise `UserError` for no fit."""
        raise NotImplementedError

    def fitted(self, shape: tuple[int, ...], classes: int, frozen: bool) -> Network:
        """Return the network for samples of a shape. It is called with weights and holds none. `frozen` keeps BatchNorm's
        statistics as they were made.
        """
        return _skeleton(self, shape, classes)


@cache
def _skeleton(architecture: Architecture, shape: tuple[int, ...], classes: int) -> Network:
    with torch.device("meta"):
        module = architecture.network(shape, classes)
    network = Network(module, shape)
    network.why_alone = getattr(module, "why_alone", "")
    network.channels_last = any(p.dim() == 4 for p in network.trained.values())
    # What begins by flattening the last dimensions goes on so with those of k clients (`perceptron`).
    network.takes_rows = getattr(next(module.children(), None), "start_dim", 0) < 0
    return network


class Model:
    """A network fitted to a data set's shape: its layout, initial weights, losses, gradients.

    `d` is the number of weights. `layout` gives each parameter's place in the flat vector. `mixed` computes layers in
    bfloat16; weights and gradients stay float32. `statistics` are BatchNorm's running ones, or None. `one_by_one` is
    true when a sample's outputs do not depend on the rest of its batch.
    """

    def __init__(
        self,
        architecture: Architecture,
        shape: tuple[int, ...],
        classes: int,
        loss: Loss = cross_entropy,
        mixed: bool = False,
        buffers: str = "averaged",
    ) -> None:
        self.architecture, self.shape, self.loss, self.mixed = architecture, shape, loss, mixed
        self.network = architecture.fitted(tuple(shape), classes, buffers == "frozen")
        self.one_by_one, tracked, self.d = self.network.one_by_one, self.network.tracked, 0
        self.statistics = RunningStatistics(tracked) if tracked else None
        self.layout: list[Slot] = []
        layers: list[str] = []
        for name, value in self.network.trained.items():
            layer, size = name.rpartition(".")[0], tuple(value.shape)
            layers += [] if layer in layers else [layer]
            slot = Slot(name, self.d, self.d + prod(size), size, layers.index(layer))
            self.layout.append(slot)
            self.d = slot.stop

    @property
    def batched_up_to(self) -> float:
        """Return the largest minibatch at which a CPU is faster at k clients at once: of convolutions, small ones only."""
        if not any(len(slot.shape) > 2 for slot in self.layout):
            return inf
        return 16.0 if self.d < 150_000 else 0.0

    def check(self, x: Array) -> None:
        """Raise `UserError` for samples x (N, *shape) that it cannot read: unknown tokens."""
        check = None if self.network.make else getattr(self.network.module, "check", None)
        if check is not None:
            check(x)

    def views(self, w: Tensor) -> dict[str, Tensor]:
        """Return the named parameters inside flat weights (d,) or (k, d), without a copy."""
        return {
            slot.name: w[..., slot.start : slot.stop].view((*w.shape[:-1], *slot.shape))
            for slot in self.layout
        }

    def initial(self, ids: Array, seed: int, weights: str = "default") -> Array:
        """Return initial weights (k, d) of clients `ids` (k,): U(-r, r) with r = 1 / sqrt(fan in) for the weights and the
        bias of a layer, PyTorch's default; the fan in is the length of a weight's row. `glorot` has r = sqrt(6 / (fan in
        + fan out)), `he` sqrt(6 / fan in), both no biases at first. A person's network starts as it is made, under a seed.
        """
        if self.network.make is not None:
            starts = []
            for client in np.ravel(ids).tolist():
                module = self.network.make(int(randomness.bits("initial", seed, client)[0]))
                parameters = [p.detach() for p in module.parameters() if p.requires_grad]
                starts.append(torch.cat([p.double().flatten() for p in parameters]).numpy())
            return np.stack(starts)
        rows, w = np.reshape(ids, (-1, 1)), np.empty((np.size(ids), self.d))
        first = {slot.layer: slot.shape for slot in reversed(self.layout)}  # a layer's first slot
        for slot in self.layout:
            u = randomness.uniform("initial", seed, rows, np.arange(slot.start, slot.stop))
            fan_in, fan_out = prod(first[slot.layer][1:]), slot.shape[0] * prod(slot.shape[2:])
            radius = fan_in**-0.5
            if weights != "default":
                fans = fan_in + fan_out * (weights == "glorot")
                radius = (6 / fans) ** 0.5 * (len(slot.shape) > 1)
            w[:, slot.start : slot.stop] = (2 * u - 1) * radius
        return w

    def logits(self, w: Tensor, x: Tensor) -> Tensor:
        """Return the outputs (b, C) of weights (d,) on samples (b, *shape), or (k, b, C) of k clients' (k, d) and (k,
        b, *shape).
        """
        return self.outputs(self.views(w), x)

    def outputs(self, p: Mapping[str, Tensor], x: Tensor, purpose: str = EVALUATION) -> Tensor:
        """Return outputs as `logits` does, from the named parameters, for one of the purposes of
        `trials.models.network`.
        """
        like, tracked = next(iter(p.values())), dict[str, Tensor]()
        if (kept := self.statistics) is not None:
            tracked = kept.evaluating(like) if purpose == EVALUATION else kept.training(like)
        with self._precision(like):
            tensors = {**tracked, **self.network.constants(like), **p}
            return self.network(tensors, x, purpose).to(like.dtype)

    def gradients(self, w: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses (k,) and gradients (k, d) at w (k, d); or () and (d,) at w (d,). See `gradient_parts`."""
        losses, parts = self.gradient_parts(w, x, y, weight)
        return losses, torch.cat(parts, -1)

    def gradient_parts(
        self, w: Tensor, x: Tensor, y: Tensor, weight: Tensor, draw: int | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the weighted loss F_i = sum_b weight_ib loss(x_ib, y_ib) of each client, (k,) or (), and its gradients,
        each slot of the layout apart, (k, size) or (size,). Weights (k, b) or (b) are 0 for padding, of which one
        client has none. `draw` seeds the random numbers of a training step, if any.
        """
        if w.dim() == 2 and self.architecture.linear and self.loss is cross_entropy:
            return self._closed_form(w, x, y, weight)
        leaves = {name: view.detach().requires_grad_() for name, view in self.views(w).items()}
        with torch.enable_grad(), seeded(draw, x.device), self._precision(w):
            outputs = self.outputs(leaves, x, GRADIENT if draw is None else STEP)
            losses = (self.loss(outputs, y) * weight).sum(-1)
            parts = torch.autograd.grad(losses.sum(), list(leaves.values()), materialize_grads=True)
        return losses.detach(), [part.reshape(*w.shape[:-1], -1) for part in parts]

    def _closed_form(
        self, w: Tensor, x: Tensor, y: Tensor, weight: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Return `gradient_parts` of softmax(W x + b): dF/dz = weight (softmax(z) - onehot(y)), dF/dW = dz' x, dF/db =
        sum_b dz. A single client takes the general way, which so checks this one.
        """
        (matrix, bias), x, label = self.views(w).values(), x.flatten(2), y.unsqueeze(-1)
        with self._precision(w):
            outputs = torch.baddbmm(bias.unsqueeze(1), x, matrix.transpose(1, 2))
            logp = torch.log_softmax(outputs, -1)
            losses = -(logp.gather(-1, label).squeeze(-1) * weight).sum(-1)
            dz = logp.exp_().scatter_add_(-1, label, torch.full_like(logp[..., :1], -1.0))
            dz = dz.mul_(weight.unsqueeze(-1))
            return losses, [torch.bmm(dz.transpose(1, 2), x).flatten(1), dz.sum(1)]

    def exact(self, width: int, like: Tensor, slopes: bool = True) -> bool:
        """Return whether a client's outputs, or its gradients (`slopes`), have the same bits whoever is computed with it. It is
        tried once for each `width` of minibatches, dtype and device.
        """
        key = width, slopes, like.dtype, like.device, torch.get_num_threads()
        if key not in self.network.exact:
            draw = torch.Generator().manual_seed(0)
            w = torch.from_numpy(self.initial(np.arange(ROWS), 0)).to(like)
            x = torch.rand(ROWS, width, *self.shape, generator=draw).to(like)
            y = torch.zeros(ROWS, width, dtype=torch.int64, device=like.device)
            weight = torch.full((ROWS, width), 1 / width).to(like)

            def computed(rows: slice) -> Tensor:
                if slopes:
                    return self.gradients(w[rows], x[rows], y[rows], weight[rows])[1]
                return self.logits(w[rows], x[rows].contiguous())

            whole, pair = computed(slice(0, ROWS)), computed(slice(1, 3))
            singly = torch.cat([computed(slice(row, row + 1)) for row in range(ROWS)])
            self.network.exact[key] = torch.equal(whole, singly) and torch.equal(whole[1:3], pair)
        return self.network.exact[key]

    def bytes_a_client(self, width: int, like: Tensor) -> int:
        """Return the memory of one of k clients in a batched step of `width` samples, with weights like these: five
        vectors (start, gradient and its parts, direction, momentum), the samples and what the backward pass keeps.
        """
        kept, flat = [prod(self.shape)], like.new_zeros(self.d)
        weights = flat.untyped_storage().data_ptr()

        def note(tensor: Tensor) -> Tensor:
            kept.append(0 if tensor.untyped_storage().data_ptr() == weights else tensor.numel())
            return tensor

        leaves = {name: p.requires_grad_() for name, p in self.views(flat).items()}
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            tensors = {**self.network.constants(flat), **leaves}
            self.network(tensors, like.new_zeros(1, *self.shape))
        return like.element_size() * (5 * self.d + width * sum(kept))

    def _precision(self, like: Tensor) -> torch.autocast:
        return torch.autocast(like.device.type, torch.bfloat16, enabled=self.mixed)
