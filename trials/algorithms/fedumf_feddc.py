"""FedUmf combined with FedDC, as in FedUmf's Appendix A."""

from dataclasses import dataclass

from trials.algorithm import State, choice, real
from trials.algorithms.feddc import FedDC
from trials.algorithms.fedumf import FedUmf
from trials.common.tensors import Tensor


@dataclass(frozen=True)
class FedUmfFedDC(FedUmf, FedDC):
    """FedUmf whose clients solve FedDC's local problem around the server's model theta, with FedDC's states and server.
    `fusion` is FedUmf's alpha, and `alpha` is FedDC's. fusion = 0 is FedDC.

    Equations: FedUmf Appendix A, Algorithm 1; Gao et al. 2022, Algorithm 1.
    Keeps: 3 d (g_i of FedUmf, h_k and g_k of FedDC); the server the mean drift and g (2 d).
    Down: 2 N d.
    Up: 2 K d.
    Reading: the paper does not say how the two combine. A client that trains while unselected uses its FedDC states h_k
        and g_k, and does not change them. FedDC's displacement of client i is w_i - theta, which includes
        the fusion (`displacement_from=theta`), or w_i - v, where v is the start after fusion (`start`).
    """

    unsupported = {**FedUmf.unsupported, **FedDC.unsupported}

    alpha: float = real(0.01, low=1e-4, high=1.0, log=True, at_least=0)
    fusion: float = real(1.0, low=0.05, high=1.0, at_least=0, at_most=1)
    displacement_from: str = choice("theta", ("theta", "start"))

    @property
    def fusion_rate(self) -> float:
        return self.fusion

    def displacement(self, state: State, start: Tensor, local: Tensor) -> Tensor:
        return local - (start if self.displacement_from == "start" else state["w"])
