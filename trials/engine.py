"""The federation: the services an algorithm's round is written with, and the loop around it."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trials import randomness
from trials.algorithm import Algorithm
from trials.federated_data import FederatedData
from trials.heterogeneity import Heterogeneity
from trials.models import Model
from trials.settings import Settings
from trials.solver import Direction, Solver, full_pass, minibatches, steps_per_epoch

Array = npt.NDArray[Any]
COUNTERS = (
    "uploaded_bytes",
    "downloaded_bytes",
    "peer_bytes",
    "clients_uploaded",
    "client_steps",
    "gradient_passes",
)
"""What is counted, all cumulative since round 1."""
SERVER = -1
"""The "client id" whose initial weights are everyone's common ones."""


class ClientRows:
    """A (n, d) table of per-client state that stores only the rows ever written.

    `rows[ids]` (k, d) gives a client that was never written its `default(ids)` row.
    """

    def __init__(self, clients: int, default: Callable[[Tensor], Tensor]) -> None:
        self.default = default
        self.slot = torch.full((clients,), -1)
        self.values: Tensor | None = None

    def __getitem__(self, ids: Tensor) -> Tensor:
        slot = self.slot[ids]
        new = slot < 0
        if self.values is None or bool(new.all()):
            return self.default(ids)
        rows = self.values[slot.clamp(min=0).to(self.values.device)]
        if bool(new.any()):
            rows[new.to(rows.device)] = self.default(ids[new])
        return rows

    def write(self, ids: Tensor, rows: Tensor) -> None:
        """Set the rows of clients `ids` (k,) to `rows` (k, d), in place."""
        new = torch.unique(ids[self.slot[ids] < 0])
        used = 0 if self.values is None else len(self.values)
        self.slot[new] = torch.arange(used, used + len(new))
        if len(new):
            fresh = rows.new_empty(len(new), rows.shape[1])
            self.values = fresh if self.values is None else torch.cat([self.values, fresh])
        assert self.values is not None
        self.values[self.slot[ids].to(rows.device)] = rows


