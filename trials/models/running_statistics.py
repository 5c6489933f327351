"""What BatchNorm normalises by in evaluation: statistics that clients keep while they train."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common.tensors import Tensor, torch

Array = npt.NDArray[Any]
Values = dict[str, Tensor]
"""Running means and variances, and how many minibatches they are of, by their names in the module."""


class RunningStatistics:
    """The running statistics of a run: the `server`'s, and in a round those of the clients that train.

    A client's begin each round at the server's. Each of its forward passes in training, a step's or a full
    gradient's, moves them: s <- (1 - a) s + a s_batch, with BatchNorm's momentum a. At the end of the round the
    server's are their mean by the weights that FedAvg gives the clients, whatever the algorithm.
    """

    def __init__(self, initial: Mapping[str, Tensor]) -> None:
        self.server: Values = {name: v.detach().double().clone() for name, v in initial.items()}
        self._clients: dict[int, Values] = {}
        self._at_work: Values | None = None

    def begin(self) -> None:
        """Begin a round, in which nobody has trained yet."""
        self._clients, self._at_work = {}, None

    def work(self, client: int, like: Tensor) -> None:
        """The next forward passes are this client's, with weights like these."""
        if client not in self._clients:
            self._clients[client] = {name: v.to(like, copy=True) for name, v in self.server.items()}
        self._at_work = self._clients[client]

    def training(self, like: Tensor) -> Values:
        """What a forward pass in training moves, in place: the client's at work, or else nobody's."""
        if self._at_work is None:
            return {name: value.to(like, copy=True) for name, value in self.server.items()}
        return self._at_work

    def evaluating(self, like: Tensor) -> Values:
        """The server's, as a forward pass takes them."""
        return {name: value.to(like) for name, value in self.server.items()}

    def end(self, weights: Callable[[Tensor], Tensor]) -> None:
        """End a round: the server's become the mean over clients by `weights(ids)`, which sum to 1; they stay where
        nobody has trained.
        """
        ids = np.array(sorted(self._clients), np.int64)
        if len(ids):
            share = weights(torch.from_numpy(ids)).double().cpu()
            every = [self._clients[int(i)] for i in ids]
            self.server = {
                name: torch.tensordot(
                    share, torch.stack([one[name].double().cpu() for one in every]), 1
                )
                for name in self.server
            }
        self.begin()
