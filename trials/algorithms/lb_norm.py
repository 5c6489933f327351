"""Norm-based sampling: devices are drawn by the length of their gradient."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedprox import FedProx
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class LBNorm(FedProx):
    """S <- K draws with replacement from P_k ~ |g_k|; w <- mean_S w_k on FedProx.

    Equations: FOLB III-D.2.
    Keeps: nothing.
    Down: N d.
    Up: N + K d: each device sends one number; a device drawn twice sends its model once.
    Reading: the plain mean of the draws, repeats counted. Needs all devices, so it is a reference and
        not ranked; the draws map the study's uniform numbers through P.
    """

    paper = "FOLB"
    reference = True
    unsupported = {"init=own": "gradients are compared at one common model w"}

    def round(self, state: State, fed: Federation) -> State:
        """Ask all devices how much they matter, draw some by that, and train these."""
        w = fed.broadcast(fed.everyone, state["w"])
        importance = self.importance(state, w, fed)
        ids = fed.draw(importance.abs())
        rows = fed.index(ids)
        local = fed.upload(ids, self.train(state, ids, w[rows], fed))
        # A device whose importance is negative is turned around, by the sign in (5).
        local = torch.where(importance[rows].unsqueeze(1) < 0, 2 * w[rows] - local, local)
        return {**state, "w": local.mean(0)}

    def importance(self, state: State, w: Tensor, fed: Federation) -> Tensor:
        """Return |g_k|, (n,), at the rows w (n, d)."""
        return fed.upload(fed.everyone, fed.gradient(fed.everyone, w).norm(dim=1))
