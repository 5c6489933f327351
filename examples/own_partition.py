"""A partition of one's own: a few large clients and many small ones.

    suite run --heterogeneity "examples/own_partition.py:Hubs(2)"
    suite run --heterogeneity "examples/own_partition.py:Hubs(2,share=0.9)+dropout(0.1)"

A study names it likewise. An installed package offers one under a short name with an entry point in its
pyproject.toml (modifiers such as `+dropout` in the group `suite.modifiers`):

    [project.entry-points."suite.partitions"]
    hubs = "my_package.partitions:Hubs"
"""

from dataclasses import dataclass, field

import numpy as np

from trials.common.errors import UserError
from trials.heterogeneity.partitions import Array, Partition


@dataclass(frozen=True)
class Hubs(Partition):
    """The first `hubs` clients hold `share` of the samples, the others the rest; all of them at random."""

    summary = "a few hubs hold most samples"

    # The fields are the arguments of the name: Hubs(2), Hubs(2,share=0.9).
    hubs: int
    share: float = field(default=0.8, kw_only=True)

    def __post_init__(self) -> None:
        if self.hubs < 1 or not 0 < self.share < 1:
            raise UserError(f"Hubs({self.hubs}, share={self.share:g}): hubs >= 1, 0 < share < 1")

    def assign(
        self, y: Array, clients: int, owner: Array | None, rng: np.random.Generator
    ) -> list[Array]:
        """One array of indices into the labels `y` (N,) for each client; all that is random is of `rng`."""
        if clients <= self.hubs:
            raise UserError(f"Hubs({self.hubs}) needs more than {self.hubs} clients, not {clients}")
        order = rng.permutation(len(y))
        cut = min(max(round(self.share * len(y)), self.hubs), len(y) - (clients - self.hubs))
        return [
            *np.array_split(order[:cut], self.hubs),
            *np.array_split(order[cut:], clients - self.hubs),
        ]
