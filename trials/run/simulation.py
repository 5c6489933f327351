"""The loop of a federated run: rounds, evaluations, counters, checkpoints and divergence.

An evaluation scores models on the pooled samples, over the clients, and after fine-tuning on each client.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.algorithm import Algorithm, Devices, Scored, State
from trials.common import randomness
from trials.common.errors import UserError
from trials.common.names import check_recorded
from trials.common.plugins import contained, hook, written
from trials.common.tensors import Tensor, torch
from trials.common.transfer import to_device
from trials.engine.federation import ClientRows, Federation
from trials.federated_data import ClientTests, FederatedData
from trials.models.base import Model
from trials.scoring.metrics import LABELWISE, LAST, PERSONAL, Task
from trials.scoring.scores import MEASURES

Array = npt.NDArray[Any]
BLOCK = 64  # clients that are fine-tuned and tested at a time
OUTPUTS = 512  # samples whose logits are computed at a time


class Simulation:
    """One federated run: an algorithm, a federation, and the loop over rounds and evaluations.

    `history` holds one flat dict for each evaluation, first that of round 0, the untrained model. Counters are cumulative.
    Whether the run has `diverged` is decided without test samples.
    """

    @contained()
    def __init__(self, algorithm: Algorithm, fed: Federation) -> None:
        algorithm.check(fed.n, fed.model, fed.settings)
        if fed.settings.metric == "personal":
            refuse_personal(fed.data, fed.model)
        self.algorithm, self.fed = algorithm, fed
        self.state: State = hook(self.algorithm, "init", dict, fed)
        self.diverged = self.own_models = False
        self._clock = 0.0
        self.history: list[dict[str, float]] = []
        self.history.append(self._evaluation())

    @property
    def task(self) -> Task:
        """Return the data set's task, with the metric by which the run is ranked."""
        return self.fed.data.dataset.task.by(self.fed.settings.metric)

    @property
    def finished(self) -> bool:
        """Return whether all rounds are done or the run has diverged."""
        return self.diverged or self.fed.round >= self.fed.settings.rounds

    def evaluations(self) -> Iterator[dict[str, float]]:
        """Run the remaining rounds, and yield each evaluation as a flat dict."""
        while not self.finished:
            yield self.advance()

    @contained()
    def advance(self) -> dict[str, float]:
        """Run until the next evaluation, and return the evaluation. Raise `UserError` if the algorithm returns a wrong shape."""
        fed = self.fed
        started, first = time.perf_counter(), fed.round
        while not self.finished:
            fed.begin(fed.round + 1)
            lr, before = fed.settings.rate(self.algorithm.lr, fed.round), self.state.get("w")
            # A w of another shape could be broadcast later without an error.
            self.state = hook(replace(self.algorithm, lr=lr), "round", dict, self.state, fed)
            after: Any = self.state.get("w", before)
            if before is not None and after.shape != before.shape:
                shapes = f"{tuple(after.shape)} after a round, {tuple(before.shape)} before it"
                raise UserError(f"state 'w' has shape {shapes}")
            fed.end()
            self.diverged = (loss := fed.train_loss) is not None and not math.isfinite(loss)
            if fed.round % fed.settings.evaluation_gap == 0:
                break
        self._clock = (time.perf_counter() - started) / max(1, fed.round - first)
        self.history.append(self._evaluation())
        return self.history[-1]

    def _evaluation(self) -> dict[str, float]:
        """Score all models, and return scores by name, such as test_loss of the first model and MODEL_test_loss of any other."""
        started, fed = time.perf_counter(), self.fed
        (_, ranked), *others = self.scored().items()
        entry = {"round": fed.round, **_on_parts(fed, ranked), **self._over_clients(ranked)}
        for name, model in others:
            entry |= _on_parts(fed, model, f"{name}_")
        measured = hook(self.algorithm, "measured", dict, self.state, fed)
        where = written(self.algorithm)
        later = {*fed.counters, "train_loss", "round_seconds", "evaluation_seconds"}
        if reserved := measured.keys() & {*entry, *later}:
            names = ", ".join(reserved)
            raise UserError(f"{where}: measured() gives {names}, as a run itself does")
        entry |= measured
        for name, value in entry.items():
            check_recorded(f"{where}: its metric", name, value, int | float)
        if not self.diverged:
            # Not by the test loss: test samples may decide nothing about a run.
            loss = entry.get("val_loss", 0.0)
            if "val_loss" not in entry and self.finished:  # before, the next training loss tells
                loss = _scores(fed, ranked, fed.data.train)["loss"]
            self.diverged = not math.isfinite(loss)
        if fed.train_loss is not None:
            entry["train_loss"] = fed.train_loss
        if fed.round:
            entry["round_seconds"] = self._clock
            entry["evaluation_seconds"] = time.perf_counter() - started
        return {**entry, **fed.counters}

    def scored(self) -> Scored:
        """Return the models to evaluate, by name. The run is ranked by the first one. Raise `UserError` if a model has a wrong shape."""
        models: Scored = hook(self.algorithm, "scored", dict, self.state, self.fed)
        for name, model in models.items():
            several, d = isinstance(model, Devices), self.fed.d
            w = model.models if isinstance(model, Devices) else model
            shape = tuple(w.shape) if isinstance(w, torch.Tensor) else ()
            if len(shape) != 1 + several or shape[-1] != d:
                must = f"(k, {d})" if several else f"({d},)"
                raise UserError(f"scored() gives {name!r} the shape {shape}, not {must}")
        return models

    def personal(self) -> Tensor | None:
        """Return clients' own models (n, d), or None if the algorithm keeps none. Raise `UserError` for another shape."""
        fed, kind = self.fed, torch.Tensor | None
        models: Tensor | None = hook(self.algorithm, "personal", kind, self.state, fed)
        if models is not None and models.shape != (fed.n, fed.d):
            shape = tuple(models.shape)
            raise UserError(f"personal() gives the shape {shape}, not ({fed.n}, {fed.d})")
        return models

    def _over_clients(self, ranked: Tensor | Devices) -> dict[str, float]:
        """Return scores over clients, each tested on its own samples. If `ranked` holds several models or the metric is
        "personal", clients are tested with their own models, if there are any. Else the model `ranked` is tested. Round 0 and the
        last three evaluations have the mean, worst tenth and spread over clients, and the mean over clients that never
        train. Round 0 and the last round add scores after fine-tuning. With "personal" all evaluations have the mean.
        """
        fed, data, judged = self.fed, self.fed.data, self.fed.settings.metric == "personal"
        first_or_last, gap = fed.round == 0 or self.finished, fed.settings.evaluation_gap
        left = -(-fed.settings.rounds // gap) - -(-fed.round // gap)  # evaluations that follow
        counts = first_or_last or left < LAST
        if not (counts or judged):
            return {}
        models = ranked if isinstance(ranked, torch.Tensor) else None
        if (judged or models is None) and (personal := self.personal()) is not None:
            models = personal
        self.own_models = not isinstance(ranked, torch.Tensor) or models is not ranked
        if judged and models is None:
            raise UserError("metric personal needs a model of every client: scored() or personal()")
        if not fed.model.one_by_one:  # a sample's score depends on its batch
            return {}
        metric, tests, entry = data.dataset.task.metric, data.client_tests, dict[str, float]()
        if models is not None and tests is not None:
            scores = _each_scored(fed, models, tests)
            entry[f"test_{metric}{PERSONAL}"] = float(scores.mean())
            if counts:
                entry |= _unevenness(fed, f"test_{metric}", scores)
            if judged and data.client_vals is not None:
                validated = _each_scored(fed, models, data.client_vals)
                entry[f"val_{metric}{PERSONAL}"] = float(validated.mean())
        if counts and data.unseen_tests is not None and isinstance(ranked, torch.Tensor):
            unseen = _each_scored(fed, ranked, data.unseen_tests)
            entry[f"test_{metric}_unseen"] = float(unseen.mean())
        epochs = fed.settings.fine_tune
        if first_or_last and epochs and models is not None and tests is not None:
            lr = fed.settings.rate(self.algorithm.lr, max(1, fed.round))
            tuned = partial(fed.fine_tune, lr=lr, epochs=epochs)
            scores, name = _each_scored(fed, models, tests, tuned), f"test_{metric}_fine_tuned"
            entry |= {name: float(scores.mean()), **_unevenness(fed, name, scores)}
        return entry

    def save(self) -> dict[str, Any]:
        """Return the run's state for a checkpoint, from which `load` continues the run."""
        tensors: dict[str, Tensor] = {}
        rows: dict[str, dict[str, Tensor | None]] = {}
        for name, value in {**self.state, **self.fed.kept}.items():
            tensor: Any = value.values if isinstance(value, ClientRows) else value
            # A copy on the host, since torch.save would write a view's whole storage.
            tensor = None if tensor is None else tensor.to("cpu", copy=True)
            if isinstance(value, ClientRows):
                rows[name] = {"slot": value.slot, "values": tensor}
            else:
                tensors[name] = tensor
        return {
            "tensors": tensors,
            "rows": rows,
            "round": self.fed.round,
            "counters": self.fed.counters,
            "history": self.history,
            "diverged": self.diverged,
            "halved": self.fed.halved,
            "statistics": self.fed.model.statistics and self.fed.model.statistics.server,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Restore a state that `save` returned. The continued run gives the same results, bit for bit, as an uninterrupted one."""
        for name, table in saved["rows"].items():
            rows = self.fed.kept.get(name) or self.state[name]
            rows.slot, rows.values = table["slot"].clone(), table["values"]
        for name, tensor in saved["tensors"].items():
            device = self.state[name].device if name in self.state else self.fed.device
            self.state = {**self.state, name: tensor.to(device)}
        self.fed.round, self.diverged = saved["round"], saved["diverged"]
        self.fed.halved, self.fed.counters = saved["halved"], dict(saved["counters"])
        self.history = list(map(dict, saved["history"]))
        if self.fed.model.statistics is not None:
            self.fed.model.statistics.server = saved["statistics"]


def _scores(fed: Federation, model: Tensor | Devices, ids: Array) -> dict[str, float]:
    """Return a model's scores on samples `ids`. For several models, these are weighted means, and the lowest and highest accuracy (or mse)."""
    if isinstance(model, torch.Tensor):
        return {k: float(v) for k, v in fed.evaluate(model, ids).items()}
    by_model = fed.evaluate(model.models, ids)
    scores = {k: float(v @ model.weights.to(v)) for k, v in by_model.items()}
    metric = fed.data.dataset.task.metric
    scores[f"{metric}_min"] = float(by_model[metric].min())
    scores[f"{metric}_max"] = float(by_model[metric].max())
    return scores


def _on_parts(fed: Federation, model: Tensor | Devices, prefix: str = "") -> dict[str, float]:
    """Return a model's test and validation scores, by names such as `{prefix}test_accuracy`. The settings can ask for training scores, too."""
    entry: dict[str, float] = {}
    parts = {"test": fed.data.test, "val": fed.data.val}
    if fed.settings.score_training:
        parts["train"] = fed.data.train
    for part, ids in parts.items():
        if len(ids):
            values = _scores(fed, model, ids) | _labelwise(fed, model, ids)
            for metric, value in values.items():
                entry[f"{prefix}{part}_{metric}"] = value
    if (name := f"{prefix}train_loss") in entry:  # `train_loss` is the loss of local training
        entry[f"{prefix}global_train_loss"] = entry.pop(name)
    return entry


def _labelwise(fed: Federation, model: Tensor | Devices, ids: Array) -> dict[str, float]:
    """Return the ranking metric on samples `ids`, by name, if it is macro F1, balanced accuracy or AUC. Otherwise return {}."""
    name = fed.data.dataset.task.by(fed.settings.metric).metric
    if name not in LABELWISE:
        return {}
    if not fed.model.one_by_one:  # in the same batches as the means over samples
        ids = randomness.generator("evaluation").permutation(ids)
    if isinstance(model, torch.Tensor):
        model = Devices(model[None], torch.ones(1))
    blocks, value = to_device(ids, fed.device).split(OUTPUTS), 0.0
    for share, w in zip(model.weights.tolist(), model.models, strict=True):
        logits = torch.cat([fed.model.logits(w, fed.x[block]).double().cpu() for block in blocks])
        value += share * MEASURES[name](logits.numpy(), fed.data.dataset.y[ids])
    return {name: value}


def refuse_personal(data: FederatedData, model: Model) -> None:
    """Raise `UserError` unless each client can be tested alone, as the metric `personal` requires."""
    if not model.one_by_one or data.client_tests is None:
        needs = "samples that are scored one by one, and labels or owners that say whose they are"
        raise UserError(f"metric personal needs {needs}: use metric pooled")


def _each_scored(
    fed: Federation,
    models: Tensor,
    tests: ClientTests,
    tuned: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Array:
    """Return the score of each client in `tests` on the client's own samples. `models` is one model (d,), or has a row for
    each client (n, d). `tuned(ids, w)`, if set, fine-tunes the weights w of clients `ids` before the test.
    """
    metric, scores = fed.data.dataset.task.metric, np.zeros(len(tests.clients))
    if models.dim() == 1 and tuned is None:
        return tests.shares @ np.array([_scores(fed, models, ids)[metric] for ids in tests.groups])
    models = models.expand(fed.n, -1)
    for first in range(0, len(scores), BLOCK):
        block = slice(first, first + BLOCK)
        ids, shares = torch.from_numpy(tests.clients[block]), tests.shares[block]
        w = models[ids.to(models.device)]
        w = w if tuned is None else tuned(ids, w)
        for group in np.flatnonzero(shares.any(0)):
            members = np.flatnonzero(shares[:, group])
            rows = w[torch.from_numpy(members).to(w.device)]
            group_scores = fed.evaluate(rows, tests.groups[group])[metric].cpu().numpy()
            scores[block][members] += shares[members, group] * group_scores
    return scores


def _unevenness(fed: Federation, name: str, scores: Array) -> dict[str, float]:
    """Return two measures of clients' scores: `{name}_worst10`, the mean of the worst tenth, and `{name}_spread`, the standard deviation."""
    ascending, tenth = np.sort(scores), math.ceil(len(scores) / 10)
    worst = ascending[:tenth] if fed.data.dataset.task.sign > 0 else ascending[-tenth:]
    return {f"{name}_worst10": float(worst.mean()), f"{name}_spread": float(scores.std())}
