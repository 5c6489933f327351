"""FedUmf: clients that were not selected train too, and fuse that update when their turn comes."""

from dataclasses import dataclass, replace

from trials.algorithm import State, real
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedUmf(FedAvg):
    """Every client receives theta and trains: g_i = LocalSGD(theta) - theta. One selected now but not
    in the round before starts from v = theta + alpha (eta_t / eta_{t-1}) g_i, its g_i of the round
    before; theta <- mean_S w_i. alpha = 0, or participation 1, is FedAvg.

    g_i of an unselected client is needed only if it is selected in the next round. So it is computed
    then, by replaying the round before from theta_{t-1} with the client's own random numbers, which
    gives the same g_i; the work of all clients is counted in the round in which they do it.

    Equations: FedUmf Algorithm 1, section 3.2.
    Keeps: d (g_i).
    Down: N d.
    Up: K d.
    Reading: g_1 = 0 and eta_0 = eta_1, so round 1 is FedAvg's. Only the last displacement is fused,
        never a sum. Momentum starts anew each round. The paper averages plainly
        (`aggregation=plain`).
    """

    paper = "FedUmf"
    unsupported = {"init=own": "unselected clients train from one common model theta"}

    alpha: float = real(1.0, low=0.05, high=1.0, at_least=0, at_most=1)

    def init(self, fed: Federation) -> State:
        """Return the base's state, and from the round before: what was sent, the real hyperparameters (a decay changes the
        rate), and who was selected (n,), answering or not.
        """
        state = super().init(fed)
        return {
            **state,
            **{f"past_{name}": state[name] for name in self.sent},
            "past_reals": torch.tensor(list(self._reals.values()), dtype=torch.float64),
            "past_selected": torch.ones(fed.n, dtype=torch.bool),
        }

    def start(self, state: State, ids: Tensor, fed: Federation) -> Tensor:
        """Return theta (k, d), plus the fusion rate times the last update of those who were not selected in the round before."""
        theta, *_ = [fed.broadcast(fed.everyone, state[name]) for name in self.sent]
        idle = torch.ones(fed.n, dtype=torch.bool)
        idle[ids] = idle[fed.absent] = False
        # Idle clients train now, by the count; they are computed a round later, if they are selected.
        fed.deferred(idle.nonzero()[:, 0])
        start = theta[fed.index(ids)]
        fused = ~state["past_selected"][ids]
        if fused.any():
            reals = dict(zip(self._reals, state["past_reals"].tolist(), strict=True))
            past = {**state, **{name: state[f"past_{name}"] for name in self.sent}}
            before = past["w"].expand(int(fused.sum()), -1)
            # The past round number brings the past minibatches.
            then = replace(self, **reals).train(past, ids[fused], before, fed, fed.round - 1)
            ratio = self.lr / reals["lr"] if reals["lr"] else 0.0
            rows = fed.index(fused.nonzero()[:, 0])
            start[rows] += self.fusion_rate * ratio * (then - before)
        return start

    @property
    def _reals(self) -> dict[str, float]:
        """Return the hyperparameters that a round may change, since a rate decays."""
        ranges = self.ranges().items()
        return {name: getattr(self, name) for name, span in ranges if span.type == "float"}

    @property
    def fusion_rate(self) -> float:
        """Return alpha, which FedUmf-FedDC calls otherwise."""
        return self.alpha

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Aggregate as the base, and remember this round as the one before."""
        selected = torch.zeros(fed.n, dtype=torch.bool)
        selected[ids] = selected[fed.absent] = True
        return {
            **super().aggregate(state, ids, start, local, fed),
            **{f"past_{name}": state[name] for name in self.sent},
            "past_reals": torch.tensor(list(self._reals.values()), dtype=torch.float64),
            "past_selected": selected,
        }
