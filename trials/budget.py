"""What the parts of a trial take of its device's memory, worked out from shapes: samples, the plan and the
vectors of a round, a client in training.
"""

from __future__ import annotations

import numpy as np

from trials.federated_data import FederatedData, Samples
from trials.memory import memory_budget, tables_budget
from trials.models.base import Model
from trials.plans import steps_per_epoch
from trials.settings import Settings
from trials.tensors import torch

VECTORS = 5
"""Vectors of weights of each selected client in a round, beside those of local training: its start, its
end, its message, its direction, its random numbers."""
ID = np.dtype(np.int64).itemsize


def selected(settings: Settings, clients: int) -> int:
    """K = participation n, at least 1."""
    return max(1, round(settings.participation * clients))


def widest(data: FederatedData, settings: Settings) -> int:
    """Samples in the largest minibatch."""
    size = settings.batch_size
    return int(data.sizes.max()) if size == "full" else size


def held(data: FederatedData, settings: Settings, d: int, size: int) -> float:
    """Bytes that are on the device throughout, with numbers of `size` bytes and d weights: the samples,
    and of a round's clients the plans of their minibatches and `VECTORS`.
    """
    steps = settings.local_steps or settings.local_epochs * int(
        steps_per_epoch(data.sizes, settings.batch_size).max()
    )
    plan = steps * widest(data, settings) * (ID + size)
    of_round = selected(settings, data.clients) * (plan + VECTORS * d * size)
    return float(data.dataset.bytes(size) + of_round)


def divided(
    data: FederatedData,
    model: Model,
    settings: Settings,
    on: Samples,
    execution: str,
    memory: float | None,
) -> tuple[int | None, float]:
    """How many clients are computed at once (None: all that are selected), and the bytes that clients'
    tables may take of the device where the samples are.

    Clients at once are as the settings say, else as many as `memory` (bytes) holds, by default
    `memory_budget`.
    """
    one = torch.empty(0, dtype=on.dtype, device=on.device)
    always = held(data, settings, model.d, one.element_size())
    chunk = settings.chunk
    if execution == "batched" and chunk is None:
        client = model.bytes_a_client(widest(data, settings), one)
        chunk = max(1, int((memory or memory_budget(on.device, always)) // client))
    return chunk, tables_budget(on.device, always)
