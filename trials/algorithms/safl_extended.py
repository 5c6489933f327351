"""Extended SAFL: a device uploads with a probability that falls with how far it is from the server."""

from dataclasses import dataclass

from trials.algorithm import State, real
from trials.algorithms.safl import SAFL
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class SAFLExtended(SAFL):
    """q_k = exp(-gap_k / nu), gap_k = |h(z_bar) - h(z_k)| / (h(z_bar) + h(z_k) + 1e-6); a device
    uploads with probability q_k, and the server averages what it received.

    h is the accuracy on the device's data (of a regression, its mean squared error). nu -> infinity is SAFL. If nobody uploads the server
    keeps its model.

    Equations: SAFL Algorithm 2, (24)-(26).
    Keeps: d (its own weights).
    Down: K d (none in round 1).
    Up: (number of uploads) d.
    Reading: h is measured on the device's training data, of z_bar as it came and z_k after training
        (two evaluation passes). In round 1 there is no z_bar and everyone uploads. nu is not given in
        the paper, and accuracy alone would drive it to "always upload", so it is searched only in
        studies that bound `uploaded_bytes`.
    """

    any_optimizer = True

    nu: float = real(
        0.25, low=0.01, high=10.0, log=True, searched=False, under="uploaded_bytes", above=0
    )

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Aggregate as SAFL the clients whose coin says that they upload."""
        state["z"].write(ids, local)  # of silent devices, too
        sends = self.sends(state, ids, local, fed)
        if not sends.any():
            return state
        rows = fed.index(sends.nonzero()[:, 0])
        return super().aggregate(state, ids[sends], start[rows], local[rows], fed)

    def sends(self, state: State, ids: Tensor, local: Tensor, fed: Federation) -> Tensor:
        """Return whether each client uploads by (24), (25), (k,) on the CPU."""
        if fed.round == 1:
            return torch.ones(len(ids), dtype=torch.bool)
        server = fed.score(ids, state["w"].expand_as(local))
        device = fed.score(ids, local)
        gap = (server - device).abs() / (server + device + 1e-6)
        return (fed.uniform("coin", ids, 1)[:, 0] < (-gap / self.nu).exp()).cpu()
