"""FedDyn: a linear term for each client makes its local optimum agree with the global one."""

from dataclasses import dataclass

from trials.algorithm import Scored, State, real
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedDyn(FedAvg):
    """FedAvg with a dynamic regulariser for each client.
    w_k ~ argmin_v F_k(v) - <g_k, v> + (a_k / 2) |v - w|^2; g_k <- g_k - a_k (w_k - w);
    h <- h - a (1 / N) sum_S (w_k - w); w <- mean_S w_k - h / a.

    The code keeps the drift h_k = -g_k / a_k instead. A step follows g + a_k (v - (w - h_k)), then h_k <- h_k + w_k - w
    and w <- mean_S w_k + (1 / N) sum_k h_k. a_k = alpha / om_k and om_k = N p_k, with p_k the aggregation weight among
    all clients. om_k = 1 where `aggregation` is plain.

    Equations: Acar et al. 2021, Algorithm 1.
    Keeps: d (h_k); the server the mean drift (d).
    Down: K d.
    Up: K d.
    Reading: the mean over the selected clients is plain, and the penalties a_k carry the aggregation weights, as in the
        authors' code. The server's model is ranked. `selected`, the mean of the clients' models, is scored beside it,
        since the code reports both. Clients approximate the argmin by the study's local SGD.
    """

    paper = "Acar et al. 2021"
    any_optimizer = True
    unsupported = {
        "init=own": "drift is measured from one common model w",
        "selection=with_replacement": "the server's h is the mean of client states, which change once a round",
    }

    alpha: float = real(0.01, low=1e-4, high=1.0, log=True, at_least=0)

    def init(self, fed: Federation) -> State:
        """Return the initial state. Weights `w`, mean drift `mean_h` and mean client model `selected` are (d,), and drifts `h` are (n, d)."""
        state = super().init(fed)
        zeros = torch.zeros_like(state["w"])
        return {**state, "mean_h": zeros, "selected": state["w"], "h": fed.client_rows()}

    def rows(self, state: State, ids: Tensor, fed: Federation) -> dict[str, Tensor]:
        """Return the centres w - h_k (k, d) of the penalty as `target`, and the penalty's factors a_k (k, 1) as `a`."""
        a = self.alpha / fed.relative_size(ids)
        return {"target": state["w"] - state["h"][ids], "a": a.unsqueeze(1)}

    def direction(self, w: Tensor, g: Tensor, start: Tensor, **rows: Tensor) -> Tensor:
        return g + rows["a"] * (w - rows["target"])

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Return the next state: h_k <- h_k + w_k - w for selected clients, then w <- mean_S w_k + (1 / n) sum_k h_k."""
        delta = self.displacement(state, start, local)
        state["h"].write(ids, state["h"][ids] + delta)
        mean_h = state["mean_h"] + delta.sum(0) / fed.n
        selected = fed.upload(ids, local).mean(0)
        return {**state, "w": selected + mean_h, "mean_h": mean_h, "selected": selected}

    def displacement(self, state: State, start: Tensor, local: Tensor) -> Tensor:
        """Return w_k - w (k, d), each client's trained weights minus the server's weights."""
        return local - state["w"]

    def scored(self, state: State, fed: Federation) -> Scored:
        """Return the server's model as `server`, and the mean model of the last selected clients as `selected`."""
        return {**super().scored(state, fed), "selected": state["selected"]}
