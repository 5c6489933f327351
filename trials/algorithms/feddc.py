"""FedDC: each client's drift is learned and corrected, in weights and in gradients."""

from dataclasses import dataclass
from typing import ClassVar

from trials.algorithm import State
from trials.algorithms.feddyn import FedDyn
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedDC(FedDyn):
    """FedDyn's penalty with SCAFFOLD-like corrections of gradients.
    w_k ~ argmin_v F_k(v) + (a_k / 2) |v - (w - h_k)|^2 + <v, g / om_k - g_k>; delta_k = w_k - w; h_k <- h_k + delta_k;
    g_k' = g_k - g / om_k - delta_k / (J_k lr) after J_k local steps; g <- g + (1 / N) sum_S om_k (g_k' - g_k);
    w <- mean_S w_k + (1 / N) sum_k h_k. om_k and a_k are those of `feddyn`.

    Equations: Gao et al. 2022, Algorithm 1.
    Keeps: 2 d (h_k, g_k); the server the mean drift and g (2 d).
    Down: 2 K d.
    Up: 2 K d.
    Reading: the correction divides by the current learning rate where it decays (the authors' code: by the undecayed
        one). Gradients are clipped as the study says (the authors' code: at 10).
    """

    paper = "Gao et al. 2022"
    sent: ClassVar[tuple[str, ...]] = ("w", "g")
    unsupported = {
        **FedDyn.unsupported,
        "momentum": "the mean gradient is computed from w_k - w, which momentum distorts",
    }

    def init(self, fed: Federation) -> State:
        """Return FedDyn's initial state plus gradient estimates, all 0: `g` (d,) of the server, and `g_k` (n, d) of the clients."""
        state = super().init(fed)
        return {**state, "g": torch.zeros_like(state["w"]), "g_k": fed.client_rows()}

    def rows(self, state: State, ids: Tensor, fed: Federation) -> dict[str, Tensor]:
        """Return the tensors that local steps need: FedDyn's, and `correction` (k, d) = g / om_k - g_k. Here g and g_k are the
        gradient estimates of the server and the client. om_k is the client's aggregation weight over the mean weight.
        """
        share = state["g"] / fed.relative_size(ids).unsqueeze(1)
        return {**super().rows(state, ids, fed), "correction": share - state["g_k"][ids]}

    def direction(self, w: Tensor, g: Tensor, start: Tensor, **rows: Tensor) -> Tensor:
        return super().direction(w, g, start, **rows) + rows["correction"]

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Return the state after FedDyn's aggregation, with new gradient estimates `g` and `g_k`."""
        om, steps = fed.relative_size(ids).unsqueeze(1), fed.steps(ids).unsqueeze(1)
        # As in SCAFFOLD, the displacement gives the mean gradient of the local steps.
        moved = self.displacement(state, start, local) / (self.lr * steps)
        change = fed.upload(ids, -state["g"] / om - moved)
        state["g_k"].write(ids, state["g_k"][ids] + change)
        g = state["g"] + (om * change).sum(0) / fed.n
        return {**super().aggregate(state, ids, start, local, fed), "g": g}
