"""Centralised training: the reference that trains on all clients' data at once."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedavg import FedAvg
from trials.engine.federation import Federation


@dataclass(frozen=True)
class Centralized(FedAvg):
    """SGD on the pooled training data, with as many samples a round as the selected clients would process together.

    Equations: none; the baseline rows of SAFL, and of all five papers in spirit.
    Keeps: nothing, as all data are in one place.
    Down: 0.
    Up: 0.
    Reading: minibatches have the study's batch size; under `batch_size=full`, the mean client's number of samples. All
        minibatches are full, so there are fewer than on clients, whose last minibatch of a pass may be short. Momentum
        starts anew each round, as it does on clients. It is a reference, and not ranked.
    """

    paper = "reference"
    any_optimizer = True
    reference = True

    def round(self, state: State, fed: Federation) -> State:
        return {**state, "w": fed.train_pooled(fed.select(), state["w"], self.lr)}
