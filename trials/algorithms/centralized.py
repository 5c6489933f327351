"""Centralised training: the reference that sees all clients' data at once."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedavg import FedAvg
from trials.engine.federation import Federation


@dataclass(frozen=True)
class Centralized(FedAvg):
    """w <- SGD(w) on the pooled training data, as many samples a round as the selected clients would
    have gone through together.

    Equations: none; the baseline rows of SAFL, and of all five papers in spirit.
    Keeps: everything is in one place.
    Down: 0.
    Up: 0.
    Reading: minibatches have the study's batch size; under `batch_size=full` the mean client's
        number of samples. Clients' short last minibatches make fewer, full ones here. Momentum starts anew each round, as it does on clients. A reference, not
        ranked.
    """

    paper = "reference"
    any_optimizer = True
    reference = True

    def round(self, state: State, fed: Federation) -> State:
        return {**state, "w": fed.train_pooled(fed.select(), state["w"], self.lr)}
