"""Extended SAFL: a device uploads with a probability that falls with the gap between its score and the server's."""

from dataclasses import dataclass

from trials.algorithm import State, real
from trials.algorithms.safl import SAFL
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class SAFLExtended(SAFL):
    """SAFL in which a device uploads with probability q_k, and the server averages the uploads that it receives.
    q_k = exp(-gap_k / nu) and gap_k = |h(z_bar) - h(z_k)| / (h(z_bar) + h(z_k) + 1e-6). h is the accuracy on the
    device's data (for a regression, the mean squared error). nu -> infinity is SAFL. If no device uploads, the server
    keeps its model.

    Equations: SAFL Algorithm 2, (24)-(26).
    Keeps: d (its own weights).
    Down: K d (none in round 1).
    Up: (number of uploads) d.
    Reading: both accuracies are measured on the device's training data, for the server's model as received and for its
        own after training. In round 1 there is no server model, and all devices upload. The paper does not give nu.
        Accuracy alone would drive nu to "always upload", so it is searched only in studies that bound `uploaded_bytes`.
    """

    any_optimizer = True

    nu: float = real(
        0.25, low=0.01, high=10.0, log=True, searched=False, under="uploaded_bytes", above=0
    )

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Return the state after SAFL's aggregation over the clients that upload. All clients keep their own trained weights."""
        state["z"].write(ids, local)  # also of devices that do not upload
        sends = self.sends(state, ids, local, fed)
        if not sends.any():
            return state
        rows = fed.index(sends.nonzero()[:, 0])
        return super().aggregate(state, ids[sends], start[rows], local[rows], fed)

    def sends(self, state: State, ids: Tensor, local: Tensor, fed: Federation) -> Tensor:
        """Draw which clients upload, with the probabilities of equations (24) and (25). Return booleans (k,) on the CPU."""
        if fed.round == 1:
            return torch.ones(len(ids), dtype=torch.bool)
        server = fed.score(ids, state["w"].expand_as(local))
        device = fed.score(ids, local)
        gap = (server - device).abs() / (server + device + 1e-6)
        return (fed.uniform("coin", ids, 1)[:, 0] < (-gap / self.nu).exp()).cpu()
