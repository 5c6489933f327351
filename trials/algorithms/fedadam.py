"""FedAdam: Adam on the server, with the clients' mean update as its gradient."""

from dataclasses import dataclass

from trials.algorithm import real
from trials.algorithms.fedadagrad import FedAdagrad
from trials.common.tensors import Tensor


@dataclass(frozen=True)
class FedAdam(FedAdagrad):
    """FedAvg with Adam on the server: FedAdagrad with V <- beta2 V + (1 - beta2) Delta^2.

    Equations: Reddi et al. 2021, Algorithm 2.
    Keeps: nothing; the server M and V (2 d).
    Down: K d.
    Up: K d.
    Reading: M = 0 and V = tau^2 at the start, without bias correction. beta1, beta2 and tau are FedAgg's values. FedAgg
        does not state the server rate.
    """

    any_optimizer = True

    beta1: float = real(0.9, low=0.0, high=0.99, searched=False, at_least=0, at_most=1)
    beta2: float = real(0.99, low=0.9, high=0.999, searched=False, at_least=0, at_most=1)

    def second_moment(self, V: Tensor, delta: Tensor) -> Tensor:
        return self.beta2 * V + (1 - self.beta2) * delta**2
