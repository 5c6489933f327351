"""FedMedian: the coordinate-wise median of the clients' weights (Yin et al. 2018, Algorithm 1).

A whole algorithm in one file, outside the package:

    suite sweep quickstart --algorithms fedavg,examples/fedmedian.py:FedMedian --name median

tunes it under the same protocol as the built-in ones and ranks it beside them. An installed package
offers one under a short name with an entry point in its pyproject.toml:

    [project.entry-points."suite.algorithms"]
    fedmedian = "my_package.fedmedian:FedMedian"
"""

from dataclasses import dataclass

from torch import Tensor

from trials.algorithm import State, real
from trials.algorithms.fedavg import FedAvg
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedMedian(FedAvg):
    """w <- w + server_lr median_S(w_k - w), coordinate by coordinate; even counts take the mean of
    the two middle values.

    Equations: Yin et al. 2018, Algorithm 1, with local training in the place of gradients.
    Keeps: nothing.
    Down: K d.
    Up: K d.
    Reading: sizes do not weigh.
    """

    paper = "Yin et al. 2018"

    server_lr: float = real(1.0, low=0.3, high=3.0, log=True)

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Return the server's step."""
        delta = fed.upload(ids, local) - state["w"]
        return {**state, "w": state["w"] + self.server_lr * delta.quantile(0.5, dim=0)}
