"""Clients whose loss is a parabola, with answers on paper."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from tests.support.simulations import partitioned
from trials.federated_data import FederatedData
from trials.models.base import Architecture
from trials.scoring.metrics import REGRESSION


class Parabola(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        curvature, optimum = x.unbind(-1)
        return (curvature.sqrt() * (self.weight - optimum)).unsqueeze(-1)


@dataclass(frozen=True)
class Quadratic(Architecture):
    """F_k(w) = mean_i a_i (w - b_i)^2 / 2 of samples (a_i, b_i), half a squared error from 0: one weight."""

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return Parabola()


def parabolas(held: list[int], curvature: np.ndarray, optimum: np.ndarray) -> FederatedData:
    """Clients with so many samples each, all of a client the same."""
    data = partitioned(held, shape=(2,), classes=1)
    data.dataset.x[data.train] = np.repeat(np.stack([curvature, optimum], 1), held, axis=0)
    y = np.zeros(len(data.dataset.y), np.float32)
    data.dataset.x[data.test] = 1.0
    return replace(data, dataset=replace(data.dataset, y=y, task=REGRESSION))
