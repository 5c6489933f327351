"""DeFed: there is no server; clients average with their neighbours and take their own steps."""

from dataclasses import dataclass

from trials import topology
from trials.algorithm import Algorithm, Devices, Scored, State, choice
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation
from trials.models.base import Model
from trials.settings import Settings


@dataclass(frozen=True)
class DeFed(Algorithm):
    """Decentralised SGD: w_k <- sum_j W_kj w_j - lr s_k g_k, with minibatch gradient g_k at the old w_k of client k.
    W is the mixing matrix of `topology`: ring(2), ring(4), ..., complete, star, erdos_renyi(p), or file:PATH of a
    symmetric, doubly stochastic matrix that connects all clients. For n clients, s_k is n m_k / m
    (`grad_scale=samples`), 1 (`one`) or m_k / m (`printed`).

    Equations: DeFed (5)-(6), Algorithm 2.
    Keeps: d (its own model); there is no server.
    Down: 0.
    Up: 0 (peer to peer: d for each neighbour, K l d in a ring of degree l).
    Reading: the printed factor of a client's gradient, s_k = m_k / m, makes the mean model n times slower than FedAvg
        at the same rate. The paper's figures suggest s_k = 1, for its equal clients. The default s_k = n m_k / m is 1
        for equal clients, too. With it the mean model follows the gradient of the sample-weighted objective, as
        FedAvg's does. The paper takes one step between exchanges (`local_steps=1`) with all clients
        (`participation=1`). With more local work, the displacement of LocalSGD at rate lr s_k replaces the step. With
        partial participation, an edge counts only if both of its clients take part. Its weight otherwise goes to the
        diagonal, so that W stays doubly stochastic. A random graph is drawn from the partition seed. The mean of the
        clients' scores is ranked, since no client has the average model. The average model is scored beside it.
        consensus_error is sqrt(mean_k |w_k - mean w|^2).
    """

    paper = "DeFed"
    requires = {
        "participation": (
            1.0,
            "neighbours exchange models only in rounds in which both take part, so clients nearly "
            "train alone",
        )
    }

    topology: str = choice(
        "ring(2)",
        ("ring(2)", "ring(4)", "ring(6)", "ring(8)", "complete", "star"),
        other=topology.canonical,
    )
    grad_scale: str = choice("samples", ("samples", "one", "printed"), searched=False)

    def check(self, clients: int, model: Model, settings: Settings) -> None:
        """Raise `UserError` if the topology has no mixing matrix for this number of clients."""
        topology.parse(self.topology).matrix(clients, settings.partition_seed)

    def init(self, fed: Federation) -> State:
        """Return the clients' models `W` (n, d), and their mixing matrix `mixing` (n, n) on the CPU."""
        matrix = topology.parse(self.topology).matrix(fed.n, fed.settings.partition_seed)
        mixing = torch.from_numpy(matrix).to(fed.dtype)
        return {"W": fed.initial(fed.everyone), "mixing": mixing}

    def round(self, state: State, fed: Federation) -> State:
        """Return the state after each selected client mixed its neighbours' old models and added its own step."""
        w, ids = state["W"], fed.select().unique()
        scale, rows = w.new_ones(len(ids)), fed.index(ids)
        if self.grad_scale != "one":
            times = fed.n if self.grad_scale == "samples" else 1
            scale = fed.tensor(times * fed.data.sizes[ids.numpy()] / fed.data.sizes.sum())
        # Mixing and the step both start from the old models, so their order does not matter.
        moved = fed.train(ids, w[rows], self.lr * scale, lambda w, g: g) - w[rows]
        mixed = fed.exchange(w, among(state["mixing"], ids))
        return {**state, "W": mixed.index_add(0, rows, moved)}

    def scored(self, state: State, fed: Federation) -> Scored:
        w = state["W"]
        return {"clients": Devices(w, w.new_ones(len(w)) / len(w)), "average": w.mean(0)}

    def measured(self, state: State, fed: Federation) -> dict[str, float]:
        """Return `consensus_error`, the root mean squared distance of the clients' models from their average."""
        apart = state["W"] - state["W"].mean(0)
        return {"consensus_error": float(apart.norm(dim=1).pow(2).mean().sqrt())}


def among(mixing: Tensor, ids: Tensor) -> Tensor:
    """Return the mixing matrix (n, n) of a round in which only clients `ids` are active. Weights of other edges move to the diagonal."""
    active = mixing.new_zeros(len(mixing))
    active[ids] = 1
    edges = mixing * active * active.unsqueeze(1)
    edges.fill_diagonal_(0)
    return edges + torch.diag(1 - edges.sum(1))
