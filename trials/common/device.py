"""The device of a trial, CPU or GPU, and the memory that it may take there."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
from math import inf

from trials.common.errors import UserError
from trials.common.tensors import torch

DEVICES = ("cpu", "cuda")
CONTEXT = 1_000_000_000  # bytes of a GPU that a process takes besides its tensors
TABLES = 1 / 4  # of a trial's part of a GPU; longer tables of clients lie on the host
KEPT = 2**28  # bytes of freed memory that a process keeps for its next tensors


def named(name: str) -> torch.device:
    """Return the device of a name, whether this machine has it or not; raise `UserError` unless it is of `DEVICES`."""
    with suppress(RuntimeError):
        if name.partition(":")[0] in DEVICES:
            return torch.device(name)
    raise UserError(f"device {name!r} cannot be used: must be {' or '.join(DEVICES)}")


def usable(name: str) -> torch.device:
    """Return the device of a name; raise `UserError` where this machine cannot use it."""
    device = named(name)
    reason = look()[0] if device.type == "cuda" else ""
    with suppress(RuntimeError):
        if not reason:
            return torch.empty(0, device=device).device
    raise UserError(f"device {name!r} cannot be used: {reason or 'there is none of this number'}")


def look() -> tuple[str, list[tuple[str, int]]]:
    """Return why torch sees no GPU, with the remedy ("" where it sees one), and the name and bytes of each GPU."""
    if torch.version.cuda is None and torch.version.hip is None:
        where = "install one for this machine's GPU (https://pytorch.org/get-started/locally)"
        return f"torch {torch.__version__} is a CPU build; {where}", []
    if not torch.cuda.is_available():
        where = "see `nvidia-smi`, how new the driver is, and CUDA_VISIBLE_DEVICES"
        return f"torch {torch.__version__} finds no GPU; {where}", []
    cards = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return "", [(card.name, card.total_memory) for card in cards]


def name_of(device: torch.device) -> str:
    """Return a device's name in records: a GPU's own, or `cpu`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def computes(device: torch.device, dtype: str) -> None:
    """Make a GPU give the same bits each time in this process, and use TF32 for the setting `dtype=tf32` alone."""
    if device.type != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"


@cache
def keep_freed() -> None:
    """Keep the memory that tensors free. By default glibc returns large blocks, which costs recurrent networks a quarter."""
    if (tune := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        tune(-3, 2**25)  # M_MMAP_THRESHOLD of malloc.h
        tune(-1, KEPT)  # M_TRIM_THRESHOLD


def take_part(share: float) -> None:
    """Limit this process to its share of the GPU's memory, so that one that wants more fails alone."""
    total = torch.cuda.get_device_properties(0).total_memory
    part = max(0.0, min(1.0, share) * total - CONTEXT)
    torch.cuda.set_per_process_memory_fraction(part / total)


def budgets(device: torch.device, held: float = 0.0) -> tuple[float, float]:
    """Return the bytes for clients that are computed at once, and for their tables. On a GPU they share this process's
    part without what is `held`. Free memory plays no part: no bit may depend on what else runs.
    """
    if device.type != "cuda":
        return 2.0**31, inf
    total = torch.cuda.get_device_properties(device).total_memory
    index = torch.cuda.current_device() if device.index is None else device.index
    fraction = torch.cuda.get_per_process_memory_fraction(index)
    left = max(0.0, min(fraction * total, total - CONTEXT) - held)
    return (1 - TABLES) * left, TABLES * left
