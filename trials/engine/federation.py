"""The federation: the services with which an algorithm selects, trains and exchanges data with clients in a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common import randomness
from trials.common.device import budgets, computes, keep_freed
from trials.common.tensors import Tensor, torch
from trials.common.transfer import distinct, to_device, uniform_on
from trials.engine import budget, training
from trials.engine.direction import Direction
from trials.engine.training import Adam, Memory, Optimizer, Rule, Solver
from trials.federated_data import FederatedData
from trials.heterogeneity import Heterogeneity
from trials.models.base import Model
from trials.scoring.metrics import CLOCK, COUNTERS
from trials.scoring.scores import SCORES
from trials.settings import Settings

Array = npt.NDArray[Any]
SERVER = -1  # the id whose initial weights are the server's, and all clients' if common


class ClientRows:
    """A (n, d) table of per-client state that stores only the rows that have been written.

    `table[ids]` returns rows (k, d); a client that was never written has its row of `default(ids)`. Rows are returned
    on `device`. With `host` the table lies in the host's memory.
    """

    def __init__(
        self, n: int, default: Callable[[Tensor], Tensor], device: torch.device, host: bool = False
    ) -> None:
        self.default, self.device = default, device
        self.storage = torch.device("cpu") if host else device
        self._pinned = host and device.type == "cuda"
        self.slot = torch.full((n,), -1)
        self._table: Tensor | None = None
        self._used = 0

    @property
    def values(self) -> Tensor | None:
        """Return all rows that have been written, or None if there are none. The row of client k has the index `slot[k]`."""
        return None if self._table is None else self._table[: self._used]

    @values.setter
    def values(self, rows: Tensor | None) -> None:
        self._table, self._used = None, 0
        if rows is not None:
            self._table, self._used = self._empty(len(rows), rows), len(rows)
            self._table.copy_(rows)

    def __getitem__(self, ids: Tensor) -> Tensor:
        slot = self.slot[ids]
        new = slot < 0
        if self._table is None or bool(new.all()):
            return self.default(ids)
        rows = self._empty(len(ids), self._table)
        torch.index_select(self._table, 0, to_device(slot.clamp(min=0), self.storage), out=rows)
        rows = rows.to(self.device, non_blocking=self._pinned)
        if bool(new.any()):
            rows[to_device(new.nonzero()[:, 0], self.device)] = self.default(ids[new])
        return rows

    def write(self, ids: Tensor, rows: Tensor) -> None:
        """Set the rows of clients `ids` (k,) to `rows` (k, d), in place."""
        new = torch.unique(ids[self.slot[ids] < 0])
        needed = self._used + len(new)
        self.slot[new] = torch.arange(self._used, needed)
        if self._table is None or needed > len(self._table):
            # Twice the size needed, so that a growing table is not copied at each write.
            grown = self._empty(min(2 * needed, len(self.slot)), rows)
            if self._table is not None:
                grown[: self._used] = self._table[: self._used]
            self._table = grown
        self._used = needed
        self._table[to_device(self.slot[ids], self.storage)] = rows.to(self.storage)

    def mean(self, weights: Tensor) -> Tensor:
        """Return the weighted sum of all clients' rows, (d,). `weights` (n,) has one weight for each client."""
        blocks = torch.arange(len(self.slot)).split(64)
        return sum(weights[ids[0] : ids[-1] + 1] @ self[ids] for ids in blocks)  # type: ignore[return-value]

    def _empty(self, rows: int, like: Tensor) -> Tensor:
        """Return an uninitialised tensor with `rows` rows, each with the shape and dtype of a row of `like`."""
        size = (rows, *like.shape[1:])
        return torch.empty(size, dtype=like.dtype, device=self.storage, pin_memory=self._pinned)


