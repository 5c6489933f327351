"""Clients that training never sees: a modifier of one's own that keeps a share of the clients apart.

    suite sweep quickstart --heterogeneity "labels(2)+examples/unseen.py:Unseen(0.2)" --name unseen
    suite leaderboard unseen --metric unseen

The final model is scored on the test data of the clients that were kept apart (`test_accuracy_unseen`), beside its
score on all test data. Validation data of owners that are kept apart choose nothing either (`natural`).
"""

from dataclasses import dataclass

import numpy as np

from trials.common.errors import UserError
from trials.heterogeneity.modifiers import Array, Modifier


@dataclass(frozen=True)
class Unseen(Modifier):
    """round(share n) of the partition's n clients, at least one, drawn with the partition: equal for all methods."""

    summary = "a share of the clients takes no part in training, and is scored at the end"
    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise UserError(f"Unseen(share): 0 < share < 1 must hold, got {self.share:g}")

    def unseen(self, clients: int, rng: np.random.Generator) -> Array:
        """Ids of the clients that are kept apart."""
        return np.sort(rng.permutation(clients)[: max(1, round(self.share * clients))])
