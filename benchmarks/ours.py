"""The suite itself as a system of `engine.py`."""

import numpy as np
import torch

from trials import algorithms, heterogeneity, models
from trials.algorithm import State
from trials.datasets.base import Dataset
from trials.engine.federation import Federation
from trials.federated_data import FederatedData
from trials.models.base import Model
from trials.settings import Settings
from worker import LR, Round, Workload, serve


def federation(workload: Workload) -> Federation:
    """Return a federation of the suite with the workload's clients, data and settings."""
    parts = workload.data()
    x = np.concatenate([x for x, _ in parts]).astype(np.float32)
    y = np.concatenate([y for _, y in parts])
    offsets = np.concatenate([[0], np.cumsum(workload.sizes)])
    nothing = np.zeros(0, np.int64)
    dataset = Dataset(x, y, np.zeros(len(y), bool), workload.classes)
    settings = Settings(
        clients=len(parts),
        participation=workload.per_round / len(parts),
        batch_size=workload.batch_size,
        execution=workload.execution,
    )
    return Federation(
        FederatedData(dataset, np.arange(len(y)), offsets, nothing, nothing),
        Model(models.parse(workload.model), workload.shape, workload.classes),
        heterogeneity.parse("iid"),
        settings,
        0,
        torch.device(workload.device),
    )


def prepare(workload: Workload) -> Round:
    """Return a function that runs one round of the suite's FedAvg, with one thread."""
    torch.set_num_threads(1)
    fed, algorithm = federation(workload), algorithms.resolve("fedavg").configured({"lr": LR})
    state: State = algorithm.init(fed)

    def run_round() -> tuple[int, int]:
        nonlocal state
        steps, samples = fed.counters["client_steps"], fed.counters["sample_gradients"]
        fed.begin(fed.round + 1)
        state = algorithm.round(state, fed)
        counters = fed.counters
        return counters["client_steps"] - steps, counters["sample_gradients"] - samples

    return run_round


if __name__ == "__main__":
    serve(prepare)
