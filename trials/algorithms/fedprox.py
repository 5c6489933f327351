"""FedProx: FedAvg with a proximal term that keeps clients near the model that they start from."""

from dataclasses import dataclass

from trials.algorithm import real
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg on local objectives h_k(v; w) = F_k(v) + (mu / 2) |v - w|^2: a local step follows g + mu (v - w).
    mu = 0 is FedAvg.

    Equations: Li et al. 2020, Algorithm 2; FOLB (3).
    Keeps: nothing.
    Down: K d.
    Up: K d.
    Reading: clients that do fewer steps take part. FOLB's FedNu is FedProx with `selection=with_replacement` and
        `aggregation=plain`.
    """

    paper = "Li et al. 2020"
    any_optimizer = True

    mu: float = real(0.01, low=1e-4, high=1.0, log=True, at_least=0)

    def direction(self, w: Tensor, g: Tensor, start: Tensor, **rows: Tensor) -> Tensor:
        return g + self.mu * (w - start)
