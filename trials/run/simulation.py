"""The loop around a federation: rounds, evaluations, counters, checkpoints, divergence.

An evaluation says what models are worth: on pooled samples, over the clients, and after each client's own training.
"""

import math
import time
from collections.abc import Iterator
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
BLOCK = 64
"""Clients that are tested, and before that fine-tuned, at a time."""
OUTPUTS = 512
"""Samples whose outputs are computed at a time."""


class Simulation:
    """One federated run: an algorithm, a federation, and the loop that evaluates on the way.

    `history` holds one flat dict an evaluation, round 0 (the untrained model) first; counters are cumulative. The run is
    over when `finished`: all rounds done, or `diverged`, which no test sample decides.
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
        """Return what the run is judged by."""
        return self.fed.data.dataset.task.by(self.fed.settings.metric)

    @property
    def finished(self) -> bool:
        """Return whether all rounds are done, or the run has diverged."""
        return self.diverged or self.fed.round >= self.fed.settings.rounds

    def evaluations(self) -> Iterator[dict[str, float]]:
        """Yield the evaluations from here on, each after the rounds up to it: the loop of every run."""
        while not self.finished:
            yield self.advance()

    @contained()
    def advance(self) -> dict[str, float]:
        """Run the rounds up to the next evaluation; return it, which is also appended to `history`. A round whose training
        loss is not finite is the last: the run has diverged. Raises `UserError` where the algorithm's state or models
        have other shapes than they must.
        """
        fed = self.fed
        started, first = time.perf_counter(), fed.round
        while not self.finished:
            fed.begin(fed.round + 1)
            now = replace(self.algorithm, lr=self._rate(fed.round))
            self.state = self._checked(hook(now, "round", dict, self.state, fed))
            fed.end()
            self.diverged = (loss := fed.train_loss) is not None and not math.isfinite(loss)
            if fed.round % fed.settings.evaluation_gap == 0:
                break
        self._clock = (time.perf_counter() - started) / max(1, fed.round - first)
        self.history.append(self._evaluation())
        return self.history[-1]

    def _checked(self, after: State) -> State:
        before, after_w = self.state.get("w"), after.get("w")
        if before is not None and after_w is not None and after_w.shape != before.shape:
            raise UserError(
                f"state 'w' has shape {tuple(after_w.shape)} after a round, {tuple(before.shape)} before it"
            )
        return after

    def _rate(self, round_index: int) -> float:
        """Return the learning rate of a round."""
        return float(self.algorithm.lr * self.fed.settings.lr_decay ** (round_index - 1))

    def _evaluation(self) -> dict[str, float]:
        """Return the scores of the models that the algorithm names; the ranked one's have no prefix."""
        started, fed = time.perf_counter(), self.fed
        entry: dict[str, float] = {"round": fed.round}
        scored = self.scored()
        for rank, (name, model) in enumerate(scored.items()):
            entry |= _on_parts(fed, model, "" if rank == 0 else f"{name}_")
            if rank == 0:
                entry |= self._over_clients(model)
        entry |= hook(self.algorithm, "measured", dict, self.state, fed)
        for name, value in entry.items():
            check_recorded(f"{written(self.algorithm)}: its metric", name, value, int | float)
        self.diverged = self.diverged or not self._sound(next(iter(scored.values())), entry)
        if (loss := fed.train_loss) is not None:
            entry["train_loss"] = loss
        if fed.round:
            entry["round_seconds"] = self._clock
            entry["evaluation_seconds"] = time.perf_counter() - started
        return {**entry, **fed.counters}

    def scored(self) -> Scored:
        """Return what is evaluated, the ranked model first; raise `UserError` for what is no model of d weights."""
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
        """Return the clients' own models; raise `UserError` where they are not one of each client."""
        fed = self.fed
        models: Tensor | None = hook(
            self.algorithm, "personal", torch.Tensor | None, self.state, fed
        )
        if models is not None and models.shape != (fed.n, fed.d):
            shape = tuple(models.shape)
            raise UserError(f"personal() gives the shape {shape}, not ({fed.n}, {fed.d})")
        return models

    def _over_clients(self, ranked: Tensor | Devices) -> dict[str, float]:
        """Return how the clients are served: at the evaluations that a score is of, and all along where the run is judged by that."""
        fed, judged = self.fed, self.fed.settings.metric == "personal"
        ended, gap = fed.round == 0 or self.finished, fed.settings.evaluation_gap
        left = -(-fed.settings.rounds // gap) - -(-fed.round // gap)  # evaluations that follow
        counts = ended or left < LAST
        if not counts and not judged:
            return {}
        own = self.personal() if judged or isinstance(ranked, Devices) else None
        self.own_models = own is not None or isinstance(ranked, Devices)
        scores = _over_clients(fed, ranked, own, counts)
        models = _served(fed, ranked, own)
        if ended and models is not None and fed.settings.fine_tune:
            scores |= _fine_tuned(fed, models, self._rate(max(1, fed.round)))
        return scores

    def _sound(self, ranked: Tensor | Devices, entry: dict[str, float]) -> bool:
        """Return whether the ranked model's loss is finite: on validation data. Without any, on training data
        after the last round; after the others the next one's training loss tells.
        """
        if "val_loss" in entry:
            return math.isfinite(entry["val_loss"])
        if not self.finished:
            return True
        return math.isfinite(_scores(self.fed, ranked, self.fed.data.train)["loss"])

    def save(self) -> dict[str, Any]:
        """Return everything that survives a round, as tensors, numbers and strings only."""
        rows = {k: v for k, v in self.state.items() if isinstance(v, ClientRows)}
        return {
            "tensors": {k: _alone(v) for k, v in self.state.items() if k not in rows},
            "rows": {k: {"slot": v.slot, "values": _alone(v.values)} for k, v in rows.items()},
            "round": self.fed.round,
            "counters": self.fed.counters,
            "history": self.history,
            "diverged": self.diverged,
            "halved": self.fed.halved,
            "statistics": self.fed.model.statistics and self.fed.model.statistics.server,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` gave; the rest of the run equals an uninterrupted one."""
        for name, table in saved["rows"].items():
            rows = self.state[name]
            rows.slot, rows.values = table["slot"].clone(), table["values"]
        for name, tensor in saved["tensors"].items():
            at = self.state[name].device if name in self.state else self.fed.device
            self.state = {**self.state, name: tensor.to(at)}
        self.fed.round, self.diverged = saved["round"], saved["diverged"]
        self.fed.halved = saved.get("halved")
        self.fed.counters = dict(saved["counters"])
        self.history = [dict(entry) for entry in saved["history"]]
        if self.fed.model.statistics is not None:
            self.fed.model.statistics.server = saved["statistics"]


def _alone(tensor: Tensor | None) -> Tensor | None:
    """Return a tensor as it is written: on the host, without the rest of its storage, which would be written too."""
    if tensor is None:
        return None
    host = tensor.cpu()
    whole = host.untyped_storage().nbytes() == host.numel() * host.element_size()
    return host if whole else host.clone(memory_format=torch.contiguous_format)


# On pooled samples


def _scores(fed: Federation, model: Tensor | Devices, ids: Array) -> dict[str, float]:
    """Return a model's scores on samples; of several devices' models the weighted mean, the worst and the best."""
    if isinstance(model, torch.Tensor):
        return {k: float(v) for k, v in fed.evaluate(model, ids).items()}
    each = fed.evaluate(model.models, ids)
    means = {k: float(v @ model.weights.to(v)) for k, v in each.items()}
    metric = fed.data.dataset.task.metric
    ends = {f"{metric}_min": each[metric].min(), f"{metric}_max": each[metric].max()}
    return means | {name: float(value) for name, value in ends.items()}


def _on_parts(fed: Federation, model: Tensor | Devices, prefix: str = "") -> dict[str, float]:
    """Return a model's scores on test and, where there are any, validation samples: `test_accuracy`, ..."""
    entry: dict[str, float] = {}
    for part, ids in (("test", fed.data.test), ("val", fed.data.val)):
        if len(ids):
            values = _scores(fed, model, ids) | _labelwise(fed, model, ids)
            entry |= {f"{prefix}{part}_{metric}": value for metric, value in values.items()}
    return entry


def _labelwise(fed: Federation, model: Tensor | Devices, ids: Array) -> dict[str, float]:
    """Return what `metric` asks for besides means over samples; of several devices' models the weighted mean."""
    name = fed.data.dataset.task.by(fed.settings.metric).metric
    if name not in LABELWISE:
        return {}
    if not fed.model.one_by_one:  # as means over samples are computed
        ids = randomness.generator("evaluation").permutation(ids)
    if isinstance(model, torch.Tensor):
        model = Devices(model[None], torch.ones(1))
    blocks, value = to_device(ids, fed.device).split(OUTPUTS), 0.0
    for share, w in zip(model.weights.tolist(), model.models, strict=True):
        logits = torch.cat([fed.model.logits(w, fed.x[block]).double().cpu() for block in blocks])
        value += share * MEASURES[name](logits.numpy(), fed.data.dataset.y[ids])
    return {name: value}


# Over the clients


def refuse_personal(data: FederatedData, model: Model) -> None:
    """Raise `UserError` where no client can be tested by itself, as metric `personal` asks."""
    lacks = ""
    if not model.one_by_one:
        lacks = "a model that scores each sample by itself, not by its batch's statistics"
    elif data.client_tests is None:
        lacks = "labels or owners that say which client a test sample is of"
    if lacks:
        raise UserError(f"metric personal needs {lacks}: use metric pooled")


def _served(fed: Federation, model: Tensor | Devices, own: Tensor | None) -> Tensor | None:
    """Return the models that clients are tested with: the ranked one (d,), or their `own` (n, d) under `metric: personal`
    and where models of some devices are ranked; None where the method then keeps none.
    """
    if isinstance(model, torch.Tensor) and (own is None or fed.settings.metric != "personal"):
        return model
    return own


def _over_clients(
    fed: Federation, ranked: Tensor | Devices, own: Tensor | None, counts: bool
) -> dict[str, float]:
    """Return how the `_served` models serve the clients, each tested on what it would meet: the plain mean over clients,
    under `metric: personal` also on validation data. Where a score `counts` the evaluation, also how unevenly,
    and the mean over clients that took no part in training. Nothing where a sample's score depends on its batch.
    """
    data, judged, models = fed.data, fed.settings.metric == "personal", _served(fed, ranked, own)
    if models is None and judged:
        raise UserError("metric personal needs a model of every client, by scored() or personal()")
    if not fed.model.one_by_one:
        return {}
    name, entry = f"test_{data.dataset.task.metric}", dict[str, float]()
    if models is not None and data.client_tests is not None:
        each = _each_scored(fed, models, data.client_tests)
        entry[f"{name}{PERSONAL}"] = float(each.mean())
        if counts:
            entry |= _unevenness(fed, name, each)
        if judged and data.client_vals is not None:
            validated = _each_scored(fed, models, data.client_vals)
            entry[f"val_{data.dataset.task.metric}{PERSONAL}"] = float(validated.mean())
    if counts and data.unseen_tests is not None and isinstance(ranked, torch.Tensor):
        entry[f"{name}_unseen"] = float(_each_scored(fed, ranked, data.unseen_tests).mean())
    return entry


def _each_scored(fed: Federation, models: Tensor, tests: ClientTests) -> Array:
    """Return what clients score, each with its own of models (n, d), or all with one (d,)."""
    metric = fed.data.dataset.task.metric
    if models.dim() == 1:
        return tests.shares @ np.array([_scores(fed, models, ids)[metric] for ids in tests.groups])
    return _by_blocks(fed, tests, partial(_rows, models))


def _fine_tuned(fed: Federation, models: Tensor, lr: float) -> dict[str, float]:
    """Return what `models`, one (d,) or each client's own (n, d), are worth to clients that go on by themselves: each
    trains for `fine_tune` epochs of plain local SGD at rate `lr`, then is tested on what it would meet. Mean over
    clients, the worst 10 % and the standard deviation; nothing where clients cannot be tested.
    """
    epochs, tests = fed.settings.fine_tune, fed.data.client_tests
    if epochs is None or tests is None or not fed.model.one_by_one:
        return {}
    everyone = models if models.dim() == 2 else models.expand(fed.n, -1)

    def trained(ids: Array) -> Tensor:
        return fed.fine_tune(torch.from_numpy(ids), _rows(everyone, ids), lr, epochs)

    each = _by_blocks(fed, tests, trained)
    name = f"test_{fed.data.dataset.task.metric}_fine_tuned"
    return {name: float(each.mean()), **_unevenness(fed, name, each)}


def _rows(models: Tensor, ids: Array) -> Tensor:
    return models[torch.from_numpy(ids).to(models.device)]


def _by_blocks(fed: Federation, tests: ClientTests, models: Any) -> Array:
    """Return what clients score with `models(ids)` (k, d), each on the groups that it would meet, block by block."""
    metric, each = fed.data.dataset.task.metric, np.zeros(len(tests.clients))
    for first in range(0, len(each), BLOCK):
        block = slice(first, first + BLOCK)
        w, shares = models(tests.clients[block]), tests.shares[block]
        for group in np.flatnonzero(shares.any(0)):
            who = np.flatnonzero(shares[:, group])
            scores = fed.evaluate(_rows(w, who), tests.groups[group])[metric].cpu().numpy()
            each[block][who] += shares[who, group] * scores
    return each


def _unevenness(fed: Federation, name: str, each: Array) -> dict[str, float]:
    """Return the mean of the worst tenth of the clients' scores, at least one, and their standard deviation."""
    ascending, tenth = np.sort(each), math.ceil(len(each) / 10)
    worst = ascending[:tenth] if fed.data.dataset.task.sign > 0 else ascending[-tenth:]
    return {f"{name}_worst10": float(worst.mean()), f"{name}_spread": float(each.std())}
