"""FedYogi: Adam on the server, with a second moment that moves towards Delta^2 at a bounded speed."""

from dataclasses import dataclass

from trials.algorithms.fedadam import FedAdam
from trials.common.tensors import Tensor


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """FedAvg with Yogi on the server: FedAdam with V <- V - (1 - beta2) Delta^2 sign(V - Delta^2).

    Equations: Reddi et al. 2021, Algorithm 2.
    Keeps: nothing; the server M and V (2 d).
    Down: K d.
    Up: K d.
    Reading: as `fedadam`. FedAgg does not state FedYogi's betas, so FedAdam's are used.
    """

    any_optimizer = True

    def second_moment(self, V: Tensor, delta: Tensor) -> Tensor:
        return V - (1 - self.beta2) * delta**2 * (V - delta**2).sign()
