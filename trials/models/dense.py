"""Linear models and multilayer perceptrons, for samples of any shape."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from trials.common.errors import UserError
from trials.common.tensors import F, Tensor, torch
from trials.models.base import Architecture, Parameters, dense, linear, vectors
from trials.scoring.losses import Loss, cross_entropy


@dataclass(frozen=True)
class Linear(Architecture):
    """W x + b: linear regression, one output for a task of one number (DeFed's sine)."""

    summary: ClassVar[str] = "linear regression"
    linear: ClassVar[bool] = True
    exact_rows: ClassVar[bool] = True

    def parameters(self, shape: tuple[int, ...], classes: int) -> Parameters:
        return dense("out", prod(shape), classes)

    def forward(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return linear(vectors(x, p["out.weight"]), p["out.weight"], p["out.bias"])


@dataclass(frozen=True)
class LogisticRegression(Linear):
    """Multinomial logistic regression: softmax(W x + b). Its gradient is closed-form."""

    summary: ClassVar[str] = "multinomial logistic regression"

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
    exact_rows: ClassVar[bool] = True
    width1: int = 200
    width2: int = 200

    def __post_init__(self) -> None:
        if min(self.width1, self.width2) < 1:
            raise UserError(f"model mlp: widths >= 1 must hold, got {self.width1}, {self.width2}")

    def parameters(self, shape: tuple[int, ...], classes: int) -> Parameters:
        return [
            *dense("hidden1", prod(shape), self.width1),
            *dense("hidden2", self.width1, self.width2),
            *dense("out", self.width2, classes),
        ]

    def forward(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        h = F.relu(linear(vectors(x, p["hidden1.weight"]), p["hidden1.weight"], p["hidden1.bias"]))
        h = F.relu(linear(h, p["hidden2.weight"], p["hidden2.bias"]))
        return linear(h, p["out.weight"], p["out.bias"])
