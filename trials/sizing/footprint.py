"""What a trial takes, worked out from shapes alone: nothing of the model's size is allocated."""

from dataclasses import dataclass

from trials import heterogeneity
from trials.common.memory import CONTEXT, memory_budget
from trials.common.tensors import Tensor, torch
from trials.datasets.base import OnDemand
from trials.engine.budget import of_round, resident_bytes, widest
from trials.engine.client_rows import ClientRows
from trials.engine.federation import Federation
from trials.engine.training import BLOCK, execution
from trials.federated_data import FederatedData
from trials.models.base import Model
from trials.run.spec import TrialSpec

PROCESS = 700_000_000
"""Bytes of a worker with Python, torch and Ray, its compiled loops or the libraries' work space."""
GPU_PROCESS = 2_000_000_000
"""The same on the host when it works on a GPU, whose libraries it loads."""
VECTORS = 6
"""Weights that the compiled loop holds for a client: start, now, sum, direction, pull, end."""
KEPT_FORWARD = 1 / 8
"""The share that a forward pass alone holds at once of what a backward pass keeps; a rule of thumb."""
ROUNDS = 5
"""Rounds whose local steps are counted; an average is taken."""


@dataclass(frozen=True)
class Footprint:
    """Estimates of one trial: bytes of its state with every client met (which is its checkpoint),
    bytes of memory of the process that runs it, and local steps of all clients in a round of FedAvg's
    kind; on a GPU the bytes of it that the trial cannot do without, and those that each trial of a pack
    takes with all of its clients at once and their tables there, else 0.
    """

    state: int
    memory: int
    steps: float
    device: int = 0
    beside: int = 0


class _Shapes(Federation):
    """A federation on the meta device, whose tensors have shapes and no content."""

    def initial(self, ids: Tensor) -> Tensor:
        return torch.empty(len(ids), self.d, dtype=self.dtype, device="meta")

    def steps(self, ids: Tensor) -> Tensor:
        return torch.from_numpy(self._steps(ids.numpy(), self.round))


def footprint(
    spec: TrialSpec, data: FederatedData, model: Model, device: str, budget: float | None = None
) -> Footprint:
    """Memory is the process's own, the state, what local training takes for the clients that are
    computed at once (`Model.bytes_a_client`, `memory_budget`) or a block of evaluation does, and the
    samples where they are converted. Of a trial on a GPU it is the host's: the process and two copies of
    the state, for clients' tables that are too long for the GPU and for a checkpoint. On the GPU are the
    context, what is held throughout (`budget.held`), the state less those tables, and the clients that
    the settings say are computed at once, or one.
    """
    level = heterogeneity.parse(spec.heterogeneity)
    # A chunk is given because working one out on the meta device loads seconds' worth of torch.
    settings = spec.settings.model_copy(update={"execution": None, "chunk": 1})
    fed = _Shapes(data, model, level, settings, spec.seed, torch.device("meta"))
    values = spec.configured().phases()[1].init(fed).values()
    state = sum(map(_size, values))
    steps, most = 0.0, 0
    for round_index in range(1, ROUNDS + 1):
        fed.begin(round_index)
        ids = fed.select()
        steps += float(fed.steps(ids).sum()) / ROUNDS
        most = max(most, len(ids))
    one = torch.empty(0, dtype=fed.dtype)
    size, width = one.element_size(), widest(data, spec.settings)
    client = model.bytes_a_client(width, one)
    sample = (client - 5 * model.d * size) / width
    if device != "cpu":
        vectors = sum(_size(value) for value in values if isinstance(value, torch.Tensor))
        at_once = min(most, spec.settings.chunk or 1)
        needed = (
            CONTEXT
            + resident_bytes(data, spec.settings, model.d, size)
            + vectors
            + at_once * client
        )
        of_two = of_round(data, spec.settings, model.d, size, members=2)
        beside = of_two / 2 + state + max(most * client, BLOCK * sample)
        return Footprint(state, GPU_PROCESS + 2 * state, steps, int(needed), int(beside))
    how = execution(model, spec.settings, torch.device("cpu"))
    if how == "compiled":
        training = most * VECTORS * model.d * size
    elif how == "sequential":
        training = client
    else:
        chunk = spec.settings.chunk or max(
            1, int((budget or memory_budget(torch.device("cpu"))) // client)
        )
        training = min(most, chunk) * client
    x = data.dataset.x
    converted = 0 if isinstance(x, OnDemand) or x.dtype.itemsize == size else x.size * size
    working = max(training, BLOCK * KEPT_FORWARD * sample)
    return Footprint(
        state, int(PROCESS + state + most * model.d * size + converted + working), steps
    )


def _size(value: Tensor | ClientRows) -> int:
    """Bytes of an entry of a state; of a table of clients' rows, when all are written."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    row = value.default(torch.tensor([0]))
    return len(value.slot) * row.numel() * row.element_size()
