"""How much memory of a device a trial may take."""

from __future__ import annotations

import ctypes
from functools import cache
from math import inf

from trials.common.tensors import torch

CONTEXT = 1_000_000_000
"""Bytes of a GPU that a process takes besides its tensors: the context, kernels, work space."""
TABLES = 1 / 4
"""The share of a trial's part of a GPU that clients' tables may take; longer ones lie on the host."""

KEPT = 2**28
"""Bytes of freed memory that a process keeps for its next tensors."""


@cache
def keep_freed() -> None:
    """Let this process keep up to `KEPT` bytes that tensors free. By default glibc gives large blocks back to the
    system and asks for them again in each step, which costs a recurrent network a quarter of its time. Other C libraries
    keep their own rules.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    if tune is not None:
        largest_of_heap, freed_at_its_end = -3, -1  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD of malloc.h
        tune(largest_of_heap, 2**25)
        tune(freed_at_its_end, KEPT)


def part_of_card(total: float, share: float) -> float:
    """Bytes for the tensors of a process that has a share of a GPU with `total` bytes."""
    return max(0.0, min(1.0, share) * total - CONTEXT)


def take_part(share: float) -> None:
    """Let this process have tensors on its share of the GPU only: who wants more fails alone."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(part_of_card(total, share) / total)


def _left(device: torch.device, held: float) -> float:
    """Bytes of this process's part of a GPU that are not `held`."""
    total = torch.cuda.get_device_properties(device).total_memory
    fraction = torch.cuda.get_per_process_memory_fraction(device)
    return max(0.0, min(fraction * total, part_of_card(total, 1.0)) - held)


def memory_budget(device: torch.device, held: float = 0.0) -> float:
    """Bytes that clients computed at once may take by default: 2 GiB on a CPU; on a GPU the process's
    part of it, less what a trial has `held` there throughout, and less the part of clients' tables.

    Never what is free at the moment: how many clients are computed at once must not depend on what
    else runs.
    """
    return (1 - TABLES) * _left(device, held) if device.type == "cuda" else 2.0**31


def tables_budget(device: torch.device, held: float = 0.0) -> float:
    """Bytes of clients' tables that lie on the device; without bound on a CPU."""
    return TABLES * _left(device, held) if device.type == "cuda" else inf
