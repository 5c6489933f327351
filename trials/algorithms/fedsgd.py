"""FedSGD: one server step along the mean of the clients' full gradients."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedavg import FedAvg
from trials.engine.federation import Federation


@dataclass(frozen=True)
class FedSGD(FedAvg):
    """One step a round along the mean gradient: w <- w - lr sum_S p_k g_k, g_k = grad F_k(w) on the client's full data.

    Equations: McMahan et al. 2017 (C, E = 1, B = infinity); SAFL cites Chen et al. 2016.
    Keeps: nothing.
    Down: K d.
    Up: K d.
    Reading: a client takes one full local gradient a round, whatever local epochs, steps and batch size the study sets.
        Momentum has no effect: it belongs to local steps and starts anew each round.
    """

    unsupported = {"init=own": "gradients are taken at one common model w"}

    def round(self, state: State, fed: Federation) -> State:
        ids = fed.select()
        g = fed.gradient(ids, fed.broadcast(ids, state["w"]))
        step = fed.weights(ids) @ fed.upload(ids, fed.clipped(g))
        return {**state, "w": state["w"] - self.lr * step}
