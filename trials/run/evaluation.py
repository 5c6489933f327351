"""What models are worth: on pooled samples, over the clients, and after each client's own training."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.algorithm import Devices
from trials.common import randomness
from trials.common.errors import UserError
from trials.common.tensors import Tensor, torch
from trials.common.transfer import to_device
from trials.engine.federation import Federation
from trials.federated_data import ClientTests, FederatedData
from trials.models.base import Model
from trials.scoring.labelwise import MEASURES
from trials.scoring.metrics import LABELWISE, PERSONAL

Array = npt.NDArray[Any]
BLOCK = 64
"""Clients that are tested, and before that fine-tuned, at a time."""
OUTPUTS = 512
"""Samples whose outputs are computed at a time."""


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
        for metric, value in (scores(fed, model, ids) | labelwise(fed, model, ids)).items()
    }


def labelwise(fed: Federation, model: Tensor | Devices, ids: Array) -> dict[str, float]:
    """What the setting `metric` asks for besides means over samples: of several devices' models the weighted mean."""
    name = fed.data.dataset.task.by(fed.settings.metric).metric
    if name not in LABELWISE:
        return {}
    if not fed.model.one_by_one:  # as means over samples are computed
        ids = randomness.generator("evaluation").permutation(ids)
    models = model[None] if isinstance(model, torch.Tensor) else model.models
    shares = [1.0] if isinstance(model, torch.Tensor) else model.weights.tolist()
    each = [MEASURES[name](_outputs(fed, w, ids), fed.data.dataset.y[ids]) for w in models]
    return {name: sum(share * value for share, value in zip(shares, each, strict=True))}


def _outputs(fed: Federation, w: Tensor, ids: Array) -> Array:
    """Logits (N, C) of one model, on the host."""
    blocks = to_device(ids, fed.device).split(OUTPUTS)
    return torch.cat([fed.model.logits(w, fed.x[block]).double().cpu() for block in blocks]).numpy()


def ranked(fed: Federation, model: Tensor | Devices, own: Tensor | None) -> dict[str, float]:
    """What weights alone decide of the last evaluation: those of the ranked model, and clients' `own`."""
    return {**on_parts(fed, model), **over_clients(fed, served(fed, model, own), ended=True)}


def refuse_personal(data: FederatedData, model: Model) -> None:
    """Raise `UserError` where no client can be tested by itself, as metric `personal` asks."""
    if not model.one_by_one:
        raise UserError(
            "metric personal needs a model that scores each sample by itself, and this one normalises "
            "a batch by its own statistics: use another one, or metric pooled"
        )
    if data.client_tests is None:
        raise UserError(
            "metric personal needs test data of each client, and these have neither labels nor owners "
            "that say whose a test sample is: use metric pooled"
        )


def served(fed: Federation, model: Tensor | Devices, own: Tensor | None) -> Tensor | None:
    """The models that clients are tested with: what is ranked, one (d,) or each client's own (n, d). Under
    `metric: personal` their `own`, where the method keeps such. None where models of some devices are ranked, and
    nobody says whose.
    """
    if isinstance(model, torch.Tensor) and (own is None or fed.settings.metric != "personal"):
        return model
    return own


def over_clients(fed: Federation, models: Tensor | None, ended: bool) -> dict[str, float]:
    """How `models` that are `served` serve the clients, each tested on what it would meet: the plain mean over
    clients, under `metric: personal` also on validation data; and, of the untrained and the final models
    (`ended`), how unevenly: the mean of the worst 10 % of clients (at least one), and the standard
    deviation over all.

    Nothing where what a sample's score is depends on the samples it is scored with: here they have one
    label.
    """
    data, judged = fed.data, fed.settings.metric == "personal"
    if models is None and judged:
        raise UserError(
            "metric personal needs a model of every client, but scored() gives those of some devices "
            "only, and personal() none"
        )
    if models is None or data.client_tests is None or not fed.model.one_by_one:
        return {}
    metric, each = data.dataset.task.metric, each_scored(fed, models, data.client_tests)
    found = {f"test_{metric}{PERSONAL}": float(each.mean())}
    if ended:
        found |= _unevenness(fed, f"test_{metric}", each)
    if judged and data.client_vals is not None:
        validated = each_scored(fed, models, data.client_vals)
        found[f"val_{metric}{PERSONAL}"] = float(validated.mean())
    return found


