"""FedLab (https://github.com/SMILELab-FL/FedLab) as a system of `engine.py`: its serial FedAvg trainer and its synchronous
server.
"""

import logging
from typing import Any

import torch
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer
from fedlab.contrib.dataset.basic_dataset import FedDataset
from torch.utils.data import DataLoader, TensorDataset

from loop import network, tensors
from worker import LR, Round, Workload, serve


class Dealt(FedDataset):
    """The clients of a workload, as a data set of FedLab."""

    def __init__(self, workload: Workload) -> None:
        self.sets = [TensorDataset(x, y) for x, y in tensors(workload)]

    def get_dataloader(self, id: int, batch_size: int, type: str = "train") -> DataLoader[Any]:
        """Return a loader of a client's minibatches, in a new random order."""
        return DataLoader(self.sets[id], batch_size=batch_size, shuffle=True)


def prepare(workload: Workload) -> Round:
    """Return a function that runs one round of FedLab's standalone pipeline."""
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    model, clients = network(workload), len(workload.sizes)
    trainer = FedAvgSerialClientTrainer(model, clients)
    trainer.setup_dataset(Dealt(workload))
    trainer.setup_optim(1, workload.batch_size, LR)
    # FedLab rounds the number of clients down; half a client more guards against rounding errors.
    share = min(1.0, (workload.per_round + 0.5) / clients)
    handler = SyncServerHandler(model, global_round=2**60, sample_ratio=share)
    handler.num_clients = clients

    def run_round() -> tuple[int, int]:
        chosen = handler.sample_clients()
        trainer.local_process(handler.downlink_package, chosen)
        for pack in trainer.uplink_package:
            handler.load(pack)
        return workload.work(chosen)

    return run_round


if __name__ == "__main__":
    serve(prepare)
