"""ASTW: newer uploads weigh more, and deep layers are exchanged only in some rounds."""

import math
from dataclasses import dataclass

from trials.algorithm import State, real, whole
from trials.algorithms.fedavg import FedAvg
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation


@dataclass(frozen=True)
class ASTW(FedAvg):
    """The mean over all clients' newest uploads, weighted by size and age, with a schedule for deep layers.
    For each part P of the layers that round t exchanges: w_P <- sum_k q_k w_k,P / sum_k q_k with
    q_k = m_k A^-(t - tau_k(P)), over all clients that ever uploaded P. The server keeps each client's newest upload of
    P, and the round tau_k(P) in which it came. Shallow layers are exchanged in every round. Rounds form loops of `loop`
    rounds, and deep layers are exchanged only in the last `deep_share` of a loop, at least in one round. Clients
    continue the other layers from their own last weights.

    Equations: Chen, Sun and Jin 2020, Algorithms 1-3.
    Keeps: d (its own weights); the server N d and the rounds of uploads.
    Down: K d in rounds that exchange deep layers, else K d_shallow.
    Up: the same.
    Reading: weights of the mean are divided by their sum, which the paper does not print. The first half of the layers,
        at least one, is shallow; in LeNet-5 these are the convolutions. A model of one layer has no deep layers. With
        `init=own`, the server sends a part only after a client has uploaded it. A = e/2 and 5 of 15 rounds are the
        paper's values; SAFL states none.
    """

    paper = "Chen et al. 2020"
    any_optimizer = True

    A: float = real(math.e / 2, low=1.0, high=math.e, at_least=1)
    loop: int = whole(15, low=1, high=30, searched=False, above=0)
    deep_share: float = real(1 / 3, low=0.0, high=1.0, searched=False, at_least=0, at_most=1)

    def init(self, fed: Federation) -> State:
        """Return the server's `w` (d,), the clients' weights `z` (n, d), their newest `uploads` (n, d), and `stamp` (2, n) on the CPU.
        `stamp` holds the rounds in which each client last uploaded its shallow and its deep layers, or 0 for never.
        """
        return {
            **super().init(fed),
            "z": fed.client_rows(fed.initial),
            "uploads": fed.client_rows(),
            "stamp": torch.zeros(2, fed.n, dtype=fed.dtype),
        }

    def parts(self, fed: Federation) -> list[slice]:
        """Return the slices of the flat weights (d,) that this round exchanges: the shallow layers, or all."""
        layers = fed.model.layout[-1].layer + 1
        middle = next((s.start for s in fed.model.layout if s.layer >= max(1, layers // 2)), fed.d)
        position = (fed.round - 1) % self.loop
        # Deep layers are exchanged in the last rounds of each loop.
        due = position >= self.loop - max(1, round(self.deep_share * self.loop))
        return [slice(0, middle), slice(middle, fed.d)][: 1 + (due and middle < fed.d)]

    def start(self, state: State, ids: Tensor, fed: Federation) -> Tensor:
        """Return start weights (k, d): the server's in the layers to exchange, the client's own elsewhere."""
        start = state["z"][ids].clone()
        for uploaded, part in zip(state["stamp"].any(1), self.parts(fed), strict=False):
            # With own initial weights the server has no values of a part until a client uploads it.
            if uploaded or fed.settings.init != "own":
                start[:, part] = fed.broadcast(ids, state["w"][part])
        return start

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Return the state after averaging all clients' newest uploads, weighted by sample count and age."""
        state["z"].write(ids, local)
        uploads, stamp, w = state["uploads"], state["stamp"].clone(), state["w"].clone()
        newest = uploads[ids].clone()  # a part that is not exchanged keeps its last upload
        for i, part in enumerate(self.parts(fed)):
            newest[:, part] = fed.upload(ids, local[:, part])
            stamp[i, ids] = fed.round
        uploads.write(ids, newest)
        for i, part in enumerate(self.parts(fed)):
            owners = stamp[i].nonzero()[:, 0]
            q = fed.weights(owners) * fed.tensor(self.A ** (stamp[i, owners] - fed.round))
            w[part] = q / q.sum() @ uploads[owners][:, part]
        return {**state, "w": w, "stamp": stamp}

    def personal(self, state: State, fed: Federation) -> Tensor:
        weights: Tensor = state["z"][fed.everyone]
        return weights
