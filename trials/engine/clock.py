"""Simulated time: how long the devices of a federation would take for its rounds."""

from typing import Any

import numpy as np
import numpy.typing as npt

from trials.heterogeneity import Heterogeneity

Array = npt.NDArray[Any]


class Clock:
    """The seconds that rounds take on devices of the speeds that a level names (`+speed(sigma)`).

    A round takes as long as its slowest client: its local steps, and a full gradient as the steps of one pass. An
    algorithm whose server does not wait for all says how long the round `took`.
    """

    def __init__(self, level: Heterogeneity, n: int, seed: int) -> None:
        self._level, self._seed = level, seed
        self._steps = np.zeros(n)
        self.took: float | None = None

    def begin(self) -> None:
        """Start a round."""
        self._steps[:] = 0
        self.took = None

    def worked(self, ids: Array, steps: Array) -> None:
        """Distinct clients `ids` (k,) computed `steps` (k,) more in this round."""
        self._steps[ids] += steps

    def seconds(self, steps: Array, ids: Array) -> Array:
        """Seconds (k,) in which clients `ids` do `steps` (k,)."""
        return self._level.seconds(steps, ids, self._seed)

    @property
    def round_seconds(self) -> float:
        """Seconds of the round so far: 0 where no client computed anything."""
        if self.took is not None:
            return self.took
        ids = np.flatnonzero(self._steps)
        return float(self.seconds(self._steps[ids], ids).max(initial=0.0))
