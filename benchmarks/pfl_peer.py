"""pfl-research (https://github.com/apple/pfl-research) as a system of `engine.py`: its federated
averaging on its simulated backend, in one process. A client's minibatches have a fixed order.
"""

import logging
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from loop import network, tensors
from worker import LR, Round, Workload, serve


class Trained(nn.Module):
    """A network with the two methods that pfl calls."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean cross-entropy of a batch."""
        return F.cross_entropy(self.net(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        """Return the sum of losses with the number of samples; pfl evaluates it in its first round only."""
        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}


def prepare(workload: Workload) -> Round:
    """Return a function that runs one round of pfl's `FederatedAveraging.run`."""
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    sets = [PyTorchTensorDataset(pair) for pair in tensors(workload)]
    rng = np.random.default_rng(0)
    waiting: list[int] = []
    drawn: list[int] = []

    def sample() -> int:
        if not waiting:
            waiting.extend(workload.draw(rng))
        drawn.append(waiting.pop())
        return drawn[-1]

    federated = FederatedDataset(lambda k: sets[k], sample)
    backend = SimulatedBackend(federated, federated)
    net = Trained(network(workload))
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    local = NNTrainHyperParams(
        local_batch_size=workload.batch_size, local_num_epochs=1, local_learning_rate=LR
    )
    algorithm, rounds = FederatedAveraging(), 0

    def run_round() -> tuple[int, int]:
        nonlocal rounds
        rounds += 1
        drawn.clear()
        params = NNAlgorithmParams(rounds, 2**60, workload.per_round, 0)
        algorithm.run(params, backend, model, local, send_metrics_to_platform=False)
        return workload.work(drawn)

    return run_round


if __name__ == "__main__":
    serve(prepare)
