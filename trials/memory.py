"""How much memory there is, and how much of it local training may take."""

from __future__ import annotations

import os

from trials.tensors import torch


def machine_memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def memory_budget(device: torch.device) -> float:
    """Bytes that local training may take by default: 2 GiB on a CPU, half of a GPU's memory.

    Never what is free at the moment: how many clients are computed at once must not depend on what
    else runs.
    """
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory / 2)
    return 2.0**31
