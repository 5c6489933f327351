"""What a model is, and layers that read the same for one client and for k clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import inf, prod
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from trials.common import randomness
from trials.common.errors import UserError
from trials.common.tensors import F, Tensor, torch
from trials.models.running_statistics import RunningStatistics
from trials.scoring.losses import Loss, cross_entropy

Array = npt.NDArray[Any]
Parameters = list[tuple[str, tuple[int, ...]]]
"""(name, shape) of each parameter: layers in the order of their first use, `LAYER.weight` before
`LAYER.bias`."""


class Slot(NamedTuple):
    """One parameter tensor inside the flat vector: its name, place, shape and layer (from 0).

    It starts as U(center - radius, center + radius).
    """

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]
    layer: int
    center: float
    radius: float


class Architecture(ABC):
    """What an entry of `MODELS` is."""

    summary: ClassVar[str]
    batchable: ClassVar[bool] = True
    """Whether k clients can be computed at once at all; else they are, one after the other."""
    batched_up_to: ClassVar[float] = inf
    """The largest minibatch with which a CPU is faster at k clients at once than at one after the
    other.
    """
    linear: ClassVar[bool] = False
    """Whether the outputs are W x + b with nothing but W (C, p) and b (C,), in this order."""

    exact_rows: ClassVar[bool] = False
    """Whether a CPU that computes k clients at once gives each the same bits whatever k is."""

    draws: ClassVar[bool] = False
    """Whether a training step draws random numbers (`drawn`)."""
    statistics: ClassVar[RunningStatistics | None] = None
    """Running statistics of BatchNorm, where it keeps any."""
    note: ClassVar[str] = ""
    """How clients are computed and why, where that is not the project's own choice."""

    def fitted(self, shape: tuple[int, ...], classes: int) -> Architecture:
        """The architecture for samples of `shape`; raises `UserError` when it does not fit."""
        return self

    def keeping(self, buffers: str) -> Architecture:
        """The architecture under the setting `buffers`, which those without buffers do not mind."""
        return self

    def drawn(self, seed: int) -> Architecture:
        """The architecture of a training step that draws its random numbers from a seed."""
        return self

    def initial(self, ids: Array, seed: int) -> Array | None:
        """Initial weights (k, d) of clients `ids` (k,), where they are not those of `Model.initial`."""
        return None

    @property
    def one_by_one(self) -> bool:
        """Whether a sample's outputs depend on that sample alone, not on the batch it is in."""
        return True

    @abstractmethod
    def parameters(self, shape: tuple[int, ...], classes: int) -> Parameters:
        """The parameters for samples of `shape`; raises `UserError` when they do not fit."""

    def check(self, x: Array, classes: int) -> None:  # noqa: B027 - most read anything
        """Raise `UserError` for samples x (N, *shape) that it cannot read, such as unknown tokens."""

    @abstractmethod
    def forward(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """Logits (b, C) of x (b, *shape), or (k, b, C) of x (k, b, *shape) with (k, ...) weights."""

    def gradients(
        self, p: Mapping[str, Tensor], x: Tensor, y: Tensor, weight: Tensor, loss: Loss
    ) -> tuple[Tensor, list[Tensor]]:
        """Weighted loss F_i = sum_b weight_ib loss(x_ib, y_ib) of each client, (k,) or (), and its
        gradients in the order of `p`; weights (k, b) or (b) are 0 for padding.
        """
        leaves = {name: value.detach().requires_grad_() for name, value in p.items()}
        with torch.enable_grad():
            losses = (loss(self.forward(leaves, x), y) * weight).sum(-1)
            gradients = torch.autograd.grad(
                losses.sum(), list(leaves.values()), materialize_grads=True
            )
        return losses.detach(), list(gradients)


class Model:
    """An architecture fitted to a data set's shape: its layout, initial weights, losses, gradients.

    `d` is the number of weights, `layout` says where each parameter lies in the flat vector. `mixed`
    computes layers in bfloat16, from weights and to gradients in float32.
    """

    def __init__(
        self,
        architecture: Architecture,
        shape: tuple[int, ...],
        classes: int,
        loss: Loss = cross_entropy,
        mixed: bool = False,
    ) -> None:
        architecture = architecture.fitted(shape, classes)
        self.architecture, self.shape, self.loss, self.mixed = architecture, shape, loss, mixed
        self.layout: list[Slot] = []
        self.d = 0
        parameters = architecture.parameters(shape, classes)
        layers = list(dict.fromkeys(name.rpartition(".")[0] for name, _ in parameters))
        shapes = dict(parameters)
        for name, size in parameters:
            layer, _, kind = name.rpartition(".")
            start = _start(kind, shapes.get(f"{layer}.weight", size))
            place = (self.d, self.d + prod(size), size, layers.index(layer))
            self.layout.append(Slot(name, *place, *start))
            self.d = place[1]

    def views(self, w: Tensor) -> dict[str, Tensor]:
        """The named parameters inside flat weights (d,) or (k, d), without a copy."""
        return {
            slot.name: w[..., slot.start : slot.stop].view(*w.shape[:-1], *slot.shape)
            for slot in self.layout
        }

    def initial(self, ids: Array, seed: int) -> Array:
        """Initial weights (k, d) of clients `ids` (k,): U(-r, r) with r = 1 / sqrt(fan in) for the
        weights and the bias of a layer, which is PyTorch's default for linear and convolution.

        The fan in is the length of a weight's row, so that an embedding of width e has r = 1 /
        sqrt(e). A layer whose weight is a vector normalises: weight 1, bias 0.
        """
        own = self.architecture.initial(ids, seed)
        if own is not None:
            return own
        rows, w = np.reshape(ids, (-1, 1)), np.empty((np.size(ids), self.d))
        for slot in self.layout:
            place = np.arange(slot.start, slot.stop)
            u = randomness.uniform("initial", seed, rows, place)
            w[:, slot.start : slot.stop] = slot.center + (2 * u - 1) * slot.radius
        return w

    def logits(self, w: Tensor, x: Tensor) -> Tensor:
        """(b, C) for weights (d,) and samples (b, *shape); (k, b, C) for (k, d), (k, b, *shape)."""
        return self.outputs(self.views(w), x)

    def outputs(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """The same from the named parameters."""
        like = next(iter(p.values()))
        with self._precision(like):
            return self.architecture.forward(p, x).to(like.dtype)

    def gradients(self, w: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Losses (k,) and gradients (k, d) at w (k, d); or () and (d,) at w (d,).

        See `Architecture.gradients`.
        """
        if w.dim() == 1 and not self.architecture.batchable:
            real = weight > 0
            x, y, weight = x[real], y[real], weight[real]
        losses, parts = self.gradient_parts(w, x, y, weight)
        return losses, torch.cat(parts, -1)

    def gradient_parts(
        self, w: Tensor, x: Tensor, y: Tensor, weight: Tensor, draw: int | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """The losses and gradients of `gradients`, each slot of the layout apart: (k, size) or (size,).
        Of one client without padding, if it is not `batchable`. `draw` seeds the random numbers of a
        training step; without it there are none.
        """
        architecture = self.architecture if draw is None else self.architecture.drawn(draw)
        with self._precision(w):
            losses, parts = architecture.gradients(self.views(w), x, y, weight, self.loss)
        return losses, [part.flatten(w.dim() - 1) for part in parts]

    def bytes_a_client(self, width: int, w: Tensor) -> int:
        """Memory that one of k clients takes in a batched step of `width` samples, with weights like
        `w`: five vectors of weights (start, gradient and its parts, direction, momentum), the samples
        and what the backward pass keeps of them.
        """
        kept = [prod(self.shape)]

        def note(tensor: Tensor) -> Tensor:
            kept.append(0 if tensor.untyped_storage().data_ptr() == weights else tensor.numel())
            return tensor

        flat = w.new_zeros(self.d)
        weights = flat.untyped_storage().data_ptr()
        leaves = {name: p.requires_grad_() for name, p in self.views(flat).items()}
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
            self.architecture.forward(leaves, w.new_zeros(1, *self.shape))
        return w.element_size() * (5 * self.d + width * sum(kept))

    def _precision(self, w: Tensor) -> torch.autocast:
        return torch.autocast(w.device.type, torch.bfloat16, enabled=self.mixed)


def _start(kind: str, weight: tuple[int, ...]) -> tuple[float, float]:
    """(center, radius) of a parameter of a layer with this weight's shape; see `Model.initial`."""
    if len(weight) == 1:
        return float(kind == "weight"), 0.0
    return 0.0, prod(weight[1:]) ** -0.5


# Parameters of layers


def dense(name: str, inputs: int, outputs: int) -> Parameters:
    """The parameters of a fully connected layer."""
    return [(f"{name}.weight", (outputs, inputs)), (f"{name}.bias", (outputs,))]


def convolution(name: str, inputs: int, outputs: int, kernel: int) -> Parameters:
    """The parameters of a convolution with square kernels."""
    shape = (outputs, inputs, kernel, kernel)
    return [(f"{name}.weight", shape), (f"{name}.bias", (outputs,))]


def check_images(model: str, shape: tuple[int, ...], side: int, because: str) -> None:
    """Raise `UserError` unless samples are images of at least `side` x `side` pixels."""
    if len(shape) != 3 or min(shape[1:]) < side:
        raise UserError(
            f"model {model} needs images (channels, height, width) of at least {side}x{side}, "
            f"because {because}; got {shape}"
        )


# Layers


def linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """x (b, i), w (o, i), b (o) -> (b, o); or with a leading k on all three."""
    if w.dim() == 2:
        return F.linear(x, w, b)
    if not (x.stride(0) or x.requires_grad or w.requires_grad):
        # All clients' weights on the same samples, which are then read once.
        same = F.linear(x[0], w.flatten(0, 1), b.flatten())
        return same.unflatten(-1, b.shape).transpose(0, 1)
    from trials.models.batched_linear import BatchedLinear

    outputs: Tensor = BatchedLinear.apply(x, w, b)
    return outputs


def vectors(x: Tensor, w: Tensor) -> Tensor:
    """Samples x (b, *shape) or (k, b, *shape) as vectors, for a linear weight w (o, i) or (k, o, i)."""
    return x.flatten(w.dim() - 1)


def conv2d(x: Tensor, w: Tensor, b: Tensor, padding: int = 0) -> Tensor:
    """x (b, i, h, w), w (o, i, q, q), b (o) -> (b, o, h', w'); or with a leading k on all three, as
    one grouped convolution.
    """
    if w.dim() == 4:
        return F.conv2d(channels_last(x), channels_last(w), b, padding=padding)
    k, n = x.shape[:2]
    grouped = x.transpose(0, 1).reshape(n, -1, *x.shape[3:])
    out = F.conv2d(grouped, w.flatten(0, 1), b.flatten(), padding=padding, groups=k)
    return out.view(n, k, -1, *out.shape[2:]).transpose(0, 1)


def channels_last(x: Tensor) -> Tensor:
    """x (b, c, h, w), laid out with the channels innermost on a CPU, which convolves and pools so in
    half the time. With one channel both layouts are the same memory and only strides tell them apart.
    """
    if x.device.type != "cpu":
        return x
    if x.shape[1] == 1 and x.is_contiguous():
        height, width = x.shape[2:]
        return x.as_strided(x.shape, (height * width, 1, width, 1))
    return x.contiguous(memory_format=torch.channels_last)


def pool2(x: Tensor) -> Tensor:
    """2x2 average pooling of (..., c, h, w)."""
    return F.avg_pool2d(x.flatten(0, -4), 2).unflatten(0, x.shape[:-3])


def max_pool2(x: Tensor, same: bool = False) -> Tensor:
    """2x2 max-pooling of (..., c, h, w); `same` keeps an odd side's last row: h' = ceil(h / 2)."""
    return F.max_pool2d(x.flatten(0, -4), 2, ceil_mode=same).unflatten(0, x.shape[:-3])


def embedding(x: Tensor, w: Tensor) -> Tensor:
    """Token ids x (b, t), a table w (V, e) -> (b, t, e); or with a leading k on both. Ids may be
    floats. Raises `UserError` for an id that is not in 0..V-1, on a CPU: a GPU's answer would have to
    be waited for, and there all samples are checked before the first step (`Architecture.check`).
    """
    ids, size = x.long(), w.shape[-2]
    if x.device.type == "cpu":
        check_tokens(ids, size)
    if w.dim() == 3:
        ids = ids + size * torch.arange(len(w), device=w.device).view(-1, 1, 1)
    return F.embedding(ids, w.flatten(0, -2))


def check_tokens(ids: Tensor | Array, size: int) -> None:
    """Raise `UserError` unless all token ids are in 0..size-1."""
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= size:
        raise UserError(
            f"token ids must be 0..{size - 1} for a model with a vocabulary of {size}, "
            f"but there are ids from {low} to {high}"
        )


def lstm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Hidden states (b, t, h) of x (b, t, i), w (4h, i + h), b (4h); or with a leading k on all.

    z = w [x_t; h_(t-1)] + b in four parts z_i, z_f, z_g, z_o; c_t = s(z_f) c_(t-1) + s(z_i) tanh z_g
    and h_t = s(z_o) tanh c_t with the logistic function s, from h_0 = c_0 = 0.
    """
    inputs = x.shape[-1]
    if w.dim() == 2:
        nothing = x.new_zeros(1, len(x), w.shape[1] - inputs)
        weights = [w[:, :inputs], w[:, inputs:], b, torch.zeros_like(b)]
        states: Tensor = torch.lstm(
            # cuDNN keeps what a backward pass needs in training mode only.
            *(x, (nothing, nothing), weights, True, 1, 0.0, w.requires_grad, False, True)
        )[0]
        return states
    ahead = linear(x.flatten(-3, -2), w[..., :inputs], b).unflatten(-2, x.shape[-3:-1])
    recurrent = w[..., inputs:].transpose(-1, -2)
    h = c = x.new_zeros(*x.shape[:-2], recurrent.shape[-2])
    found = []
    for z in ahead.unbind(-2):
        i, f, g, o = (z + h @ recurrent).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        found.append(h)
    return torch.stack(found, -2)
