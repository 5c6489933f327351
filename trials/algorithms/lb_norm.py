"""Norm-based sampling: devices are drawn with probabilities proportional to their gradients' norms."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedprox import FedProx
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class LBNorm(FedProx):
    """FedProx's clients, drawn by gradient norm: S <- K draws with replacement from P_k ~ |g_k|; w <- mean_S w_k.

    Equations: FOLB III-D.2.
    Keeps: nothing.
    Down: N d.
    Up: N + K d: each device sends one number; a device drawn twice sends its model once.
    Reading: the mean over draws is plain, and repeats count. All devices are needed, so the method is a reference
        and not ranked. The draws use the same uniform numbers as the study's other methods.
    """

    paper = "FOLB"
    reference = True
    unsupported = {"init=own": "gradients are compared at one common model w"}

    def round(self, state: State, fed: Federation) -> State:
        """Return the state after one round. Devices are drawn in proportion to |importance|, and their models are averaged."""
        w = fed.broadcast(fed.everyone, state["w"])
        importance = self.importance(state, w, fed)
        ids = fed.draw(importance.abs())
        rows = fed.index(ids)
        local = fed.upload(ids, self.train(state, ids, w[rows], fed))
        # The sign in (5) reverses the update of a device with negative importance.
        local = torch.where(importance[rows].unsqueeze(1) < 0, 2 * w[rows] - local, local)
        return {**state, "w": local.mean(0)}

    def importance(self, state: State, w: Tensor, fed: Federation) -> Tensor:
        """Return each device's importance |g_k|, (n,), where g_k is its full gradient at row k of w (n, d)."""
        return fed.upload(fed.everyone, fed.gradient(fed.everyone, w).norm(dim=1))
