"""Models as functions of a flat weight vector, written once for one client and for k clients.

A model is a frozen dataclass whose fields are the arguments of its name (`mlp(200,200)`); it states
the shapes of its parameters and a `forward`. Weights are (d,) for one client or (k, d) for k; the
layer functions below tell the two apart by the number of dimensions, so that a forward reads the
same for both. A new model is one class and one entry of `MODELS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from trials import names, randomness
from trials.errors import UserError
from trials.losses import Loss, cross_entropy

Array = npt.NDArray[Any]


class Slot(NamedTuple):
    """One parameter tensor inside the flat vector: its name, place, shape and layer (from 0)."""

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]
    layer: int


class Architecture(ABC):
    """What an entry of `MODELS` is."""

    summary: ClassVar[str]
    batched_on_cpu: ClassVar[bool] = True
    """Whether a CPU is faster with k clients at once than with one after the other."""

    @abstractmethod
    def parameters(self, shape: tuple[int, ...], classes: int) -> list[tuple[str, tuple[int, ...]]]:
        """(name, shape) of each parameter, `LAYER.weight` before `LAYER.bias`; raises `UserError`
        when samples of `shape` do not fit.
        """

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
            gradients = torch.autograd.grad(losses.sum(), list(leaves.values()))
        return losses.detach(), list(gradients)


def linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """x (b, i), w (o, i), b (o) -> (b, o); or with a leading k on all three."""
    if w.dim() == 2:
        return F.linear(x, w, b)
    return torch.baddbmm(b.unsqueeze(1), x, w.transpose(1, 2))


def conv2d(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """x (b, i, h, w), w (o, i, q, q), b (o) -> (b, o, h', w'), no padding; or with a leading k on
    all three, as one grouped convolution.
    """
    if w.dim() == 4:
        return F.conv2d(x, w, b)
    k, n = x.shape[:2]
    grouped = x.transpose(0, 1).reshape(n, -1, *x.shape[3:])
    out = F.conv2d(grouped, w.flatten(0, 1), b.flatten(), groups=k)
    return out.view(n, k, -1, *out.shape[2:]).transpose(0, 1)


def pool2(x: Tensor) -> Tensor:
    """2x2 average pooling of (..., c, h, w)."""
    return F.avg_pool2d(x.flatten(0, -4), 2).unflatten(0, x.shape[:-3])


def vectors(x: Tensor, w: Tensor) -> Tensor:
    """Samples x (b, *shape) or (k, b, *shape) as vectors, for a linear weight w (o, i) or (k, o, i)."""
    return x.flatten(w.dim() - 1)


@dataclass(frozen=True)
class LogisticRegression(Architecture):
    """Multinomial logistic regression: softmax(W x + b). Its gradient is closed-form."""

    summary: ClassVar[str] = "multinomial logistic regression"

    def parameters(self, shape: tuple[int, ...], classes: int) -> list[tuple[str, tuple[int, ...]]]:
        """See `Architecture`."""
        return _dense("out", prod(shape), classes)

    def forward(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """See `Architecture`."""
        return linear(vectors(x, p["out.weight"]), p["out.weight"], p["out.bias"])

    def gradients(
        self, p: Mapping[str, Tensor], x: Tensor, y: Tensor, weight: Tensor, loss: Loss
    ) -> tuple[Tensor, list[Tensor]]:
        """dF/dz = weight (softmax(z) - onehot(y)); dF/dW = dz' x, dF/db = sum_b dz. For the
        cross-entropy of k clients; one client takes the general way, and so checks this one.
        """
        if y.dim() == 1 or loss is not cross_entropy:
            return super().gradients(p, x, y, weight, loss)
        x = vectors(x, p["out.weight"])
        logp = torch.log_softmax(linear(x, p["out.weight"], p["out.bias"]), -1)
        label = y.unsqueeze(-1)
        losses = -(logp.gather(-1, label).squeeze(-1) * weight).sum(-1)
        dz = logp.exp_().scatter_add_(-1, label, torch.full_like(logp[..., :1], -1.0))
        dz = dz.mul_(weight.unsqueeze(-1))
        return losses, [torch.bmm(dz.transpose(1, 2), x), dz.sum(1)]


@dataclass(frozen=True)
class MLP(Architecture):
    """Two hidden layers with ReLU; the default is McMahan's 2NN (200, 200)."""

    summary: ClassVar[str] = "two hidden layers with ReLU (default 200, 200: McMahan's 2NN)"
    width1: int = 200
    width2: int = 200

    def __post_init__(self) -> None:
        if min(self.width1, self.width2) < 1:
            raise UserError(f"model mlp: widths >= 1 must hold, got {self.width1}, {self.width2}")

    def parameters(self, shape: tuple[int, ...], classes: int) -> list[tuple[str, tuple[int, ...]]]:
        """See `Architecture`."""
        return [
            *_dense("hidden1", prod(shape), self.width1),
            *_dense("hidden2", self.width1, self.width2),
            *_dense("out", self.width2, classes),
        ]

    def forward(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """See `Architecture`."""
        h = F.relu(linear(vectors(x, p["hidden1.weight"]), p["hidden1.weight"], p["hidden1.bias"]))
        h = F.relu(linear(h, p["hidden2.weight"], p["hidden2.bias"]))
        return linear(h, p["out.weight"], p["out.bias"])


@dataclass(frozen=True)
class LeNet5(Architecture):
    """LeNet-5 of SAFL's Table II: conv 5x5x6, pool, conv 5x5x16, pool, 120, 84, C; no padding.

    44,426 weights at 28x28x1 with 10 classes. Average pooling as printed; the activation is not
    stated there, ReLU is taken.
    """

    summary: ClassVar[str] = "LeNet-5 without padding (SAFL Table II), images of 16x16 and more"
    batched_on_cpu: ClassVar[bool] = False

    def parameters(self, shape: tuple[int, ...], classes: int) -> list[tuple[str, tuple[int, ...]]]:
        """See `Architecture`."""
        if len(shape) != 3 or min(shape[1:]) < 16:
            raise UserError(
                f"model lenet5 needs images (channels, height, width) of at least 16x16, "
                f"because two unpadded 5x5 convolutions and poolings leave nothing of less; got {shape}"
            )
        height, width = (((side - 4) // 2 - 4) // 2 for side in shape[1:])
        return [
            ("conv1.weight", (6, shape[0], 5, 5)),
            ("conv1.bias", (6,)),
            ("conv2.weight", (16, 6, 5, 5)),
            ("conv2.bias", (16,)),
            *_dense("hidden1", 16 * height * width, 120),
            *_dense("hidden2", 120, 84),
            *_dense("out", 84, classes),
        ]

    def forward(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        """See `Architecture`."""
        h = pool2(F.relu(conv2d(x, p["conv1.weight"], p["conv1.bias"])))
        h = pool2(F.relu(conv2d(h, p["conv2.weight"], p["conv2.bias"]))).flatten(-3)
        h = F.relu(linear(h, p["hidden1.weight"], p["hidden1.bias"]))
        h = F.relu(linear(h, p["hidden2.weight"], p["hidden2.bias"]))
        return linear(h, p["out.weight"], p["out.bias"])


MODELS: dict[str, type[Architecture]] = {
    "logreg": LogisticRegression,
    "mlp": MLP,
    "lenet5": LeNet5,
}


def parse(text: str) -> Architecture:
    """The model a name stands for; raises `UserError` on an unknown name or a bad argument."""
    model: Architecture = names.parse("model", text, MODELS)
    return model


def canonical(text: str) -> str:
    """The canonical spelling of a model's name."""
    return names.spell(text.split("(")[0].strip(), parse(text))


def _dense(name: str, inputs: int, outputs: int) -> list[tuple[str, tuple[int, ...]]]:
    return [(f"{name}.weight", (outputs, inputs)), (f"{name}.bias", (outputs,))]


class Model:
    """An architecture fitted to a data set's shape: its layout, initial weights, losses, gradients.

    `d` is the number of weights, `layout` says where each parameter lies in the flat vector.
    """

    def __init__(
        self,
        architecture: Architecture,
        shape: tuple[int, ...],
        classes: int,
        loss: Loss = cross_entropy,
    ) -> None:
        self.architecture, self.loss = architecture, loss
        self.layout: list[Slot] = []
        layers: list[str] = []
        self.d = 0
        for name, size in architecture.parameters(shape, classes):
            layer = name.rpartition(".")[0]
            if layer not in layers:
                layers.append(layer)
            slot = Slot(name, self.d, self.d + prod(size), size, layers.index(layer))
            self.layout.append(slot)
            self.d = slot.stop

    def views(self, w: Tensor) -> dict[str, Tensor]:
        """The named parameters inside flat weights (d,) or (k, d), without a copy."""
        return {
            slot.name: w[..., slot.start : slot.stop].view(*w.shape[:-1], *slot.shape)
            for slot in self.layout
        }

    def initial(self, ids: Array, seed: int) -> Array:
        """Initial weights (k, d) of clients `ids` (k,): U(-r, r) with r = 1 / sqrt(fan in) for the
        weights and the bias of a layer, which is PyTorch's default for linear and convolution.
        """
        fan_in = {s.layer: prod(s.shape[1:]) for s in self.layout if s.name.endswith("weight")}
        radius = np.concatenate(
            [np.full(s.stop - s.start, fan_in[s.layer] ** -0.5) for s in self.layout]
        )
        u = randomness.uniform("initial", seed, np.reshape(ids, (-1, 1)), np.arange(self.d))
        return (2 * u - 1) * radius

    def logits(self, w: Tensor, x: Tensor) -> Tensor:
        """(b, C) for weights (d,) and samples (b, *shape); (k, b, C) for (k, d), (k, b, *shape)."""
        return self.architecture.forward(self.views(w), x)

    def gradients(self, w: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Losses (k,) and gradients (k, d) at w (k, d); or () and (d,) at w (d,).

        See `Architecture.gradients`.
        """
        losses, parts = self.architecture.gradients(self.views(w), x, y, weight, self.loss)
        return losses, torch.cat([part.flatten(w.dim() - 1) for part in parts], -1)