class Federation:
    """What an algorithm sees of the world in a round, and all it can do in it.

    Clients are ids (k,), int64 on the CPU; weights are rows (k, d) on the device. Each service
    counts what it does: bytes when something is sent, steps and passes when something is computed.
    """

    def __init__(
        self,
        data: FederatedData,
        model: Model,
        heterogeneity: Heterogeneity,
        settings: Settings,
        seed: int,
        device: torch.device,
    ) -> None:
        self.data, self.model, self.settings, self.seed = data, model, settings, seed
        self._system = heterogeneity.system
        self.device, self.dtype = device, getattr(torch, settings.dtype)
        self.x, self.y = data.tensors(device, self.dtype)
        batched = device.type != "cpu" or model.architecture.batched_on_cpu
        execution = settings.execution or ("batched" if batched else "sequential")
        self._solver = Solver(model, self.x, self.y, execution == "sequential")
        self.round = 0
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.train_loss = math.nan
        self._uploaded: set[int] = set()

    @property
    def n(self) -> int:
        """Number of clients."""
        return self.data.clients

    @property
    def d(self) -> int:
        """Number of weights."""
        return self.model.d

    def begin(self, round_index: int) -> None:
        """Start a round (counted from 1); called by the loop, not by algorithms."""
        self.round = round_index
        self._uploaded = set()

    def initial(self, ids: Tensor) -> Tensor:
        """Initial weights (k, d): zeros, the same row for all, or each client's own (`init`)."""
        if self.settings.init == "zeros":
            return torch.zeros(len(ids), self.d, dtype=self.dtype, device=self.device)
        own = ids.numpy() if self.settings.init == "own" else np.array([SERVER])
        rows = self.tensor(self.model.initial(own, self.seed))
        return rows.expand(len(ids), -1).clone() if len(own) == 1 else rows

    def initial_server(self) -> Tensor:
        """The server's initial weights (d,); zeros, or those that all clients have if common."""
        return self.initial(torch.tensor([SERVER]))[0]

    def client_rows(self, default: Callable[[Tensor], Tensor] | None = None) -> ClientRows:
        """Per-client state (n, d), zero (or `default(ids)`) until written."""
        return ClientRows(self.n, default or self._zeros)

    def select(self) -> Tensor:
        """Ids (K,) of this round's clients: the K = participation n smallest of n uniform numbers,
        so without replacement and the same for every algorithm. Ascending.
        """
        u = randomness.uniform("select", self.seed, self.round, np.arange(self.n))
        k = max(1, round(self.settings.participation * self.n))
        return torch.from_numpy(np.sort(np.argsort(u, kind="stable")[:k]))

    def weights(self, ids: Tensor) -> Tensor:
        """Aggregation weights (k,) that sum to 1: m_k / sum m, or 1 / k if `aggregation` is plain."""
        m = (
            self.data.sizes[ids.numpy()]
            if self.settings.aggregation == "samples"
            else np.ones(len(ids))
        )
        return self.tensor(m / m.sum())

    def broadcast(self, ids: Tensor, message: Tensor) -> Tensor:
        """Send one message (d,) to clients `ids`: what they received, (k, d)."""
        self.counters["downloaded_bytes"] += len(ids) * message.numel() * message.element_size()
        return message.expand(len(ids), *message.shape)

    def upload(self, ids: Tensor, message: Tensor) -> Tensor:
        """Send each client's message, (k,) or (k, ...), to the server: what it received, the same."""
        self.counters["uploaded_bytes"] += message.numel() * message.element_size()
        before = len(self._uploaded)
        self._uploaded.update(ids.tolist())
        self.counters["clients_uploaded"] += len(self._uploaded) - before
        return message

    def train(
        self, ids: Tensor, start: Tensor, lr: float, direction: Direction, /, **aligned: Tensor
    ) -> Tensor:
        """Local SGD of clients `ids` from `start` (k, d): their weights after it, (k, d).

        Each step is w <- w - lr direction(w, g, **aligned) with the minibatch gradient g, all (a, d)
        for the rows still at work; `aligned` tensors (k, ...) are cut to the same rows. Momentum,
        weight decay, batches and the amount of work are the study's settings.
        """
        k = ids.numpy()
        if self._system is not None:
            steps = self._system.draw(k, self.round, self.seed)
        elif self.settings.local_steps is not None:
            steps = np.full(len(k), self.settings.local_steps)
        else:
            per_epoch = steps_per_epoch(self.data.sizes[k], self.settings.batch_size)
            steps = self.settings.local_epochs * per_epoch
        plan = minibatches(self.data, k, steps, self.settings.batch_size, (self.seed, self.round))
        s = self.settings
        w, loss = self._solver.sgd(start, plan, lr, direction, aligned, s.momentum, s.weight_decay)
        self.counters["client_steps"] += int(steps.sum())
        self.train_loss = float(loss)
        return w

    def gradient(self, ids: Tensor, w: Tensor) -> Tensor:
        """Gradients of F_k on each client's full data at w (k, d): (k, d)."""
        g, loss = self._solver.gradient(w, full_pass(self.data, ids.numpy()))
        if self.settings.weight_decay:
            g = g.add_(w, alpha=self.settings.weight_decay)
        self.counters["gradient_passes"] += len(ids)
        if math.isnan(self.train_loss):
            self.train_loss = float(loss)
        return g

    def uniform(self, name: str, ids: Tensor, size: int) -> Tensor:
        """Uniform numbers in [0, 1), (k, size): a function of name, seed, round and client."""
        words = (self.seed, self.round, ids.numpy()[:, None], np.arange(size))
        return self.tensor(randomness.uniform(name, *words))

    def tensor(self, array: Array) -> Tensor:
        """A NumPy array in the run's dtype, on its device."""
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, self.dtype)

    def evaluate(self, w: Tensor, ids: Array) -> dict[str, float]:
        """Accuracy, mean cross-entropy and (above 5 classes) top-5 accuracy of w (d,) on samples."""
        right = top5 = loss = 0.0
        for block in torch.from_numpy(ids).to(self.device).split(2048):
            y = self.y[block]
            logits = self.model.logits(w, self.x[block])
            loss += float(torch.nn.functional.cross_entropy(logits, y, reduction="sum"))
            best = logits.topk(min(5, logits.shape[1]), dim=1).indices == y[:, None]
            right += int(best[:, 0].sum())
            top5 += int(best.any(dim=1).sum())
        scores = {"accuracy": right / len(ids), "loss": loss / len(ids)}
        return (
            {**scores, "top5_accuracy": top5 / len(ids)}
            if self.data.dataset.classes > 5
            else scores
        )

    def _zeros(self, ids: Tensor) -> Tensor:
        return torch.zeros(len(ids), self.d, dtype=self.dtype, device=self.device)