def unseen(fed: Federation, model: Tensor | Devices) -> dict[str, float]:
    """What the ranked model (d,) is worth to the clients that took no part in training: the plain mean over them.
    Nothing where devices have models of their own, and where `over_clients` has nothing.
    """
    tests = fed.data.unseen_tests
    if tests is None or isinstance(model, Devices) or not fed.model.one_by_one:
        return {}
    name = f"test_{fed.data.dataset.task.metric}_unseen"
    return {name: float(each_scored(fed, model, tests).mean())}


def each_scored(fed: Federation, models: Tensor, tests: ClientTests) -> Array:
    """What clients score, each with its own of models (n, d), or all with one (d,)."""
    metric = fed.data.dataset.task.metric
    if models.dim() == 1:
        return tests.shares @ np.array([scores(fed, models, ids)[metric] for ids in tests.groups])
    each = np.zeros(len(tests.clients))
    for rows in _blocks(tests):
        each[rows] = _on_groups(fed, _rows(models, tests.clients[rows]), tests, rows)
    return each


def fine_tuned(fed: Federation, models: Tensor | None, lr: float) -> dict[str, float]:
    """What `models`, one (d,) or each client's own (n, d), are worth to clients that go on by themselves:
    each trains its own for `fine_tune` epochs of plain local SGD at rate `lr` on its own training samples,
    then is tested on what it would meet. Mean over clients, the worst 10 % and the standard deviation.

    Nothing without that setting or models, and where `over_clients` has nothing.
    """
    epochs, tests = fed.settings.fine_tune, fed.data.client_tests
    if models is None or epochs is None or tests is None or not fed.model.one_by_one:
        return {}
    everyone = models if models.dim() == 2 else models.expand(fed.n, -1)
    each = np.zeros(len(tests.clients))
    for rows in _blocks(tests):
        ids = tests.clients[rows]
        w = fed.fine_tune(torch.from_numpy(ids), _rows(everyone, ids), lr, epochs)
        each[rows] = _on_groups(fed, w, tests, rows)
    name = f"test_{fed.data.dataset.task.metric}_fine_tuned"
    return {name: float(each.mean()), **_unevenness(fed, name, each)}


def _blocks(tests: ClientTests) -> list[slice]:
    return [slice(first, first + BLOCK) for first in range(0, len(tests.clients), BLOCK)]


def _rows(models: Tensor, ids: Array) -> Tensor:
    return models[torch.from_numpy(ids).to(models.device)]


def _on_groups(fed: Federation, w: Tensor, tests: ClientTests, rows: slice) -> Array:
    """What a block of clients scores with models `w`: each is scored on the groups that it would meet."""
    shares = tests.shares[rows]
    each = np.zeros(len(shares))
    for group in np.flatnonzero(shares.any(0)):
        who = np.flatnonzero(shares[:, group])
        found = fed.evaluate(_rows(w, who), tests.groups[group])[fed.data.dataset.task.metric]
        each[who] += shares[who, group] * found.cpu().numpy()
    return each


def _unevenness(fed: Federation, name: str, each: Array) -> dict[str, float]:
    """The mean of the worst tenth of the clients' scores, and their standard deviation."""
    ascending = np.sort(each)
    tenth = math.ceil(len(each) / 10)
    worst = ascending[:tenth] if fed.data.dataset.task.sign > 0 else ascending[-tenth:]
    return {f"{name}_worst10": float(worst.mean()), f"{name}_spread": float(each.std())}
