"""FedLab's serial trainers and servers as a peer of `agree.py`."""

import logging
from typing import Any

import numpy as np
import torch
from fedlab.contrib.algorithm import basic_server, fedavg, feddyn, fednova, fedprox, scaffold
from torch.utils.data import DataLoader, TensorDataset

from agree_peer import LR, STEPS, answer


class Dealt:
    """The clients of the suite's run, as a data set of FedLab in which each client has one full batch."""

    def __init__(self, run: Any) -> None:
        self.run = run

    def get_dataloader(self, id: int, batch_size: int, type: str = "train") -> Any:
        """Return a loader of the client's samples, as one batch."""
        x, y = (torch.from_numpy(self.run[f"{part}{id}"]) for part in "xy")
        return DataLoader(TensorDataset(x, y.long()), batch_size=len(y))


def in_double_precision() -> None:
    """Replace FedLab's averaging by one in double precision, since `fedavg_aggregate` has the clients' shares in single precision."""
    from fedlab.utils.aggregator import Aggregators

    def averaged(serialized: list[torch.Tensor], weights: Any = None) -> torch.Tensor:
        shares = torch.ones(len(serialized)) if weights is None else torch.as_tensor(weights)
        shares = shares.double() / shares.double().sum()
        return (shares[:, None] * torch.stack(list(serialized))).sum(0)

    Aggregators.fedavg_aggregate = staticmethod(averaged)


class DynTrainer(feddyn.FedDynSerialClientTrainer):
    """FedDyn's client with the gradient of its penalty; FedLab's has none, since it computes the penalty from detached weights."""

    def train(self, id: int, model_parameters: torch.Tensor, train_loader: Any) -> list[Any]:
        """Train as FedLab's class does, but step along g - L + alpha (w - start), with gradient g and dual variable L."""
        if self.L[id] is None:
            self.L[id] = torch.zeros_like(model_parameters)
        ((x, y),) = train_loader
        w = model_parameters.clone()
        for _ in range(self.epochs):
            self.set_model(w)
            self.optimizer.zero_grad()
            self.criterion(self.model(x), y).backward()
            pull = self.alpha * (w - model_parameters) - self.L[id]
            w = w - LR * (self.model_gradients + pull)
        self.L[id] = self.L[id] - self.alpha * (w - model_parameters)
        return [w]


class DynServer(feddyn.FedDynServerHandler):
    """FedDyn's server that subtracts the old model once for each client, as in Acar et al. 2021, Algorithm 1."""

    def global_update(self, buffer: list[Any]) -> None:
        """Average the clients' models and subtract h / alpha, where h is FedDyn's state of the server."""
        local = torch.stack([sent[0] for sent in buffer])
        moved = (local - self.model_parameters).sum(0)
        self.h = self.h - self.alpha / self.num_clients * moved
        self.set_model(local.mean(0) - self.h / self.alpha)


def weights(name: str, params: dict[str, float], run: Any, corrected: bool) -> np.ndarray:
    """Return the server's weights before round 1 and after each round."""
    logging.disable(logging.CRITICAL)
    if corrected:
        in_double_precision()
    sync = basic_server.SyncServerHandler
    trainer_of, server_of = {
        "fedavg": (fedavg.FedAvgSerialClientTrainer, sync),
        "fedprox": (fedprox.FedProxSerialClientTrainer, sync),
        "scaffold": (scaffold.ScaffoldSerialClientTrainer, scaffold.ScaffoldServerHandler),
        "feddyn": (feddyn.FedDynSerialClientTrainer, feddyn.FedDynServerHandler),
        "fednova": (fednova.FedNovaSerialClientTrainer, fednova.FedNovaServerHandler),
    }[name]
    if corrected and name == "feddyn":
        trainer_of, server_of = DynTrainer, DynServer
    clients = sum(key.startswith("x") for key in run)
    features = run["x0"].shape[1]
    classes = run["w"].shape[1] // (features + 1)
    model = torch.nn.Linear(features, classes, dtype=torch.float64)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(run["w"][0]), model.parameters())
    trainer, server = trainer_of(model, clients), server_of(model, len(run["selected"]), 0.5)
    server.num_clients = clients
    local = {k: v for k, v in params.items() if k in ("mu", "alpha")}
    trainer.setup_dataset(Dealt(run))
    trainer.setup_optim(STEPS, 0, LR, **local)
    if name == "scaffold":
        server.setup_optim(params["server_lr"])
    if name == "feddyn":
        server.setup_optim(params["alpha"])
    if name == "fednova":
        server.setup_optim(**({"option": "uniform"} if corrected else {}))
    by_round = [server.model_parameters.numpy().copy()]
    for ids in run["selected"]:
        trainer.local_process(server.downlink_package, ids.tolist())
        for pack in trainer.uplink_package:
            server.load(pack)
        by_round.append(server.model_parameters.numpy().copy())
    return np.array(by_round)


if __name__ == "__main__":
    answer(weights)
