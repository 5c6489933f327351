"""Estimates of a trial's memory on its device, from shapes. They decide how many clients are computed at once."""

from __future__ import annotations

import numpy as np

from trials.common.tensors import torch
from trials.engine.training import asked_steps, steps_per_epoch
from trials.federated_data import FederatedData
from trials.heterogeneity import Heterogeneity
from trials.models.base import Model
from trials.settings import Settings

VECTORS = 5  # weight vectors of a selected client: start, end, message, direction, random numbers
JOINED = 2  # weight vectors that a pack copies to join them: start, direction
PLANNED = 64  # least bytes for each sample of a round's minibatches while they are planned
MOMENTS = 3  # vectors that a step of Adam takes beyond those of SGD
ID = np.dtype(np.int64).itemsize


def selected(settings: Settings, clients: int) -> int:
    """Return how many clients a round selects: participation times `clients`, rounded, but at least 1."""
    return max(1, round(settings.participation * clients))


def widest(data: FederatedData, settings: Settings) -> int:
    """Return the size of the largest minibatch, which is at most the largest client's number of samples."""
    size, most = settings.batch_size, int(data.sizes.max())
    return most if size == "full" else min(size, most)


def client_bytes(model: Model, data: FederatedData, settings: Settings, like: torch.Tensor) -> int:
    """Return the bytes of memory for each client in a batched local step. `like` has the dtype and device of the weights."""
    moments = 0 if settings.optimizer == "sgd" else MOMENTS * model.d * like.element_size()
    return model.bytes_a_client(widest(data, settings), like) + moments


def plan_bytes(data: FederatedData, settings: Settings, level: Heterogeneity) -> float:
    """Return a low estimate of the bytes that a plan of minibatches takes, for a round or for fine-tuning, whichever is larger."""
    per_epoch, ids = steps_per_epoch(data.sizes, settings.batch_size), np.arange(data.clients)
    steps = level.local_steps(asked_steps(settings, per_epoch), per_epoch, ids, 1, 0)
    longest = max(steps.max(), (settings.fine_tune or 0) * per_epoch.max())
    clients = float(selected(settings, data.clients))
    return clients * float(longest) * widest(data, settings) * PLANNED


def resident_bytes(
    data: FederatedData, settings: Settings, d: int, size: int, members: int = 1
) -> float:
    """Return the bytes that a round of `members` trials keeps on the device, at `size` bytes per number. This counts all samples,
    and the minibatches and weight vectors of selected clients. Each client has `VECTORS` vectors (d,), and `JOINED` more in a pack.
    """
    per_epoch = steps_per_epoch(data.sizes, settings.batch_size)
    plan = int(asked_steps(settings, per_epoch).max()) * widest(data, settings) * (ID + size)
    vectors = (VECTORS + (JOINED if members > 1 else 0)) * d * size
    clients = members * selected(settings, data.clients)
    return data.dataset.x.size * size + data.dataset.y.nbytes + float(clients * (plan + vectors))
