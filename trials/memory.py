"""How much memory there is, and how much of it a trial may take."""

from __future__ import annotations

import os
from contextlib import suppress
from math import inf
from pathlib import Path

from trials.tensors import torch

CONTEXT = 1_000_000_000
"""Bytes of a GPU that a process takes besides its tensors: the context, kernels, work space."""
CONTAINERS = [
    Path("/sys/fs/cgroup", name) for name in ("memory.max", "memory/memory.limit_in_bytes")
]
"""Where Linux says what a container may take, in the second and the first version of control groups."""
TABLES = 1 / 4
"""The share of a trial's part of a GPU that clients' tables may take; longer ones lie on the host."""


def machine_memory() -> int:
    """Bytes of memory that this machine has, or its container may take of it."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in CONTAINERS:
        with suppress(OSError, ValueError):  # a ValueError for "max": no limit
            there = min(there, int(path.read_text()))
    return there


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
