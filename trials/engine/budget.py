"""What a trial takes of its device's memory, worked out from shapes, and so how many clients are computed at once."""

from __future__ import annotations

import numpy as np

from trials.common.device import memory_budget, tables_budget
from trials.common.tensors import torch
from trials.engine.training import asked_steps, steps_per_epoch
from trials.federated_data import FederatedData, Samples
from trials.heterogeneity import Heterogeneity
from trials.models.base import Model
from trials.settings import Settings

VECTORS = 5
"""Vectors of weights of each selected client in a round beside local training's: start, end, message, direction, draws."""
JOINED = 2
"""Those that are written once more where a pack computes them beside others': its start, its direction."""
PLANNED = 64
"""Bytes of each sample of a round's minibatches while it is put in its place, at least."""
ID = np.dtype(np.int64).itemsize


def selected(settings: Settings, clients: int) -> int:
    """Return K = participation n, at least 1."""
    return max(1, round(settings.participation * clients))


def widest(data: FederatedData, settings: Settings) -> int:
    """Return the samples in the largest minibatch, which no client has more of than samples."""
    size, most = settings.batch_size, int(data.sizes.max())
    return most if size == "full" else min(size, most)


def plan_bytes(data: FederatedData, settings: Settings, level: Heterogeneity) -> float:
    """Return the bytes at least that planning the minibatches of a round's clients takes."""
    per_epoch, ids = steps_per_epoch(data.sizes, settings.batch_size), np.arange(data.clients)
    steps = level.local_steps(asked_steps(settings, per_epoch), per_epoch, ids, 1, 0)
    longest = max(steps.max(), (settings.fine_tune or 0) * per_epoch.max())
    clients = float(selected(settings, data.clients))
    return clients * float(longest) * widest(data, settings) * PLANNED


def resident_bytes(
    data: FederatedData, settings: Settings, d: int, size: int, members: int = 1
) -> float:
    """Return the bytes on the device throughout, with numbers of `size` bytes and d weights: the samples, which trials of
    a process share, and each trial's round: plans of minibatches and `VECTORS`.
    """
    per_epoch = steps_per_epoch(data.sizes, settings.batch_size)
    plan = int(asked_steps(settings, per_epoch).max()) * widest(data, settings) * (ID + size)
    vectors = (VECTORS + (JOINED if members > 1 else 0)) * d * size
    clients = members * selected(settings, data.clients)
    return data.dataset.x.size * size + data.dataset.y.nbytes + float(clients * (plan + vectors))


def divided(
    data: FederatedData,
    model: Model,
    settings: Settings,
    on: Samples,
    execution: str,
    memory: float | None,
    members: int,
) -> tuple[int | None, float]:
    """Return how many clients are computed at once (None: all that are selected), as the settings say or `memory` bytes
    hold, by default `memory_budget`, and the bytes of the device that a trial's tables of clients may take, where up
    to `members` trials share the process.
    """
    one = torch.empty(0, dtype=on.dtype, device=on.device)
    always = resident_bytes(data, settings, model.d, one.element_size(), members)
    chunk = settings.chunk
    if execution == "batched" and chunk is None:
        client = model.bytes_a_client(widest(data, settings), one)
        chunk = max(1, int((memory or memory_budget(on.device, always)) // client))
    return chunk, tables_budget(on.device, always) / members