class Federation:
    """The services of a run, by which an algorithm selects, trains and exchanges data with clients in a round.

    Clients are ids (k,), int64 on the CPU. They may repeat if they are selected with replacement, but a repeated client
    works and sends once. Weights are rows (k, d) on the device. Each service counts its work or bytes in `counters`.
    Every random draw is a function of (seed, round, client).
    """

    def __init__(
        self,
        data: FederatedData,
        model: Model,
        heterogeneity: Heterogeneity,
        settings: Settings,
        seed: int,
        device: torch.device,
        memory: float | None = None,
        members: int = 1,
        solver: Callable[..., Solver] = Solver,
    ) -> None:
        """Set up one of up to `members` runs in this process. Clients that are computed at once may take `memory` bytes in all."""
        computes(device, settings.dtype)
        keep_freed()
        self.data, self.model, self.settings, self.seed = data, model, settings, seed
        self.n, self.device, self._level = data.clients, device, heterogeneity
        self.dtype = torch.float64 if settings.dtype == "float64" else torch.float32
        self.x, self.y = data.tensors(device, self.dtype)
        model.check(data.dataset.x)
        self.execution = training.execution(model, settings, device)
        self.chunk, self.tables = self._limits(memory, members)
        self.kept: dict[str, ClientRows] = {}
        """The clients' optimizer state under `keep_moments`: a table (n, d) for each moment, and their step counts (n, 1)."""
        if settings.keep_moments and (vectors := self._rule(0.0).optimizer.vectors):
            self.kept = {f"optimizer's moment {i}": self.client_rows() for i in range(vectors)}
            steps = ClientRows(self.n, lambda ids: self._zeros(ids)[:, :1].double(), device)
            self.kept["optimizer's steps"] = steps
        self._solver = solver(model, self.x, self.y, self.execution, self.chunk)
        self._scores = SCORES[data.dataset.task.metric]
        self.counters: dict[str, Any] = dict.fromkeys(COUNTERS, 0)
        if any(modifier.timed for modifier in heterogeneity.modifiers):
            self.counters[CLOCK] = 0.0
        self.halved: dict[str, int] | None = None
        """Once memory was too small: the `round` from which only `chunk` clients are computed at once."""
        self.took: float | None = None
        """The simulated seconds of this round, if the algorithm sets them; None for those of the slowest client."""
        self.round, self._steps_done = 0, np.zeros(self.n)
        self._loss: Tensor | None = None
        self._uploaded, self._absent = set[int](), set[int]()

    def _limits(self, memory: float | None, members: int) -> tuple[int | None, float]:
        """Return how many clients to compute at once (None: all), and how many bytes tensors with a row per client may take on the device."""
        chunk, like = self.settings.chunk, torch.empty(0, dtype=self.dtype, device=self.device)
        sizes = self.d, like.element_size(), members
        resident = budget.resident_bytes(self.data, self.settings, *sizes)
        at_once, tables = budgets(self.device, resident)
        if self.execution == "batched" and chunk is None:
            client = budget.client_bytes(self.model, self.data, self.settings, like)
            chunk = max(1, int((memory or at_once) // client))
        return chunk, tables / members

    @property
    def d(self) -> int:
        """Return the number of weights of the model."""
        return self.model.d

    @property
    def everyone(self) -> Tensor:
        """Return the ids of all clients, (n,)."""
        return torch.arange(self.n)

    @property
    def count(self) -> int:
        """Return how many clients a round selects (on average if `selection` is independent): participation times n, rounded, at least 1."""
        return budget.selected(self.settings, self.n)

    @property
    def half(self) -> int:
        """Return how many clients to compute at once in a retry after memory ran out, or 0 if no retry is possible."""
        together = self.execution == "batched" and not self.halved
        return min(self.chunk or self.n, self.count) // 2 if together else 0

    def begin(self, round_index: int) -> None:
        """Begin round `round_index`, where 1 is the first round. Only the simulation calls this method."""
        self.round, self._loss, self.took = round_index, None, None
        self._steps_done = np.zeros(self.n)
        self._uploaded, self._absent = set(), set()
        if self.model.statistics is not None:
            self.model.statistics.begin()
        if self.halved and round_index >= self.halved["round"]:
            self._solver.chunk = self.halved["chunk"]

    def end(self) -> None:
        """Average BatchNorm statistics over clients and advance the simulated clock. Only the simulation calls this method."""
        if self.model.statistics is not None:
            self.model.statistics.end(self.weights)
        if CLOCK in self.counters:
            ids = np.flatnonzero(self._steps_done)
            slowest = self._level.seconds(self._steps_done[ids], ids, self.seed).max(initial=0.0)
            self.counters[CLOCK] += float(slowest) if self.took is None else self.took

    @property
    def train_loss(self) -> float | None:
        """Return this round's mean training loss, or None if neither training nor a full gradient has been computed."""
        return None if self._loss is None else float(self._loss)

    # Selection

    def select(self, stream: str = "select") -> Tensor:
        """Return the ids (K,) of this round's clients, ascending and equal for all algorithms. Draws of different `stream` are independent.

        If `selection` is `without_replacement`, these are the K clients with the smallest of n uniform numbers. `independent`
        selects each client whose number is below `participation`, and at least one. `with_replacement` makes K draws, so that
        ids may repeat. Clients that fail to answer under `+dropout(rate)` are left out, but at least one stays.
        """
        s = self.settings
        if s.selection == "with_replacement":
            return self.draw(torch.ones(self.n, dtype=torch.float64), stream)
        u = randomness.uniform(stream, self.seed, self.round, np.arange(self.n))
        k = self.count if s.selection == "without_replacement" else (u < s.participation).sum()
        return self._answering(np.sort(np.argpartition(u, max(1, k) - 1)[: max(1, k)]))

    def draw(self, p: Tensor, stream: str = "select") -> Tensor:
        """Draw K clients with replacement, with probabilities proportional to p (n,). Return the ids of the drawn clients
        that answer, in ascending order and with repeats. If p is 0 everywhere, all probabilities are equal.
        """
        share = p.double().cpu().numpy()
        cumulative = np.cumsum(share if share.any() else np.ones_like(share))
        u = randomness.uniform(stream, self.seed, self.round, np.arange(self.count))
        ids = np.searchsorted(cumulative / cumulative[-1], u, side="right")
        return self._answering(np.sort(np.minimum(ids, self.n - 1)))

    def shuffled(self, stream: str = "select") -> Tensor:
        """Return the ids of all clients that answer in this round, in random order."""
        u = randomness.uniform(stream, self.seed, self.round, np.arange(self.n))
        return self._answering(np.argsort(u, kind="stable"))

    @property
    def absent(self) -> Tensor:
        """Return the ids of the clients that were selected in this round but did not answer, in ascending order."""
        return torch.tensor(sorted(self._absent), dtype=torch.int64)

    def _answering(self, ids: Array) -> Tensor:
        answering = self._level.answering(ids, self.round, self.seed)
        if answering is not ids:
            self._absent.update(np.setdiff1d(ids, answering).tolist())
        return torch.from_numpy(answering)

    def weights(self, ids: Tensor) -> Tensor:
        """Return aggregation weights (k,), which sum to 1. They are proportional to sample counts, or equal if `aggregation` is plain."""
        return self.tensor(self._shares(ids.numpy()))

    def relative_size(self, ids: Tensor) -> Tensor:
        """Return n times each client's aggregation weight among all n clients, (k,). This is 1 if `aggregation` is plain."""
        return self.n * self.tensor(self._shares(np.arange(self.n))[ids.numpy()])

    # State and random numbers

    def initial(self, ids: Tensor) -> Tensor:
        """Return initial weights (k, d). The setting `init` makes them zeros, one random vector for all, or one for each client."""
        if self.settings.init == "zeros":
            return self._zeros(ids)
        owners = ids.numpy() if self.settings.init == "own" else np.array([SERVER])
        arguments = owners, self.seed, self.settings.weights
        rows = self.tensor(self._solver.once(self.model.initial, *arguments))
        return rows.expand(len(ids), -1).clone() if len(owners) == 1 else rows

    def initial_server(self) -> Tensor:
        """Return the server's initial weights (d,), zeros or random. If the setting `init` is common, clients get the same weights."""
        return self.initial(torch.tensor([SERVER]))[0]

    def client_rows(self, default: Callable[[Tensor], Tensor] | None = None) -> ClientRows:
        """Return a table (n, d) of client state, filled with zeros or `default(ids)`. It lies in host memory if the GPU lacks room."""
        size = self.n * self.d * self.dtype.itemsize
        host = size > self.tables
        self.tables -= 0 if host else size
        return ClientRows(self.n, default or self._zeros, self.device, host)

    def uniform(self, name: str, ids: Tensor, size: int) -> Tensor:
        """Return uniform random numbers in [0, 1), (k, size). They depend only on the `name`, the seed, the round and the client."""
        key = (self.seed, self.round, ids.numpy()[:, None])
        below_one = 1 - torch.finfo(self.dtype).eps / 2  # where single precision would round to 1
        u = uniform_on(self.device, name, *key, size=size, dtype=self.dtype)
        return u.clamp(max=below_one)

    def tensor(self, array: Array | Tensor) -> Tensor:
        """Return an array or tensor from the host as a tensor on the run's device, in the run's dtype."""
        return to_device(array, self.device, self.dtype)

    def index(self, ids: Tensor) -> Tensor:
        """Return `ids` (k,) on the device. Indexing a device tensor with these ids does not block the host."""
        return to_device(ids, self.device)

    # Communication

    def broadcast(self, ids: Tensor, message: Tensor) -> Tensor:
        """Send `message` from the server to clients `ids` (k,). Return the received messages, (k, ...)."""
        receivers = len(np.unique(ids.numpy()))
        self.counters["downloaded_bytes"] += receivers * message.numel() * message.element_size()
        return message.expand(len(ids), *message.shape)

    def upload(self, ids: Tensor, message: Tensor) -> Tensor:
        """Send `message` (k, ...) to the server, one row from each of the clients `ids` (k,). Return `message` unchanged."""
        if len(ids):
            senders = set(ids.tolist())
            floats = len(senders) * (message.numel() // len(ids))
            self.counters["uploaded_bytes"] += floats * message.element_size()
            self.counters["clients_uploaded"] += len(senders - self._uploaded)
            self._uploaded |= senders
        return message

    def exchange(self, w: Tensor, mixing: Tensor) -> Tensor:
        """Return mixing @ w, (n, d), with `mixing` (n, n) on the CPU. Client i sends its row to each client j with mixing_ji != 0."""
        edges = int((mixing != 0).sum() - (mixing.diagonal() != 0).sum())
        self.counters["peer_bytes"] += edges * w.shape[1] * w.element_size()
        return to_device(mixing, w.device) @ w

    # Local work

    def steps(self, ids: Tensor) -> Tensor:
        """Return each client's number of local steps in this round, (k,)."""
        return self.tensor(self._steps(ids.numpy(), self.round))

    def seconds(self, ids: Tensor) -> Tensor:
        """Return the simulated seconds (k,) that each of the clients `ids` needs for this round, as float64 on the CPU."""
        steps = self._steps(ids.numpy(), self.round)
        return torch.from_numpy(self._level.seconds(steps, ids.numpy(), self.seed))

    def train(
        self,
        ids: Tensor,
        start: Tensor,
        lr: float | Tensor,
        direction: Direction,
        /,
        at_round: int | None = None,
        **rows: Tensor,
    ) -> Tensor:
        """Return the weights (k, d) of clients `ids` after local training from `start` (k, d).

        A step of SGD is w <- w - lr * direction(w, g, **rows) with the minibatch gradient g. w and g are (a, d) for the a
        clients with steps left, and `direction` gets their part of `rows` (k, ...). `lr` is a number, (k,) or (k, epochs).
        With `at_round`, the minibatches are those of that earlier round, and the work is not counted.
        """
        loss, at = self._loss, self.round if at_round is None else at_round
        w, _ = self._train(ids, start, lr, direction, rows, at)
        if at_round is None:
            self.deferred(ids)
        else:
            self._loss = loss
        return w

    def trajectory(
        self,
        ids: Tensor,
        start: Tensor,
        lr: float | Tensor,
        direction: Direction,
        /,
        **rows: Tensor,
    ) -> Tensor:
        """Return the weights at the start and after each epoch, (k, local_epochs + 1, d). The arguments are those of `train`."""
        epochs = self.settings.local_epochs
        _, path = self._train(ids, start, lr, direction, rows, self.round, epochs)
        self.deferred(ids)
        return torch.cat([start.unsqueeze(1), path], 1)

    def train_pooled(self, ids: Tensor, start: Tensor, lr: float) -> Tensor:
        """Train one model from `start` (d,) on all clients' pooled data, for as many samples as the clients `ids` would train on."""
        unique, pool, pooled_id = np.unique(ids), self.data.pooled, np.array([0])
        size, m = self.settings.batch_size, len(pool.train)
        width = max(1, round(m / self.n)) if size == "full" else min(int(size), m)
        work = training.samples_met(self.data.sizes[unique], self._steps(unique, self.round), size)
        # The optimizer's state is kept in client 0's row, since no client trains by itself.
        steps, rule = np.array([max(1, round(work / width))]), self._rule(lr, pooled_id)
        key = self.seed, self.round
        plan = self._solver.once(training.minibatches, pool, pooled_id, steps, width, key)
        w, self._loss, _, memory = self._solver.train(start[None], plan, rule, lambda w, g: g, {})
        self._keep(pooled_id, memory)
        self._record(pool, pooled_id, steps, width)
        return w[0]

    def deferred(self, ids: Tensor) -> None:
        """Add the cost of this round's local training of clients `ids`, without training. A later `train(at_round=...)` can train."""
        unique = np.unique(ids)
        self._record(self.data, unique, self._steps(unique, self.round), self.settings.batch_size)

    def gradient(self, ids: Tensor, w: Tensor) -> Tensor:
        """Return the gradients (k, d) of the clients' losses at w (k, d). Losses cover all training samples and include weight decay."""
        unique, first, restore = distinct(ids, self.device)
        w = w[first]
        g, loss = self._solver.gradient(w, training.full_pass(self.data, unique))
        if decay := self._rule(0.0).weight_decay:
            g = g.add_(w, alpha=decay)
        self.counters["gradient_passes"] += len(unique)
        self._steps_done[unique] += self._per_epoch(unique)  # a full gradient takes a pass's time
        self.counters["sample_gradients"] += int(self.data.sizes[unique].sum())
        self._loss = loss if self._loss is None else self._loss.where(~self._loss.isnan(), loss)
        return g[restore]

    def score(self, ids: Tensor, w: Tensor) -> Tensor:
        """Return each client's score (such as accuracy) on its own training data, (k,). w (k, d) has the clients' weights."""
        unique, first, restore = distinct(ids, self.device)
        self.counters["evaluation_passes"] += len(unique)
        plan = training.full_pass(self.data, unique)
        width, shared = plan.samples.shape[2], (self._scores,)
        answer = self._solver.call(Solver.scored, w[first], plan, width=width, shared=shared)
        return answer["score"][restore]

    def clipped(self, g: Tensor) -> Tensor:
        """Return g (k, d) with each row scaled down to the norm `clip_norm` if its norm is larger."""
        return self._rule(0.0).clipped(g)

    def fine_tune(self, ids: Tensor, start: Tensor, lr: float, epochs: int) -> Tensor:
        """Return the weights (k, d) of clients `ids` after `epochs` epochs of training from `start` (k, d). Local steps
        follow the minibatch gradients alone, and the run's counters omit them. `ids` must be distinct.
        """
        steps, size = epochs * self._per_epoch(ids.numpy()), self.settings.batch_size
        key = (self.seed, self.round + 1)
        plan = self._solver.once(training.minibatches, self.data, ids.numpy(), steps, size, key)
        return self._solver.train(start, plan, self._rule(lr), lambda w, g: g, {})[0]

    def evaluate(self, w: Tensor, ids: Array) -> dict[str, Tensor]:
        """Return the mean scores and mean loss on samples `ids`, by name. Each is a scalar for w (d,), or (k,) for w (k, d)."""
        return self._solver.evaluate(w, ids, self._scores)

    def _train(
        self,
        ids: Tensor,
        start: Tensor,
        lr: float | Tensor,
        direction: Direction,
        rows: dict[str, Tensor],
        round_index: int,
        epochs: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """Return the weights (k, d) after local training, and the weights (k, epochs, d) after each of the first `epochs` epochs."""
        unique, first, restore = distinct(ids, self.device)
        steps, size = self._steps(unique, round_index), self.settings.batch_size
        key = (self.seed, round_index)
        plan = self._solver.once(training.minibatches, self.data, unique, steps, size, key)
        if isinstance(lr, torch.Tensor):
            lr = lr[first] if lr.dim() == 2 else lr[first].unsqueeze(1)
            epoch = np.arange(int(steps.max())) // self._per_epoch(unique)[:, None]
            lr = lr.gather(1, to_device(np.minimum(epoch, lr.shape[1] - 1), lr.device))
        rows = {name: value[first] for name, value in rows.items()}
        marks = self._per_epoch(unique)[:, None] * np.arange(1, epochs + 1)
        arguments = start[first], plan, self._rule(lr, unique), direction, rows, marks
        w, self._loss, path, memory = self._solver.train(*arguments)
        self._keep(unique, memory)
        return w[restore], path[restore]

    def _record(self, data: FederatedData, ids: Array, steps: Array, batch_size: int | str) -> None:
        met = training.samples_met(data.sizes[ids], steps, batch_size)
        self.counters["client_steps"] += int(steps.sum())
        self.counters["sample_gradients"] += met
        if data is self.data:
            self._steps_done[ids] += steps

    def _rule(self, lr: float | Tensor, ids: Array | None = None) -> Rule:
        """Return the study's rule for local steps at rate `lr`. It includes the clients' optimizer state if the study keeps one."""
        s, memory, decay = self.settings, None, self.settings.weight_decay
        optimizer = Optimizer(s.momentum) if s.optimizer == "sgd" else Adam(betas=s.betas)
        if s.optimizer == "adamw":
            optimizer, decay = Adam(betas=s.betas, decay=decay), 0.0
        if self.kept and ids is not None:
            *moments, taken = (table[torch.from_numpy(ids)] for table in self.kept.values())
            memory = Memory(torch.stack(moments, 1), taken)
        return Rule(lr, optimizer, decay, s.clip_norm, memory)

    def _keep(self, ids: Array, memory: Memory) -> None:
        rows = *memory.moments.unbind(1), memory.taken
        for number, table in enumerate(self.kept.values()):
            table.write(torch.from_numpy(ids), rows[number])

    def _per_epoch(self, ids: Array) -> Array:
        return training.steps_per_epoch(self.data.sizes[ids], self.settings.batch_size)

    def _steps(self, ids: Array, round_index: int) -> Array:
        per_epoch = self._per_epoch(ids)
        steps = training.asked_steps(self.settings, per_epoch)
        return self._level.local_steps(steps, per_epoch, ids, round_index, self.seed)

    def _zeros(self, ids: Tensor) -> Tensor:
        return torch.zeros(len(ids), self.d, dtype=self.dtype, device=self.device)

    def _shares(self, ids: Array) -> Array:
        m = np.ones(len(ids)) if self.settings.aggregation == "plain" else self.data.sizes[ids]
        return m / m.sum()
