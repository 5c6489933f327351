"""The loop around a federation: rounds, evaluations, counters, checkpoints, divergence."""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trials.algorithm import Algorithm, Devices, Scored, State
from trials.common.errors import UserError
from trials.common.plugins import contained
from trials.common.tensors import Tensor, torch
from trials.engine import budget
from trials.engine.client_rows import ClientRows
from trials.engine.federation import Federation
from trials.models.running_statistics import RunningStatistics
from trials.run import evaluation
from trials.scoring.metrics import Task


class Simulation:
    """One federated run: an algorithm, a federation, and the loop that evaluates on the way.

    `history` holds one flat dict an evaluation, round 0 (the untrained model) first; counters in it
    are cumulative. The run is over when `finished`: all rounds done, or `diverged`, which no test
    sample decides. `algorithm` is that of the current round; the state is made once, by that of
    round 1.
    """

    @contained()
    def __init__(self, algorithm: Algorithm, fed: Federation) -> None:
        self._phases = algorithm.phases()
        for phase in self._phases.values():
            phase.check(fed.n, fed.model, fed.settings)
        if fed.settings.metric == "personal":
            evaluation.refuse_personal(fed.data, fed.model)
        self.algorithm, self.fed = self._phases[1], fed
        self.state = self.algorithm.init(fed)
        self.diverged = False
        self._clock = 0.0
        self.history: list[dict[str, float]] = []
        self.history.append(self._evaluation())

    @property
    def task(self) -> Task:
        """What the run is judged by."""
        return self.fed.data.dataset.task.by(self.fed.settings.metric)

    @property
    def finished(self) -> bool:
        """Whether all rounds are done, or the run has diverged."""
        return self.diverged or self.fed.round >= self.fed.settings.rounds

    def evaluations(self) -> Iterator[dict[str, float]]:
        """The evaluations from here on, each after the rounds up to it: the loop of every run."""
        while not self.finished:
            yield self.advance()

    @contained()
    def advance(self) -> dict[str, float]:
        """Run the rounds up to the next evaluation; that evaluation, also appended to `history`.

        A round whose training loss is not finite is the last: the run has diverged. A round in which nobody trains
        has none. Raises `UserError` where
        the algorithm's state or models have other shapes than they must.
        """
        settings = self.fed.settings
        started, first = time.perf_counter(), self.fed.round
        while not self.finished:
            self.fed.begin(self.fed.round + 1)
            self.algorithm = self._phases.get(self.fed.round, self.algorithm)
            rate, kept = self._rate(self.fed.round), self._statistics
            if kept is not None:
                kept.begin()
            after = replace(self.algorithm, lr=rate).round(self.state, self.fed)
            if kept is not None:
                kept.end(self.fed.weights)
            self.state = _sound_state(after, self.state)
            self.fed.end()
            self.diverged = self.fed.trained and not math.isfinite(self.fed.train_loss)
            if self.fed.round % settings.evaluation_gap == 0:
                break
        self._clock = (time.perf_counter() - started) / max(1, self.fed.round - first)
        self.history.append(self._evaluation())
        return self.history[-1]

    @property
    def _statistics(self) -> RunningStatistics | None:
        """BatchNorm's, where the model keeps any."""
        return self.fed.model.statistics

    def _rate(self, round_index: int) -> float:
        """The learning rate of a round of this phase."""
        return float(self.algorithm.lr * self.fed.settings.lr_decay ** (round_index - 1))

    def _evaluation(self) -> dict[str, float]:
        """Scores of the models the algorithm names; the ranked one's have no prefix."""
        started = time.perf_counter()
        found: dict[str, float] = {"round": self.fed.round}
        scored = _models(self.algorithm.scored(self.state, self.fed), self.fed.d)
        for rank, (name, model) in enumerate(scored.items()):
            found |= evaluation.on_parts(self.fed, model, "" if rank == 0 else f"{name}_")
            if rank == 0:
                found |= self._over_clients(model)
        found |= self.algorithm.measured(self.state, self.fed)
        self.diverged = self.diverged or not self._sound(next(iter(scored.values())), found)
        if self.fed.trained:
            found["train_loss"] = self.fed.train_loss
        if self.fed.round:
            found["round_seconds"] = self._clock
            found["evaluation_seconds"] = time.perf_counter() - started
        return {**found, **self.fed.counters}

    def _over_clients(self, ranked: Tensor | Devices) -> dict[str, float]:
        """How the clients are served: in the end, and all along where the run is judged by that."""
        fed, judged = self.fed, self.fed.settings.metric == "personal"
        ended, own = fed.round == 0 or self.finished, None
        if not ended and not judged:
            return {}
        if judged or isinstance(ranked, Devices):
            own = _own(self.algorithm.personal(self.state, fed), fed)
        models = evaluation.served(fed, ranked, own)
        found = evaluation.over_clients(fed, models, ended)
        if ended:
            found |= evaluation.unseen(fed, ranked)
            found |= evaluation.fine_tuned(fed, models, self._rate(max(1, fed.round)))
        return found

    def _sound(self, ranked: Tensor | Devices, found: dict[str, float]) -> bool:
        """Whether the ranked model's loss is finite: on validation data. Without any, on training data
        after the last round; after the others the next one's training loss tells.
        """
        if "val_loss" in found:
            return math.isfinite(found["val_loss"])
        if not self.finished:
            return True
        return math.isfinite(evaluation.scores(self.fed, ranked, self.fed.data.train)["loss"])

    @property
    def half(self) -> int:
        """Half of the clients that are computed at once; 0 where they cannot be, or were halved."""
        fed = self.fed
        if fed.halved or fed.execution != "batched":
            return 0
        return min(fed.chunk or fed.n, budget.selected(fed.settings, fed.n)) // 2

    def halve(self) -> None:
        """From the next round on compute `half` as many clients at once: they were too many."""
        self.fed.halved = {"round": self.fed.round + 1, "chunk": self.half}

    def save(self) -> dict[str, Any]:
        """Everything that survives a round, as tensors, numbers and strings only."""
        rows = {k: v for k, v in self.state.items() if isinstance(v, ClientRows)}
        tensors = {k: v for k, v in self.state.items() if not isinstance(v, ClientRows)}
        return {
            "tensors": {k: _alone(v) for k, v in tensors.items()},
            "rows": {k: {"slot": v.slot, "values": _alone(v.values)} for k, v in rows.items()},
            "round": self.fed.round,
            "counters": self.fed.counters,
            "history": self.history,
            "diverged": self.diverged,
            "halved": self.fed.halved,
            "statistics": self._statistics and self._statistics.server,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` gave; the rest of the run equals an uninterrupted one."""
        for name, table in saved["rows"].items():
            rows = self.state[name]
            assert isinstance(rows, ClientRows)
            rows.slot, rows.values = table["slot"].clone(), table["values"]
        for name, tensor in saved["tensors"].items():
            at = self.state[name].device if name in self.state else self.fed.device
            self.state = {**self.state, name: tensor.to(at)}
        self.fed.round, self.diverged = saved["round"], saved["diverged"]
        self.fed.halved = saved.get("halved")
        self.algorithm = self._phases[max(r for r in self._phases if r <= max(1, self.fed.round))]
        self.fed.counters = dict(saved["counters"])
        self.history = [dict(entry) for entry in saved["history"]]
        if self._statistics is not None:
            self._statistics.server = saved["statistics"]


def _sound_state(after: State, before: State) -> State:
    """The state after a round; raises `UserError` where its `w` has another shape than before."""
    was, now = before.get("w"), after.get("w")
    if was is not None and now is not None and now.shape != was.shape:
        raise UserError(
            f"state 'w' has shape {tuple(now.shape)} after a round, {tuple(was.shape)} before it"
        )
    return after


def _models(scored: Scored, d: int) -> Scored:
    """What is to be evaluated; raises `UserError` for what is no model of `d` weights."""
    for name, model in scored.items():
        several = isinstance(model, Devices)
        w = model.models if isinstance(model, Devices) else model
        if w.dim() != 1 + several or w.shape[-1] != d:
            must = f"(k, {d})" if several else f"({d},)"
            raise UserError(f"scored() gives {name!r} the shape {tuple(w.shape)}, not {must}")
    return scored


def _own(models: Tensor | None, fed: Federation) -> Tensor | None:
    """Clients' own models; raises `UserError` where they are not one of each client."""
    if models is not None and models.shape != (fed.n, fed.d):
        shape = tuple(models.shape)
        raise UserError(f"personal() gives the shape {shape}, not ({fed.n}, {fed.d})")
    return models


def _alone(tensor: Tensor | None) -> Tensor | None:
    """A tensor as it is written: on the host, and without the rest of what it is a part of, which
    `torch.save` would write too.
    """
    if tensor is None:
        return None
    host = tensor.cpu()
    whole = host.untyped_storage().nbytes() == host.numel() * host.element_size()
    return host if whole else host.clone(memory_format=torch.contiguous_format)
