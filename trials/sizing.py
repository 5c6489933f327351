"""Estimates of a trial's memory, local steps and seconds, and of how many trials can share one process (a pack)."""

import math
from dataclasses import dataclass

from trials import heterogeneity
from trials.common.device import CONTEXT, budgets
from trials.common.tensors import Tensor, torch
from trials.engine.budget import client_bytes, resident_bytes, selected, widest
from trials.engine.federation import ClientRows, Federation
from trials.engine.training import BLOCK, execution
from trials.federated_data import FederatedData
from trials.models.base import Model
from trials.run.spec import TrialSpec
from trials.run.trial import simulate

WARM_UP, MEASURED = 1, 2  # untimed rounds (kernels are chosen, loops compiled), and timed ones
PROCESS = {"cpu": 700_000_000, "cuda": 2_000_000_000}  # host bytes of a worker without any trial
KEPT_FORWARD = 1 / 8  # memory of a forward pass, relative to one before a backward pass; a guess
ROUNDS = 5  # rounds over which local steps are averaged
SIZE = 16  # most trials in a pack; more gain little
CALLS = {"cpu": 16e6, "cuda": 2e9}  # operations of a step whose time is that of its calls
BYTES = 4e9  # most memory of a pack
QUEUE, SHORT = 6, 1e9  # most compiled trials in a pack, and most operations of each


def pace(
    spec: TrialSpec, data: FederatedData, device: str = "cpu", threads: int = 1
) -> tuple[float, float, float]:
    """Time a few rounds of a trial in this process. Return the mean number of local steps in a round, the seconds of the
    fastest timed round, and the seconds of the fastest evaluation.
    """
    few = {"rounds": WARM_UP + MEASURED, "eval_every": 1}
    short = spec.model_copy(update={"settings": spec.settings.model_copy(update=few)})
    simulation = simulate(short, data, device, threads)
    *_, last = simulation.evaluations()
    # A trial that diverges in round 1 has no timed round.
    timed = simulation.history[1 + WARM_UP :] or [last]
    seconds = min(entry["round_seconds"] for entry in timed)
    evaluation = min(entry["evaluation_seconds"] for entry in timed)
    return last["client_steps"] / last["round"], seconds, evaluation


@dataclass(frozen=True)
class Footprint:
    """The estimated cost of one trial. `state` is the size of a checkpoint once every client has trained, `memory` that of the
    process on the host, `device` the least memory on a GPU (all in bytes). `steps` are all clients' local steps in a round.
    """

    state: int
    memory: int
    steps: float
    device: int = 0


class _Shapes(Federation):
    """A federation on PyTorch's meta device, whose tensors have shapes but no values."""

    def initial(self, ids: Tensor) -> Tensor:
        return torch.empty(len(ids), self.d, dtype=self.dtype, device="meta")

    def steps(self, ids: Tensor) -> Tensor:
        return torch.from_numpy(self._steps(ids.numpy(), self.round))


def footprint(
    spec: TrialSpec, data: FederatedData, model: Model, device: str, budget: float | None = None
) -> Footprint:
    """Return a trial's estimated memory, checkpoint size and local steps, without allocating its model.

    A CPU trial needs memory for an empty process, the state, the selected clients' weights, samples converted to another
    dtype, and local training or evaluation (the larger one). `budget` (bytes) limits how many clients are computed at once.
    A GPU trial needs host memory for an empty process and two copies of the state, one of them for a checkpoint.
    """
    level, s = heterogeneity.parse(spec.heterogeneity), spec.settings
    # To derive `chunk` on the meta device would load parts of torch for seconds.
    settings = s.model_copy(update={"execution": None, "chunk": 1})
    fed = _Shapes(data, model, level, settings, spec.seed, torch.device("meta"))
    values = [*spec.configured().init(fed).values(), *fed.kept.values()]
    state = sum(map(_size, values))
    # The selected clients, and under +system their steps, differ from round to round.
    steps, most = 0.0, 0
    for round_index in range(1, ROUNDS + 1):
        fed.begin(round_index)
        ids = fed.select()
        steps += float(fed.steps(ids).sum()) / ROUNDS
        most = max(most, len(ids))
    like = torch.empty(0, dtype=fed.dtype)
    size, width = like.element_size(), widest(data, s)
    client = client_bytes(model, data, s, like)
    evaluated = BLOCK * (client - 5 * model.d * size) / width
    if device != "cpu":
        # A GPU too small for more computes one client at a time.
        vectors = sum(_size(value) for value in values if isinstance(value, torch.Tensor))
        resident = resident_bytes(data, s, model.d, size)
        needed = CONTEXT + resident + vectors + min(most, s.chunk or 1) * client
        return Footprint(state, PROCESS["cuda"] + 2 * state, steps, int(needed))
    cpu = torch.device("cpu")
    mode = execution(model, s, cpu)
    chunk = s.chunk or max(1, int((budget or budgets(cpu)[0]) // client))
    training = client if mode == "sequential" else min(most, chunk) * client
    x = data.dataset.x
    converted = 0 if x.dtype.itemsize == size else x.size * size
    working = most * model.d * size + converted + max(training, KEPT_FORWARD * evaluated)
    return Footprint(state, int(PROCESS["cpu"] + state + working), steps)


def _size(value: Tensor | ClientRows) -> int:
    if isinstance(value, ClientRows):  # its size once every client has written its row
        return len(value.slot) * _size(value.default(torch.tensor([0])))
    return value.numel() * value.element_size()


def pack_size(
    spec: TrialSpec, data: FederatedData, model: Model, device: str, takes: Footprint
) -> int:
    """Return how many trials (1 to 16) can share a process as a pack, if one trial costs `takes`. Return 1 if packing might
    change results or saves no time: with `clip_norm`, sequential execution, or too much work in a step or trial.
    """
    s, kind = spec.settings, torch.device(device).type
    mode, work = execution(model, s, torch.device(device)), 6 * widest(data, s) * model.d
    if mode == "compiled":  # a process computes one after the other, but is handed out once
        most = QUEUE if work * takes.steps * s.rounds < SHORT else 1
    else:
        # On a CPU the bits of a convolution may depend on the other clients in the batch.
        exact = mode == "batched" and (kind != "cpu" or model.batched_up_to == math.inf)
        most = SIZE if exact and work * selected(s, data.clients) <= CALLS[kind] else 1
    room = int(BYTES // own_bytes(takes, kind))
    return 1 if s.clip_norm is not None else max(1, min(most, room))


def own_bytes(takes: Footprint, device: str) -> int:
    """Return how many bytes a trial needs in addition to an empty process, but at least 1 MB."""
    return max(10**6, takes.memory - PROCESS[device])
