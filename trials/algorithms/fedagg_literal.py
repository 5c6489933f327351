"""FedAgg as printed: step sizes from a fixed point, which is zero."""

from dataclasses import dataclass

from trials.algorithm import State, real, whole
from trials.algorithms.fedagg import mean_fields
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedAggLiteral(FedAvg):
    """FedAgg's printed algorithm: step sizes eta_{i,l} from a fixed-point iteration whose only fixed point is zero.
    Repeat: each client solves eta_{i,l} = c <phi1_l, sum_{k > l} (w_{i,k} - phi2_k)> along
    w_{i,l+1} = w_{i,l} - eta_{i,l} phi1_l, with c = (1 - alpha) / alpha. Then phi1_l = mean_i grad F_i(w_{i,l}) and
    phi2_l = mean_i w_{i,l}. Stop when both change by less than `tolerance`, or after `max_sweeps`. Last,
    w_{i,l+1} = w_{i,l} - eta_{i,l} grad F_i(w_{i,l}) and w <- sum_S p_i w_{i,L}.

    The fixed point is zero. All clients start at w and follow the same phi1, so for given phi they solve the same
    strictly convex problem and their w_{i,k} agree. At a fixed point phi2_k is their mean, hence w_{i,k} = phi2_k,
    every inner product vanishes, and eta_{i,l} = 0 for all i and l, whatever the data. Other step sizes come from
    stopping early, so they depend on `tolerance`, `max_sweeps` and the starting values. Compare `fedagg`.

    Equations: FedAgg (11), (12), Theorem 1, Algorithms 1 and 2.
    Keeps: nothing.
    Down: (1 + 2 L (sweeps + 1)) K d.
    Up: (1 + 2 L (sweeps + 1)) K d.
    Reading: the mean-field terms phi are computed in every round, from its model and its selected clients. The
        iteration stops when the changes of both terms have norms below the tolerance. Epochs l count from 0. The
        starting values, "any" in the paper, are those of full-gradient descent at rate lr. The rates for training are
        solved from the last phi. Each local epoch takes one full gradient.
    """

    paper = "FedAgg"
    unsupported = {
        "init=own": "the mean fields belong to one common model w",
        "local_steps": "step sizes belong to whole local epochs",
        "system": "step sizes belong to L whole local epochs, and all devices take all of them",
        "momentum": "Algorithm 2 takes plain steps along full gradients",
    }

    alpha: float = real(0.1, low=0.01, high=1.0, log=True, above=0)
    tolerance: float = real(1e-3, low=1e-6, high=0.1, log=True, searched=False, above=0)
    max_sweeps: int = whole(50, low=1, high=10000, log=True, searched=False, above=0)

    def round(self, state: State, fed: Federation) -> State:
        """Compute step sizes by Algorithm 1, train with them by Algorithm 2, and return the new state."""
        ids = fed.select()
        start = self.start(state, ids, fed)
        rates = start.new_full((fed.settings.local_epochs,), self.lr)
        phi1, phi2 = mean_fields(ids, *self.descend(ids, start, rates, fed), fed)
        for _ in range(self.max_sweeps):
            rates = self.rates(state["w"], phi1, phi2)
            moves = (rates.unsqueeze(1) * phi1).cumsum(0)
            path = torch.cat([state["w"].unsqueeze(0), state["w"] - moves])
            before1, before2 = phi1, phi2
            rows = path.expand(len(ids), -1, -1)
            g = torch.stack([fed.gradient(ids, w) for w in rows[:, :-1].unbind(1)], 1)
            phi1, phi2 = mean_fields(ids, rows, g, fed)
            change1, change2 = (phi1 - before1).norm(), (phi2 - before2).norm()
            change = torch.where(change2 > change1, change2, change1)
            if not change >= self.tolerance:  # NaN stops it, too
                break
        rates = self.rates(state["w"], phi1, phi2)
        path, _ = self.descend(ids, start, rates, fed)
        return self.aggregate(state, ids, start, path[:, -1], fed)

    def rates(self, w: Tensor, phi1: Tensor, phi2: Tensor) -> Tensor:
        """Return the step sizes (L,) of L local epochs, equal for all clients. `w` (d,) are the clients' start weights. `phi1` (L, d) has
        their mean gradient before each epoch, and `phi2` (L + 1, d) their mean weights at the start and after each epoch.
        """
        # Theorem 1: (I + c A) eta = c b with A_lr = (L - max(l, r)) <phi1_l, phi1_r>, b_l = sum_{k > l} <phi1_l, w - phi2_k>.
        c, L = (1 - self.alpha) / self.alpha, len(phi1)
        index = torch.arange(L, device=w.device)
        A = (L - torch.maximum(index[:, None], index)) * (phi1 @ phi1.T)
        b = (phi1 * (w - phi2[1:]).flip(0).cumsum(0).flip(0)).sum(1)
        identity = torch.eye(L, dtype=w.dtype, device=w.device)
        return torch.linalg.solve_ex(identity + c * A, c * b).result

    def descend(
        self, ids: Tensor, start: Tensor, rates: Tensor, fed: Federation
    ) -> tuple[Tensor, Tensor]:
        """Return points (k, L + 1, d) and gradients (k, L, d) of full-gradient descent from `start` at `rates` (L,)."""
        path, gradients = [start], []
        for eta in rates:
            gradients.append(fed.gradient(ids, path[-1]))
            path.append(path[-1] - eta * fed.clipped(gradients[-1]))
        return torch.stack(path, 1), torch.stack(gradients, 1)
