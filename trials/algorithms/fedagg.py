"""FedAgg: each client's step size in each local epoch follows from two mean-field terms."""

from dataclasses import dataclass

from trials.algorithm import State, choice, real, whole
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedAgg(FedAvg):
    """FedAvg in which a first local pass gives each client a step size eta_{i,l} for each epoch l of a second pass.
    In the first pass client i trains at eta_0 = lr. It has weights w_{i,k} after k = 0..L epochs, and full gradients
    grad F_i(w_{i,l}). With phi1_l = mean_S grad F_i(w_{i,l}), phi2_k = mean_S w_{i,k},
    v_{i,l} = sum_{k > l} (w_{i,k} - phi2_k) and c = (1 - alpha) / alpha, the step sizes are

    - scaling `cosine`: eta_{i,l} = clip(eta_0 (1 + c cos(phi1_l, v_{i,l})), 0, eta_max eta_0),
    - scaling `raw` (the paper's units): eta_{i,l} = clip(eta_0 + c <phi1_l, v_{i,l}>, 0, eta_max eta_0).

    With these, clients train again from w, and w <- sum_S p_i w_{i,L}. alpha = 1 is FedAvg at eta_0.

    Equations: FedAgg (5), (7), (10)-(12), Theorem 1, Algorithm 2.
    Keeps: nothing.
    Down: (2 L sweeps + 1) K d.
    Up: (2 L sweeps + 1) K d.
    Reading: the step sizes of the printed fixed point are 0 for every client (see `fedagg_literal`). Here deviation
        from a base rate eta_0 = lr is penalised instead, which explains why the paper lists a rate. `raw` mostly
        saturates the clip, and is kept to show that. The cosine is 0 where one of its vectors is only rounding noise:
        shorter than max(16 eps, 1e-12) times the vectors that it is computed from, with eps of the dtype.
        `local_direction=own` follows the client's gradient (Algorithm 2). `mean` follows the mean gradient phi1_l (11):
        an epoch of J minibatches moves by -J eta_{i,l} phi1_l. The terms phi are plain means over the selected clients.
        `sweeps` is how often phi, step sizes and training are repeated. The paper counts K d each way; here all w_{i,k},
        gradients and their means are counted, too. The default alpha, under which step sizes fall where the cosine is
        positive, came closest to the best scores in recorded trials. The paper's 0.1 is `published`.
    """

    paper = "FedAgg"
    unsupported = {
        "init=own": "step sizes compare clients that start from one common model w",
        "local_steps": "step sizes belong to whole local epochs",
        "system": "step sizes belong to L whole local epochs, and all devices take all of them",
    }

    home = {"local_epochs": "its paper's clients train several local epochs, each at its own rate"}

    alpha: float = real(5.0, low=0.001, high=10.0, log=True, above=0)
    scaling: str = choice("cosine", ("cosine", "raw"))
    local_direction: str = choice("own", ("own", "mean"))
    sweeps: int = whole(1, low=1, high=3, searched=False, above=0)
    eta_max: float = real(10.0, low=1.0, high=100.0, log=True, searched=False, above=0)

    def round(self, state: State, fed: Federation) -> State:
        """Run a round and return the new state. Clients train at eta_0, then `sweeps` times more at step sizes computed from their last training."""
        ids = fed.select()
        start = self.start(state, ids, fed)
        path = fed.trajectory(ids, start, self.lr, self.direction, start=start)
        for _ in range(self.sweeps):
            g = torch.stack([fed.gradient(ids, w) for w in path[:, :-1].unbind(1)], 1)
            phi1, phi2 = mean_fields(ids, path, g, fed)
            eta = self.rates(path, g, phi1, phi2)
            if self.local_direction == "own":
                path = fed.trajectory(ids, start, eta, self.direction, start=start)
            else:
                # The steps of an epoch along phi1 add up to one move, which needs no gradient.
                moves = eta.unsqueeze(2) * phi1 * (fed.steps(ids) / eta.shape[1])[:, None, None]
                path = torch.cat([path[:, :1], path[:, :1] - moves.cumsum(1)], 1)
        return self.aggregate(state, ids, start, path[:, -1], fed)

    def rates(self, path: Tensor, g: Tensor, phi1: Tensor, phi2: Tensor) -> Tensor:
        """Return each client's step size in each epoch, eta (k, L). `path` (k, L + 1, d) has the clients' weights at the start and after
        each epoch, `g` (k, L, d) their gradients at the start of each. `phi1` and `phi2` are the means of `g` and `path` over clients.
        """
        c = (1 - self.alpha) / self.alpha
        # In reversed order, cumsum adds up all later epochs.
        v = (path - phi2)[:, 1:].flip(1).cumsum(1).flip(1)
        agreement = (phi1 * v).sum(2)
        if self.scaling == "raw":
            eta = self.lr + c * agreement
        else:
            # The cosine of a vector of rounding noise would be random.
            noise = max(1e-12, 16 * torch.finfo(v.dtype).eps)
            size1, size2 = phi1.norm(dim=1), v.norm(dim=2)
            scale2 = path.norm(dim=2)[:, 1:].flip(1).cumsum(1).flip(1)
            signal = (size1 > noise * g.norm(dim=2).mean(0)) & (size2 > noise * scale2)
            eta = self.lr * (1 + c * torch.where(signal, agreement / (size1 * size2), 0.0))
        return eta.clamp(0.0, self.eta_max * self.lr)


def mean_fields(ids: Tensor, path: Tensor, g: Tensor, fed: Federation) -> tuple[Tensor, Tensor]:
    """Return means over clients: of gradients, phi1 (L, d), and of weights, phi2 (L + 1, d). `g` (k, L, d) has each client's
    gradient before each of L epochs. `path` (k, L + 1, d) has its weights at the start and after each epoch. Count the bytes
    sent: `g` and `path` to the server, the means back. Start weights are not sent, since all know them.
    """
    phi1, phi2 = fed.upload(ids, g).mean(0), path.mean(0)
    fed.upload(ids, path[:, 1:])
    fed.broadcast(ids, phi1)
    fed.broadcast(ids, phi2[1:])
    return phi1, phi2
