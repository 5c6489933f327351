"""Models: PyTorch networks as functions of a flat weight vector, for one client or for k clients at once."""

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
ROWS = 7  # clients in the test of whether a client's bits depend on those computed with it


class Slot(NamedTuple):
    """The place of one parameter in the flat weight vector (`start` to `stop`), with its name, shape and layer."""

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]
    layer: int


@dataclass(frozen=True)
class Architecture:
    """A builder of networks. Its fields are the arguments in a model's name, such as 200 in `mlp(200)`."""

    summary: ClassVar[str]
    """The first line of the class's docstring."""
    linear: ClassVar[bool] = False
    """Whether outputs are W x + b with W (C, p) and b (C,) as the only parameters, in this order."""

    def __init_subclass__(cls) -> None:
        cls.summary = (cls.__doc__ or "").partition("\n")[0]

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return the network for samples of `shape`, with parameters in order of use. Raise `UserError` if no network fits the shape."""
        raise NotImplementedError

    def fitted(self, shape: tuple[int, ...], classes: int, frozen: bool) -> Network:
        """Return the network for samples of `shape`. `frozen` keeps BatchNorm's statistics at their initial values."""
        return _skeleton(self, shape, classes)


@cache
def _skeleton(architecture: Architecture, shape: tuple[int, ...], classes: int) -> Network:
    with torch.device("meta"):
        module = architecture.network(shape, classes)
    network = Network(module, shape)
    network.why_alone = getattr(module, "why_alone", "")
    network.channels_last = any(p.dim() == 4 for p in network.trained.values())
    # A network that begins by flattening the last dimensions takes k clients' samples too (`perceptron`).
    network.takes_rows = getattr(next(module.children(), None), "start_dim", 0) < 0
    return network


class Model:
    """A network for a data set's samples, with its layout, initial weights, losses and gradients. `d` is the number of
    weights. `layout` gives each parameter's place in the flat vector. `mixed` computes layers in bfloat16, while weights
    and gradients stay float32. `statistics` are BatchNorm's running statistics, or None. `one_by_one` is true if a sample's
    outputs do not depend on the rest of its batch.
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
        """Return the largest minibatch size for which a CPU saves time by computing several clients at once."""
        if not any(len(slot.shape) > 2 for slot in self.layout):
            return inf
        return 16.0 if self.d < 150_000 else 0.0

    def check(self, x: Array) -> None:
        """Raise `UserError` if the model cannot read samples x (N, *shape), such as token ids outside its vocabulary."""
        check = None if self.network.make else getattr(self.network.module, "check", None)
        if check is not None:
            check(x)

    def views(self, w: Tensor) -> dict[str, Tensor]:
        """Return each parameter by name, as a view of flat weights (d,) or (k, d)."""
        return {
            slot.name: w[..., slot.start : slot.stop].view((*w.shape[:-1], *slot.shape))
            for slot in self.layout
        }

    def initial(self, ids: Array, seed: int, weights: str = "default") -> Array:
        """Return initial weights (k, d) of clients `ids` (k,), drawn from U(-r, r). `default` has r = 1 / sqrt(fan_in), as in
        PyTorch; `glorot` r = sqrt(6 / (fan_in + fan_out)) and `he` r = sqrt(6 / fan_in), both with biases 0. A layer has
        fan_in inputs per output, and fan_out outputs per input. A user's own network starts as its code builds it.
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
        """Return outputs (b, C) for weights w (d,) and samples x (b, *shape). For w (k, d) and x (k, b, *shape), return (k, b, C)."""
        return self.outputs(self.views(w), x)

    def outputs(self, p: Mapping[str, Tensor], x: Tensor, purpose: str = EVALUATION) -> Tensor:
        """Return outputs for samples x and parameters p: (b, C), or (k, b, C) for k models. `purpose` is STEP, GRADIENT or EVALUATION."""
        like, tracked = next(iter(p.values())), dict[str, Tensor]()
        if (kept := self.statistics) is not None:
            tracked = kept.evaluating(like) if purpose == EVALUATION else kept.training(like)
        with self._precision(like):
            tensors = {**tracked, **self.network.constants(like), **p}
            return self.network(tensors, x, purpose).to(like.dtype)

    def gradients(self, w: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return losses (k,) and gradients (k, d) of k clients with weights w (k, d). One client's w (d,) gives shapes () and (d,)."""
        losses, parts = self.gradient_parts(w, x, y, weight)
        return losses, torch.cat(parts, -1)

    def gradient_parts(
        self, w: Tensor, x: Tensor, y: Tensor, weight: Tensor, draw: int | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Return each client's loss F_i = sum_b weight_ib loss(x_ib, y_ib), and the gradient of F_i for each parameter. For k
        clients, losses are (k,), gradients (k, size) and `weight` (k, b); for a single client (), (size,) and (b,). Padding
        has weight 0. `draw` seeds the random numbers of a training step; None computes a gradient without random numbers.
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
        """Return the losses (k,) of k softmax regressions, and the gradients of W and b. With outputs z = W x + b, the
        gradients are dF/dz = weight (softmax(z) - onehot(y)), dF/dW = (dF/dz)' x, and dF/db, the sum of dF/dz over samples.
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
        """Return whether computing several clients at once gives each the same bits as computing it alone. Compare gradients
        if `slopes`, else outputs. The result is kept for each minibatch size `width`, dtype, device and number of threads.
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

            joint, pair = computed(slice(0, ROWS)), computed(slice(1, 3))
            singly = torch.cat([computed(slice(row, row + 1)) for row in range(ROWS)])
            self.network.exact[key] = torch.equal(joint, singly) and torch.equal(joint[1:3], pair)
        return self.network.exact[key]

    def bytes_a_client(self, width: int, like: Tensor) -> int:
        """Return how many bytes a client needs in a batched step of `width` samples, in the dtype of `like`. These bytes hold the samples,
        the values kept for the backward pass, and five vectors as long as the weights (such as the gradient).
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
