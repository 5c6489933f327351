"""The loop around a federation: rounds, evaluations, counters, checkpoints, divergence."""

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from trials import budget
from trials.algorithm import Algorithm, Devices
from trials.client_rows import ClientRows
from trials.federation import Federation
from trials.tensors import Tensor, torch


class Simulation:
    """One federated run: an algorithm, a federation, and the loop that evaluates on the way.

    `history` holds one flat dict an evaluation, round 0 (the untrained model) first; counters in it
    are cumulative. The run is over when `finished`: all rounds done, or `diverged`, which no test
    sample decides. `algorithm` is that of the current round; the state is made once, by that of
    round 1.
    """

    def __init__(self, algorithm: Algorithm, fed: Federation) -> None:
        self._phases = algorithm.phases()
        for phase in self._phases.values():
            phase.check(fed.n, fed.model, fed.settings)
        self.algorithm, self.fed = self._phases[1], fed
        self.state = self.algorithm.init(fed)
        self.diverged = False
        self._clock = 0.0
        self.history: list[dict[str, float]] = []
        self.history.append(self._evaluation())

    @property
    def finished(self) -> bool:
        """Whether all rounds are done, or the run has diverged."""
        return self.diverged or self.fed.round >= self.fed.settings.rounds

    def advance(self) -> dict[str, float]:
        """Run the rounds up to the next evaluation; that evaluation, also appended to `history`.

        A round whose training loss is not finite is the last: the run has diverged.
        """
        settings = self.fed.settings
        started, first = time.perf_counter(), self.fed.round
        while not self.finished:
            self.fed.begin(self.fed.round + 1)
            self.algorithm = self._phases.get(self.fed.round, self.algorithm)
            rate = self.algorithm.lr * settings.lr_decay ** (self.fed.round - 1)
            self.state = replace(self.algorithm, lr=rate).round(self.state, self.fed)
            self.diverged = not math.isfinite(self.fed.train_loss)
            if self.fed.round % settings.evaluation_gap == 0:
                break
        self._clock = (time.perf_counter() - started) / max(1, self.fed.round - first)
        self.history.append(self._evaluation())
        return self.history[-1]

    def _evaluation(self) -> dict[str, float]:
        """Scores of the models the algorithm names; the ranked one's have no prefix."""
        started = time.perf_counter()
        parts = {"test": self.fed.data.test, "val": self.fed.data.val}
        found: dict[str, float] = {"round": self.fed.round}
        scored = self.algorithm.scored(self.state, self.fed)
        for rank, (name, model) in enumerate(scored.items()):
            for part, ids in parts.items():
                if len(ids):
                    prefix = part if rank == 0 else f"{name}_{part}"
                    found |= {f"{prefix}_{k}": v for k, v in self._scores(model, ids).items()}
            if rank == 0 and (self.fed.round == 0 or self.finished):
                found |= self._over_clients(model)
        found |= self.algorithm.measured(self.state, self.fed)
        self.diverged = self.diverged or not self._sound(next(iter(scored.values())), found)
        if self.fed.round:
            found["train_loss"] = self.fed.train_loss
            found["round_seconds"] = self._clock
            found["evaluation_seconds"] = time.perf_counter() - started
        return {**found, **self.fed.counters}

    def _sound(self, ranked: Tensor | Devices, found: dict[str, float]) -> bool:
        """Whether the ranked model's loss is finite: on validation data. Without any, on training data
        after the last round; after the others the next one's training loss tells.
        """
        if "val_loss" in found:
            return math.isfinite(found["val_loss"])
        if not self.finished:
            return True
        return math.isfinite(self._scores(ranked, self.fed.data.train)["loss"])

    def _scores(self, model: Tensor | Devices, ids: npt.NDArray[Any]) -> dict[str, float]:
        """A model's scores; of several devices' models the weighted mean, the worst and the best."""
        if isinstance(model, torch.Tensor):
            return {k: float(v) for k, v in self.fed.evaluate(model, ids).items()}
        scores = self.fed.evaluate(model.models, ids)
        found = {k: float(v @ model.weights.to(v)) for k, v in scores.items()}
        metric = self.fed.data.dataset.task.metric
        return {
            **found,
            f"{metric}_min": float(scores[metric].min()),
            f"{metric}_max": float(scores[metric].max()),
        }

    def _over_clients(self, model: Tensor | Devices) -> dict[str, float]:
        """How unevenly a model serves the clients, each tested on what it would meet: the mean of the
        worst 10 % of clients (at least one), and the standard deviation over all. Nothing where what a
        sample's score is depends on the samples it is scored with: here they have one label.
        """
        tests, task = self.fed.data.client_tests, self.fed.data.dataset.task
        if tests is None or not self.fed.model.architecture.one_by_one:
            return {}
        groups, shares = tests
        scores = shares @ np.array([self._scores(model, ids)[task.metric] for ids in groups])
        ascending = np.sort(scores)
        tenth = math.ceil(len(scores) / 10)
        worst = ascending[:tenth] if task.sign > 0 else ascending[-tenth:]
        name = f"test_{task.metric}"
        return {f"{name}_worst10": float(worst.mean()), f"{name}_spread": float(scores.std())}

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
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` gave; the rest of the run equals an uninterrupted one."""
        for name, table in saved["rows"].items():
            rows = self.state[name]
            assert isinstance(rows, ClientRows)
            rows.slot, rows.values = table["slot"].clone(), table["values"]
        kept = {k: v.to(self.fed.device) for k, v in saved["tensors"].items()}
        self.state = {**self.state, **kept}
        self.fed.round, self.diverged = saved["round"], saved["diverged"]
        self.fed.halved = saved.get("halved")
        self.algorithm = self._phases[max(r for r in self._phases if r <= max(1, self.fed.round))]
        self.fed.counters = dict(saved["counters"])
        self.history = [dict(entry) for entry in saved["history"]]


def _alone(tensor: Tensor | None) -> Tensor | None:
    """A tensor as it is written: on the host, and without the rest of what it is a part of, which
    `torch.save` would write too.
    """
    if tensor is None:
        return None
    host = tensor.cpu()
    whole = host.untyped_storage().nbytes() == host.numel() * host.element_size()
    return host if whole else host.clone(memory_format=torch.contiguous_format)
