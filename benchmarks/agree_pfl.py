"""pfl-research's algorithms on its simulated backend as a peer of `agree.py`."""

import logging
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.algorithm.fedprox import FedProx, FedProxParams
from pfl.algorithm.scaffold import SCAFFOLD, SCAFFOLDParams
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.user_state import InMemoryUserStateStorage
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.internal.bridge.pytorch.scaffold import PyTorchSCAFFOLDBridge
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from pfl.stats import MappedVectorStatistics
from torch import Tensor, nn

from agree_peer import LR, STEPS, answer, flat, layers


class Linear(nn.Module):
    """A linear classifier in double precision, with the two methods that pfl calls."""

    def __init__(self, w: np.ndarray, features: int) -> None:
        super().__init__()
        weight, bias = layers(w, features)
        self.net = nn.Linear(features, len(bias), dtype=torch.float64)
        with torch.no_grad():
            self.net.weight.copy_(torch.from_numpy(weight))
            self.net.bias.copy_(torch.from_numpy(bias))

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean cross-entropy of a batch."""
        return F.cross_entropy(self.net(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        """Return the sum of losses with the number of samples, which pfl evaluates."""
        return {"loss": Weighted(float(self.loss(x, y)) * len(y), len(y))}

    @property
    def flat(self) -> np.ndarray:
        """Return the parameters as a flat vector in the suite's order."""
        with torch.no_grad():
            return flat(self.net.weight.numpy().copy(), self.net.bias.numpy().copy())


def weights(name: str, params: dict[str, float], run: Any, corrected: bool) -> np.ndarray:
    """Return the server's weights before round 1 and after each round; clients are averaged equally.

    With `corrected`, updates stay in double precision, and a step of SCAFFOLD adds c_k - c where pfl adds c - c_k. The
    control variates c of pfl have the opposite sign of the paper's, since they are trained minus initial weights.
    """
    logging.disable(logging.CRITICAL)
    torch.set_default_dtype(torch.float64)
    clients = sum(key.startswith("x") for key in run)
    rounds, cohort = run["selected"].shape
    sets = [
        PyTorchTensorDataset(
            (torch.from_numpy(run[f"x{k}"]), torch.from_numpy(run[f"y{k}"]).long()),
            user_id=str(k),
        )
        for k in range(clients)
    ]
    order = iter(run["selected"].ravel().tolist())
    federated = FederatedDataset(lambda k: sets[k], lambda: next(order))
    backend = SimulatedBackend(federated, federated)
    net = Linear(run["w"][0], run["x0"].shape[1])
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    if corrected:
        double = {name: torch.empty_like(part) for name, part in model.variable_map.items()}
        model._model_diff = MappedVectorStatistics(double)
        against = PyTorchSCAFFOLDBridge.do_control_variate_sgd

        def swapped(m, d, p, local_c, server_c):
            return against(m, d, p, server_c, local_c)

        PyTorchSCAFFOLDBridge.do_control_variate_sgd = staticmethod(swapped)
    local = NNTrainHyperParams(
        local_batch_size=None, local_num_epochs=STEPS, local_learning_rate=LR
    )
    common = {
        "central_num_iterations": rounds,
        "evaluation_frequency": 2**60,
        "train_cohort_size": cohort,
        "val_cohort_size": 0,
    }
    algorithm, settings = {
        "fedavg": lambda: (FederatedAveraging(), NNAlgorithmParams(**common)),
        "fedprox": lambda: (FedProx(), FedProxParams(mu=params["mu"], **common)),
        "scaffold": lambda: (SCAFFOLD(), scaffold(common, clients)),
    }[name]()
    by_round = [net.flat]

    class Keep:
        """A callback of pfl that keeps the weights after each round."""

        def on_train_begin(self, *, model: Any) -> Any:
            """Return no metrics."""
            from pfl.metrics import Metrics

            return Metrics()

        def after_central_iteration(
            self, aggregate: Any, model: Any, *, central_iteration: int
        ) -> Any:
            """Keep the weights, and do not stop the training."""
            from pfl.metrics import Metrics

            by_round.append(net.flat)
            return False, Metrics()

        def on_train_end(self, *, model: Any) -> None:
            """Do nothing."""

    algorithm.run(
        settings, backend, model, local, callbacks=[Keep()], send_metrics_to_platform=False
    )
    return np.array(by_round)


def scaffold(common: dict[str, Any], clients: int) -> Any:
    """Return the settings of SCAFFOLD with option II of its paper, as in the suite."""
    return SCAFFOLDParams(
        population=clients,
        use_gradient_as_control_variate=False,
        user_state_storage=InMemoryUserStateStorage(),
        **common,
    )


if __name__ == "__main__":
    answer(weights)
