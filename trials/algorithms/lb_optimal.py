"""LB-near-optimal sampling: devices are drawn by how well their gradient agrees with the global one."""

from dataclasses import dataclass

from trials.algorithm import State, choice, real
from trials.algorithms.folb import inexactness
from trials.algorithms.lb_norm import LBNorm
from trials.common.tensors import Tensor
from trials.engine.federation import Federation


@dataclass(frozen=True)
class LBOptimal(LBNorm):
    """FedProx's clients, drawn by agreement of gradients: S <- K draws with replacement from P_k ~ |I_k|.
    w <- w + mean_S sign(I_k) delta_k, delta_k = w_k - w.

    - variant `plain` (7): I_k = <grad f(w), g_k>;
    - variant `heterogeneity` (16): I_k = <grad f(w), g_k> - psi gamma_k |grad f(w)|^2, gamma_k as in `folb`.

    Equations: FOLB (5), (7), (16), III-D.1 (direct sampling).
    Keeps: nothing.
    Down: N d.
    Up: (N + K) d, under (16) also N; a device drawn twice sends its model once.
    Reading: the global gradient is the mean over all devices with the study's aggregation weights. Devices are drawn as in
        (7), and the update has the signs of (5), which the paper's bound (8) needs. Under (16) all devices train before
        the draw. All else is as in `lb_norm`.
    """

    variant: str = choice("plain", ("plain", "heterogeneity"), searched=False)
    psi: float = real(
        1.0, low=0.1, high=100.0, log=True, when={"variant": "heterogeneity"}, at_least=0
    )

    def importance(self, state: State, w: Tensor, fed: Federation) -> Tensor:
        everyone = fed.everyone
        g = fed.upload(everyone, fed.gradient(everyone, w))
        mean = fed.weights(everyone) @ g
        agreement = g @ mean
        if self.variant == "heterogeneity":
            # gamma_k is known only after training, so all devices train before the draw.
            local = self.train(state, everyone, w, fed)
            gamma = inexactness(self, everyone, w, local, g, fed)
            agreement = agreement - self.psi * fed.upload(everyone, gamma) * (mean @ mean)
        return agreement
