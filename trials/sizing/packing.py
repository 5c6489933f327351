"""How many trials are worth computing together: for what is bound by calls, not by arithmetic."""

import math

from trials.common.tensors import torch
from trials.engine.budget import selected, widest
from trials.engine.training import execution
from trials.federated_data import FederatedData
from trials.models.base import Model
from trials.run.spec import TrialSpec
from trials.sizing.footprint import GPU_PROCESS, PROCESS, Footprint

SIZE = 16
"""Trials of a pack; more bring little."""
CALLS = {"cpu": 16e6, "cuda": 2e9}
"""Operations of a local step of a round's clients up to which its calls are what it costs."""
BYTES = 4e9
"""What the trials of a pack may take together."""


def pack_size(
    spec: TrialSpec, data: FederatedData, model: Model, device: str, takes: Footprint
) -> int:
    """How many trials like this one share a pack: `SIZE`, or as many as `BYTES` hold; one where steps
    are compiled or one client's after the other's, clipped, or bound by arithmetic.

    A step of K clients with d weights on B samples is 6 K B d operations.
    """
    on, s = torch.device(device), spec.settings
    step = 6 * selected(s, data.clients) * widest(data, s) * model.d
    together = execution(model, s, on) == "batched" and s.clip_norm is None
    # Convolutions of several clients on a CPU are not sure to be exact, and then not computed together.
    together = together and (device != "cpu" or model.batched_up_to == math.inf)
    if not together or step > CALLS[on.type]:
        return 1
    return max(1, min(SIZE, int(BYTES // own_bytes(takes, device))))


def own_bytes(takes: Footprint, device: str) -> int:
    """What a trial takes besides what its process takes anyway, at least a megabyte."""
    return max(10**6, takes.memory - (PROCESS if device == "cpu" else GPU_PROCESS))
