"""FedUmf: clients that are not selected train, too, and fuse that update when they are selected next."""

from dataclasses import dataclass, replace

from trials.algorithm import State, real
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedUmf(FedAvg):
    """FedAvg in which all clients train in every round, and use their update when they are selected in the next one.
    The server sends theta to every client, and client i gets the update g_i = LocalSGD(theta) - theta. If it is
    selected in round t but was not in round t - 1, it starts from v = theta + alpha (eta_t / eta_{t-1}) g_i, with g_i
    of round t - 1 and eta_t the learning rate. Others start from theta. Then theta <- sum_S p_i w_i. alpha = 0, or
    participation 1, is FedAvg.

    g_i of an unselected client is needed only if the client is selected in the next round. It is computed then, by
    replaying the round before from theta_{t-1} with the client's own random numbers, which gives the same g_i. The work
    of all clients is counted in the round in which they do it.

    Equations: FedUmf Algorithm 1, section 3.2.
    Keeps: d (g_i).
    Down: N d.
    Up: K d.
    Reading: there is no update to fuse in round 1, so it is FedAvg's. Only the last update is fused, never a sum.
        Momentum starts anew each round. The paper takes plain means (`aggregation=plain`).
    """

    paper = "FedUmf"
    unsupported = {"init=own": "unselected clients train from one common model theta"}

    alpha: float = real(1.0, low=0.05, high=1.0, at_least=0, at_most=1)

    def init(self, fed: Federation) -> State:
        """Return the base class's state and a record of the previous round. The record has the tensors that the server sent,
        the float hyperparameters, and a mask (n,) of the selected clients, including those that did not answer.
        """
        state = super().init(fed)
        return {
            **state,
            **{f"past_{name}": state[name] for name in self.sent},
            "past_reals": torch.tensor(list(self._reals.values()), dtype=torch.float64),
            "past_selected": torch.ones(fed.n, dtype=torch.bool),
        }

    def start(self, state: State, ids: Tensor, fed: Federation) -> Tensor:
        """Return start weights (k, d): the server's. A client that trained but was not selected in the previous round adds that update, scaled."""
        theta, *_ = [fed.broadcast(fed.everyone, state[name]) for name in self.sent]
        idle = torch.ones(fed.n, dtype=torch.bool)
        idle[ids] = idle[fed.absent] = False
        # Idle clients' work is counted now, and computed a round later if they are selected then.
        fed.deferred(idle.nonzero()[:, 0])
        start = theta[fed.index(ids)]
        fused = ~state["past_selected"][ids]
        if fused.any():
            reals = dict(zip(self._reals, state["past_reals"].tolist(), strict=True))
            past = {**state, **{name: state[f"past_{name}"] for name in self.sent}}
            past_start = past["w"].expand(int(fused.sum()), -1)
            # The past round number gives the past minibatches.
            past_self = replace(self, **reals)
            past_end = past_self.train(past, ids[fused], past_start, fed, fed.round - 1)
            ratio = self.lr / reals["lr"] if reals["lr"] else 0.0
            rows = fed.index(fused.nonzero()[:, 0])
            start[rows] += self.fusion_rate * ratio * (past_end - past_start)
        return start

    @property
    def _reals(self) -> dict[str, float]:
        """Return this algorithm's float hyperparameters by name. `lr` is the learning rate of this round."""
        ranges = self.ranges().items()
        return {name: getattr(self, name) for name, span in ranges if span.type == "float"}

    @property
    def fusion_rate(self) -> float:
        """Return alpha, by which clients multiply their updates of the previous round."""
        return self.alpha

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Return the base class's new state and a record of this round: tensors sent, hyperparameters, selected clients."""
        selected = torch.zeros(fed.n, dtype=torch.bool)
        selected[ids] = selected[fed.absent] = True
        return {
            **super().aggregate(state, ids, start, local, fed),
            **{f"past_{name}": state[name] for name in self.sent},
            "past_reals": torch.tensor(list(self._reals.values()), dtype=torch.float64),
            "past_selected": selected,
        }
