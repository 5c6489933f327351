r"""FedBuff: clients train asynchronously, and the server steps when a buffer is full (Nguyen et al. 2022).

suite sweep quickstart --algorithms fedavg,examples/fedbuff.py:FedBuff \
        --heterogeneity "iid+speed(1)" --name async
suite leaderboard async --at seconds     # what each scores in the time that the fastest one takes
"""

from dataclasses import dataclass

import torch

from trials.algorithm import State, real, whole
from trials.algorithms.fedavg import FedAvg
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedBuff(FedAvg):
    """w <- w + server_lr sum_B p_k s(tau_k) (w_k - w^(t - tau_k)), s(tau) = 1 / sqrt(1 + tau), once `buffer`
    updates B have arrived; update k began tau_k steps ago. A round is one such step.

    Equations: Nguyen et al. 2022, Algorithms 1 and 2.
    Keeps: C d (the updates of the clients that still train).
    Down: about K d, K = `buffer`.
    Up: K d.
    Reading: C = participation n clients train at a time. Another begins where one arrives, with the newest w; a
        client begins once in a step, which has fewer updates where none is left. p_k is by `aggregation`.
    """

    paper = "Nguyen et al. 2022"
    unsupported = {"init=own": "updates are differences from one common model w"}

    server_lr: float = real(1.0, low=0.1, high=10.0, log=True, above=0)
    buffer: int = whole(10, low=2, high=20, log=True, at_least=1)

    def init(self, fed: Federation) -> State:
        """`w` (d,), and of the a clients that train: their `ids`, the round `since` which, the seconds `left` (a,),
        and the `update` (a, d) that they will send.
        """
        none = torch.empty(0, dtype=torch.int64)
        update = torch.empty(0, fed.d, dtype=fed.dtype, device=fed.device)
        kept = {"ids": none, "since": none, "left": none.double(), "update": update}
        return {**super().init(fed), **kept}

    def round(self, state: State, fed: Federation) -> State:
        """Wait for the buffer, then step; what began meanwhile began at the same w."""
        ids, since, update = state["ids"], state["since"], state["update"]
        arrived, training, new = self.events(ids.tolist(), state["left"].tolist(), fed)
        if new:
            begun = torch.tensor(new)
            start = self.start(state, begun, fed)
            update = torch.cat([update, self.train(state, begun, start, fed) - start])
            ids, since = (
                torch.cat([ids, begun]),
                torch.cat([since, torch.full_like(begun, fed.round)]),
            )
        here, rest = (torch.tensor([at for _, at in of]).long() for of in (arrived, training))
        fed.took = now = arrived[-1][0]
        left = torch.tensor([end - now for end, _ in training], dtype=torch.float64)
        share = fed.weights(ids[here]) * fed.tensor((1 + fed.round - since[here]).double().rsqrt())
        w = state["w"] + self.server_lr * share @ fed.upload(ids[here], update[fed.index(here)])
        kept = {"ids": ids[rest], "since": since[rest], "update": update[fed.index(rest)]}
        return {"w": w, "left": left, **kept}

    def events(self, ids: list[int], left: list[float], fed: Federation) -> tuple[list, list, list]:
        """Who arrives and who still trains, as (seconds, place in `ids` and then new ones), and who begins."""
        takes = fed.seconds(fed.everyone).tolist()
        waiting = [k for k in fed.shuffled("fedbuff").tolist() if k not in ids]
        training, arrived, new, now = [(end, at) for at, end in enumerate(left)], [], [], 0.0
        while len(arrived) < self.buffer and (training or waiting):
            while waiting and len(training) < fed.count:
                new.append(waiting.pop(0))
                training.append((now + takes[new[-1]], len(ids) + len(new) - 1))
            arrived.append(min(training))
            training.remove(arrived[-1])
            now = arrived[-1][0]
        return arrived, training, new
