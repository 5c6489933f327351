"""What models are worth: on pooled samples, over the clients, and after each client's own training."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.algorithm import Devices
from trials.federation import Federation
from trials.tensors import Tensor, torch

Array = npt.NDArray[Any]
BLOCK = 64
"""Clients that are fine-tuned, tested and forgotten at a time."""


def scores(fed: Federation, model: Tensor | Devices, ids: Array) -> dict[str, float]:
    """A model's scores on samples; of several devices' models the weighted mean, the worst and the best."""
    if isinstance(model, torch.Tensor):
        return {k: float(v) for k, v in fed.evaluate(model, ids).items()}
    found = fed.evaluate(model.models, ids)
    means = {k: float(v @ model.weights.to(v)) for k, v in found.items()}
    metric = fed.data.dataset.task.metric
    return {
        **means,
        f"{metric}_min": float(found[metric].min()),
        f"{metric}_max": float(found[metric].max()),
    }


def on_parts(fed: Federation, model: Tensor | Devices, prefix: str = "") -> dict[str, float]:
    """A model's scores on test and, where there are any, validation samples: `test_accuracy`, ..."""
    parts = {"test": fed.data.test, "val": fed.data.val}
    return {
        f"{prefix}{part}_{metric}": value
        for part, ids in parts.items()
        if len(ids)
        for metric, value in scores(fed, model, ids).items()
    }


def ranked(fed: Federation, model: Tensor | Devices) -> dict[str, float]:
    """What weights alone decide of the ranked model's last evaluation."""
    return {**on_parts(fed, model), **over_clients(fed, model)}


def over_clients(fed: Federation, model: Tensor | Devices) -> dict[str, float]:
    """How unevenly a model serves the clients, each tested on what it would meet: the mean of the
    worst 10 % of clients (at least one), and the standard deviation over all. Nothing where what a
    sample's score is depends on the samples it is scored with: here they have one label.
    """
    tests, metric = fed.data.client_tests, fed.data.dataset.task.metric
    if tests is None or not fed.model.architecture.one_by_one:
        return {}
    each = tests.shares @ np.array([scores(fed, model, ids)[metric] for ids in tests.groups])
    return _unevenness(fed, f"test_{metric}", each)


def fine_tuned(fed: Federation, model: Tensor | Devices, lr: float) -> dict[str, float]:
    """What a model is worth to clients that go on with it by themselves: each trains it (or its own
    model) for `fine_tune` epochs of plain local SGD at rate `lr` on its own training samples, then is
    tested on what it would meet. Mean over clients, the worst 10 % and the standard deviation.

    Nothing without that setting, where `over_clients` has nothing, and for models of some devices only.
    """
    epochs, tests = fed.settings.fine_tune, fed.data.client_tests
    if epochs is None or tests is None or not fed.model.architecture.one_by_one:
        return {}
    everyone = model.models if isinstance(model, Devices) else model.expand(fed.n, -1)
    if len(everyone) != fed.n:
        return {}  # of some devices, and nobody says which
    metric = fed.data.dataset.task.metric
    each = np.zeros(len(tests.clients))
    for first in range(0, len(each), BLOCK):
        rows = slice(first, first + BLOCK)
        ids, shares = torch.from_numpy(tests.clients[rows]), tests.shares[rows]
        start = everyone[ids.to(everyone.device)]
        w = fed.fine_tune(ids, start, lr, epochs)
        for group, samples in enumerate(tests.groups):
            who = np.flatnonzero(shares[:, group])
            if len(who):
                found = fed.evaluate(w[torch.from_numpy(who).to(w.device)], samples)[metric]
                each[first + who] += shares[who, group] * found.cpu().numpy()
    name = f"test_{metric}_fine_tuned"
    return {name: float(each.mean()), **_unevenness(fed, name, each)}


def _unevenness(fed: Federation, name: str, each: Array) -> dict[str, float]:
    """The mean of the worst tenth of the clients' scores, and their standard deviation."""
    ascending = np.sort(each)
    tenth = math.ceil(len(each) / 10)
    worst = ascending[:tenth] if fed.data.dataset.task.sign > 0 else ascending[-tenth:]
    return {f"{name}_worst10": float(worst.mean()), f"{name}_spread": float(each.std())}
