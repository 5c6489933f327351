"""Norm-based sampling: devices are drawn by the length of their gradient."""

from dataclasses import dataclass

from trials.algorithms.lb_optimal import LBOptimal
from trials.common.tensors import Tensor
from trials.engine.federation import Federation


@dataclass(frozen=True)
class LBNorm(LBOptimal):
    """S <- K draws with replacement from P_k ~ |g_k|; w <- mean_S w_k on FedProx.

    Equations: FOLB III-D.2.
    Keeps: nothing.
    Down: N d.
    Up: N + K d: each device sends one number; a device drawn twice sends its model once.
    Reading: as `lb_optimal`.
    """

    def importance(self, g: Tensor, fed: Federation) -> Tensor:
        """|g_k|, (n,)."""
        return fed.upload(fed.everyone, g.norm(dim=1))
