"""Local training only: the reference that never communicates."""

from dataclasses import dataclass

from trials.algorithm import Algorithm, Devices, Scored, State
from trials.engine.federation import Federation


@dataclass(frozen=True)
class LocalOnly(Algorithm):
    """w_k <- LocalSGD(w_k) of the selected clients; nothing is sent or averaged.

    Equations: none; SAFL with epsilon = 0 and p = 1.
    Keeps: d (its own model).
    Down: 0.
    Up: 0.
    Reading: only selected clients train, so that the work equals the federated run's. Scored by the
        sample-weighted mean of the clients' scores on the common test set. A reference, not ranked but
        under `metric: personal`.
    """

    paper = "reference"
    any_optimizer = True
    reference = True
    ranked_under = "personal"

    def init(self, fed: Federation) -> State:
        """Return the clients' models `z` (n, d)."""
        return {"z": fed.client_rows(fed.initial)}

    def round(self, state: State, fed: Federation) -> State:
        ids = fed.select()
        local = fed.train(ids, state["z"][ids], self.lr, lambda w, g: g)
        state["z"].write(ids, local)
        return state

    def scored(self, state: State, fed: Federation) -> Scored:
        # On the common test set a large client's model speaks for more samples.
        sizes = fed.tensor(fed.data.sizes)
        return {"clients": Devices(state["z"][fed.everyone], sizes / sizes.sum())}
