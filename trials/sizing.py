"""What a trial takes of a machine: memory and steps from shapes, measured seconds; and how many trials share a pack."""

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

WARM_UP, MEASURED = 1, 2  # rounds: in the first kernels are chosen and loops compiled
PROCESS = {"cpu": 700_000_000, "cuda": 2_000_000_000}  # bytes of a worker on its host
KEPT_FORWARD = 1 / 8  # of what a backward pass keeps, in a forward pass alone; a rule of thumb
ROUNDS = 5  # rounds whose local steps are counted; an average is taken
SIZE = 16  # trials of a pack; more bring little
CALLS = {"cpu": 16e6, "cuda": 2e9}  # operations of a step up to which its calls are what it costs
BYTES = 4e9  # what the trials of a pack may take together


def pace(
    spec: TrialSpec, data: FederatedData, device: str = "cpu", threads: int = 1
) -> tuple[float, float, float]:
    """Run a few rounds of a trial here; return the client steps of a round, its seconds and those of an evaluation."""
    # The first round is not counted: kernels are chosen and loops compiled in it.
    few = {"rounds": WARM_UP + MEASURED, "eval_every": 1}
    short = spec.model_copy(update={"settings": spec.settings.model_copy(update=few)})
    simulation = simulate(short, data, device, threads)
    *_, last = simulation.evaluations()
    # A configuration may diverge at once, and then has no round but the first.
    timed = simulation.history[1 + WARM_UP :] or [last]
    seconds = min(entry["round_seconds"] for entry in timed)
    evaluation = min(entry["evaluation_seconds"] for entry in timed)
    return last["client_steps"] / last["round"], seconds, evaluation


@dataclass(frozen=True)
class Footprint:
    """Estimates of one trial: the bytes of its state once every client has trained (its checkpoint), the bytes of its
    process, the local steps of all clients in a round, and the least bytes of a GPU.
    """

    state: int
    memory: int
    steps: float
    device: int = 0


class _Shapes(Federation):
    """A federation on the meta device, whose tensors have shapes and no content."""

    def initial(self, ids: Tensor) -> Tensor:
        return torch.empty(len(ids), self.d, dtype=self.dtype, device="meta")

    def steps(self, ids: Tensor) -> Tensor:
        return torch.from_numpy(self._steps(ids.numpy(), self.round))


def footprint(
    spec: TrialSpec, data: FederatedData, model: Model, device: str, budget: float | None = None
) -> Footprint:
    """Return estimates of a trial; nothing of the model's size is allocated.

    Memory is the process's own, the state, what local training takes for the clients that are computed at once or a block
    of evaluation does, and the samples where they are converted. Of a trial on a GPU it is the host's: the process and
    two copies of the state, for clients' tables and a checkpoint.
    """
    level, s = heterogeneity.parse(spec.heterogeneity), spec.settings
    # A chunk is given because working one out on the meta device loads seconds' worth of torch.
    settings = s.model_copy(update={"execution": None, "chunk": 1})
    fed = _Shapes(data, model, level, settings, spec.seed, torch.device("meta"))
    values = [*spec.configured().init(fed).values(), *fed.kept.values()]
    state = sum(map(_size, values))
    # Who is selected, and under +system how much they do, differs from round to round.
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
        # One client is computed at a time where no more fit.
        vectors = sum(_size(value) for value in values if isinstance(value, torch.Tensor))
        resident = resident_bytes(data, s, model.d, size)
        needed = CONTEXT + resident + vectors + min(most, s.chunk or 1) * client
        return Footprint(state, PROCESS["cuda"] + 2 * state, steps, int(needed))
    cpu = torch.device("cpu")
    how = execution(model, s, cpu)
    chunk = s.chunk or max(1, int((budget or budgets(cpu)[0]) // client))
    training = client if how == "sequential" else min(most, chunk) * client
    x = data.dataset.x
    converted = 0 if x.dtype.itemsize == size else x.size * size
    working = most * model.d * size + converted + max(training, KEPT_FORWARD * evaluated)
    return Footprint(state, int(PROCESS["cpu"] + state + working), steps)


def _size(value: Tensor | ClientRows) -> int:
    if isinstance(value, ClientRows):  # when all are written
        return len(value.slot) * _size(value.default(torch.tensor([0])))
    return value.numel() * value.element_size()


def pack_size(
    spec: TrialSpec, data: FederatedData, model: Model, device: str, takes: Footprint
) -> int:
    """Return how many trials share a pack: 1 where steps are compiled, clipped, taken one client at a time, or bound by
    arithmetic.
    """
    s, kind = spec.settings, torch.device(device).type
    step = 6 * selected(s, data.clients) * widest(data, s) * model.d  # operations
    batched = execution(model, s, torch.device(device)) == "batched" and s.clip_norm is None
    # Convolutions of several clients on a CPU are not sure to be exact, and then not computed together.
    exact = kind != "cpu" or model.batched_up_to == math.inf
    if not batched or not exact or step > CALLS[kind]:
        return 1
    return max(1, min(SIZE, int(BYTES // own_bytes(takes, kind))))


def own_bytes(takes: Footprint, device: str) -> int:
    """Return the bytes of a trial beyond those of an empty process, at least a megabyte."""
    return max(10**6, takes.memory - PROCESS[device])
