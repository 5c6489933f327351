"""Local training only: the reference that never communicates."""

from dataclasses import dataclass

from trials.algorithm import Algorithm, Devices, Scored, State
from trials.engine.federation import Federation


@dataclass(frozen=True)
class LocalOnly(Algorithm):
    """Local training without communication: selected clients continue their own models, w_k <- LocalSGD(w_k).

    Equations: none; SAFL with epsilon = 0 and p = 1.
    Keeps: d (its own model).
    Down: 0.
    Up: 0.
    Reading: only selected clients train, so that the work equals the federated run's. The score is the sample-weighted
        mean of the clients' scores on the common test set. It is a reference, ranked only under `metric: personal`.
    """

    paper = "reference"
    any_optimizer = True
    reference = True
    ranked_under = "personal"

    def init(self, fed: Federation) -> State:
        """Return the clients' initial models `z` (n, d)."""
        return {"z": fed.client_rows(fed.initial)}

    def round(self, state: State, fed: Federation) -> State:
        ids = fed.select()
        local = fed.train(ids, state["z"][ids], self.lr, lambda w, g: g)
        state["z"].write(ids, local)
        return state

    def scored(self, state: State, fed: Federation) -> Scored:
        # A client's score weighs as many samples as its model was trained on.
        sizes = fed.tensor(fed.data.sizes)
        return {"clients": Devices(state["z"][fed.everyone], sizes / sizes.sum())}
