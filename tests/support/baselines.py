"""Four clients, and the settings that the baselines' oracles and runs have in common."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from tests.support.oracle import LR, SEED, STEPS, clients, local_sgd, selected, shares
from tests.support.simulations import partitioned, settings, simulation
from trials.common.randomness import uniform

SIZES = [5, 9, 3, 12]
N = len(SIZES)
PARTS = list(clients(partitioned(SIZES)))
EVERYONE = np.arange(N)


@dataclass(frozen=True)
class Study:
    """The settings that an oracle and the run it judges have in common."""

    selected: int = N
    aggregation: str = "samples"
    lr_decay: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    most_steps: int | None = None

    def rounds(self) -> Iterator[tuple[np.ndarray, float, np.ndarray]]:
        """Each round's clients, local rate and numbers J of local steps of all clients."""
        for t in count(1):
            u = uniform("steps", SEED, t, EVERYONE)
            steps = np.full(N, STEPS) if self.most_steps is None else 1 + u * self.most_steps
            yield selected(t, N, self.selected), LR * self.lr_decay ** (t - 1), steps.astype(int)

    def p(self, ids=EVERYONE):
        return shares(PARTS, ids, self.aggregation)

    @property
    def om(self):
        return N * self.p()

    def local(self, w, k, J, lr, extra=lambda v: 0.0):
        return local_sgd(w, [PARTS[k]] * J, lr, extra, self.momentum, self.weight_decay)

    def simulation(self, algorithm, execution="batched", **given):
        common = settings(
            participation=self.selected / N,
            aggregation=self.aggregation,
            lr_decay=self.lr_decay,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            execution=execution,
            **given,
        )
        level = "iid" if self.most_steps is None else f"iid+system(steps=1..{self.most_steps})"
        return simulation(algorithm, partitioned(SIZES), common, level=level, seed=SEED)