class Simulation:
    """One federated run: an algorithm, a federation, and the loop that evaluates on the way.

    `history` holds one flat dict an evaluation, round 0 (the untrained model) first; counters in it
    are cumulative. The run is over when `finished`: all rounds done, or `diverged`.
    """

    def __init__(self, algorithm: Algorithm, fed: Federation) -> None:
        self.algorithm, self.fed = algorithm, fed
        self.state = algorithm.init(fed)
        self.diverged = False
        self._clock = 0.0
        self.history: list[dict[str, float]] = []
        self.history.append(self._evaluation())

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.diverged or self.fed.round >= self.fed.settings.rounds

    def advance(self) -> dict[str, float]:
        """Run the rounds up to the next evaluation; that evaluation, also appended to `history`.

        A round whose training loss is not finite is the last: the run has diverged.
        """
        settings = self.fed.settings
        started, first = time.perf_counter(), self.fed.round
        while not self.finished:
            self.fed.begin(self.fed.round + 1)
            self.fed.train_loss = math.nan
            self.state = self.algorithm.round(self.state, self.fed)
            self.diverged = not math.isfinite(self.fed.train_loss)
            if self.fed.round % settings.evaluation_gap == 0:
                break
        self._clock = (time.perf_counter() - started) / max(1, self.fed.round - first)
        self.history.append(self._evaluation())
        return self.history[-1]

    def _evaluation(self) -> dict[str, float]:
        """Scores of the models the algorithm names; the ranked one's have no prefix."""
        parts = {"test": self.fed.data.test, "val": self.fed.data.val}
        found: dict[str, float] = {"round": self.fed.round}
        for rank, (name, w) in enumerate(self.algorithm.scored(self.state).items()):
            for part, ids in parts.items():
                if len(ids):
                    for metric, value in self.fed.evaluate(w, ids).items():
                        found[f"{part}_{metric}" if rank == 0 else f"{name}_{part}_{metric}"] = (
                            value
                        )
        self.diverged |= not math.isfinite(found["test_loss"])
        if self.fed.round:
            found["train_loss"] = self.fed.train_loss
            found["round_seconds"] = self._clock
        return {**found, **self.fed.counters}

    def save(self) -> dict[str, Any]:
        """Everything that survives a round, as tensors, numbers and strings only."""
        rows = {k: v for k, v in self.state.items() if isinstance(v, ClientRows)}
        return {
            "tensors": {k: v for k, v in self.state.items() if k not in rows},
            "rows": {k: {"slot": v.slot, "values": v.values} for k, v in rows.items()},
            "round": self.fed.round,
            "counters": self.fed.counters,
            "history": self.history,
            "diverged": self.diverged,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` gave; the rest of the run equals an uninterrupted one."""
        device = self.fed.device
        for name, table in saved["rows"].items():
            rows = self.state[name]
            assert isinstance(rows, ClientRows)
            rows.slot, values = table["slot"].clone(), table["values"]
            rows.values = None if values is None else values.to(device, copy=True)
        kept = {k: v.to(device) for k, v in saved["tensors"].items()}
        self.state = {**self.state, **kept}
        self.fed.round, self.diverged = saved["round"], saved["diverged"]
        self.fed.counters = dict(saved["counters"])
        self.history = [dict(entry) for entry in saved["history"]]


def score(history: list[dict[str, float]], metric: str, last: int = 3) -> float:
    """Mean of a metric over the last (three) evaluations of trained models."""
    values = [entry[metric] for entry in history if entry["round"] > 0][-last:]
    return sum(values) / len(values) if values else history[0][metric]
