r"""DP-FedAvg: clipped updates and Gaussian noise, with the privacy that is spent (McMahan et al. 2018).

    suite sweep quickstart --algorithms fedavg,examples/dp_fedavg.py:DPFedAvg \
        --set selection=independent --set aggregation=plain --name private

records `epsilon` beside the scores.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trials.algorithm import State, real
from trials.algorithms.fedavg import FedAvg
from trials.engine.federation import SERVER, Federation


def epsilon(q: float, noise: float, rounds: int, delta: float) -> float:
    """Return the epsilon at `delta` of `rounds` sampled Gaussian mechanisms: sampling rate q, standard deviation
    `noise` times the clip. The best of the whole Renyi orders 2 to 255, by Mironov et al. 2019 (Section 3.3)
    and Mironov 2017 (Proposition 3).
    """
    best, k = math.inf, torch.arange(256, dtype=torch.float64)
    for a in range(2, 256):
        j = k[: a + 1]
        ways = math.lgamma(a + 1) - torch.lgamma(j + 1) - torch.lgamma(a - j + 1)
        drawn = torch.special.xlogy(j, j.new_tensor(q)) + torch.special.xlog1py(
            a - j, j.new_tensor(-q)
        )
        moment = (ways + drawn + (j * j - j) / (2 * noise**2)).logsumexp(0)
        best = min(best, (rounds * float(moment) - math.log(delta)) / (a - 1))
    return best if rounds else 0.0


@dataclass(frozen=True)
class DPFedAvg(FedAvg):
    """w <- w + (sum_S clip(w_k - w, S) + N(0, (noise S)^2)) / (q N), clip(u, S) = u min(1, S / |u|).

    Equations: McMahan et al. 2018, Algorithm 1, flat clipping, the fixed-denominator estimator.
    Keeps: nothing.
    Down: K d.
    Up: K d.
    Reading: q is `participation`. Neighbouring data differ in all samples of one client.
    """

    paper = "McMahan et al. 2018"
    requires = {
        "selection": ("independent", "epsilon is that of clients drawn independently"),
        "aggregation": ("plain", "a weight by size would change how much one client can move"),
    }
    unsupported = {"init=own": "updates are differences from one common model w"}

    clip: float = real(1.0, low=0.1, high=10.0, log=True, above=0)
    noise: float = real(1.0, low=0.3, high=3.0, log=True, at_least=0, searched=False)
    delta: float = real(1e-5, low=1e-8, high=1e-2, log=True, above=0, searched=False)

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Return the noisy mean of the clipped updates."""
        delta = local - start
        scale = (self.clip / delta.norm(dim=1, keepdim=True)).clamp(max=1.0)
        total = fed.upload(ids, delta * scale).sum(0)
        if self.noise:
            u = fed.uniform("dp_fedavg", torch.tensor([SERVER]), fed.d)[0]
            total = total + self.noise * self.clip * torch.special.ndtri(u.clamp(min=1e-12))
        return {**state, "w": state["w"] + total / (fed.settings.participation * fed.n)}

    def measured(self, state: State, fed: Federation) -> dict[str, float]:
        """Return the epsilon that is spent so far, where there is noise."""
        q = fed.settings.participation
        return {"epsilon": epsilon(q, self.noise, fed.round, self.delta)} if self.noise else {}
