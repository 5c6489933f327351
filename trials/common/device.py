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
TABLES = 1 / 4  # share of a trial's GPU memory for state tables (n, d); others stay on the host
KEPT = 2**28  # bytes of freed memory that a process keeps for its next tensors


def named(name: str) -> torch.device:
    """Return the torch device `name`, even if this machine lacks it. Raise `UserError` unless `name` is `cpu`, `cuda` or `cuda:N`."""
    with suppress(RuntimeError):
        if name.partition(":")[0] in DEVICES:
            return torch.device(name)
    raise UserError(f"device {name!r} cannot be used: must be {' or '.join(DEVICES)}")


def usable(name: str) -> torch.device:
    """Return the torch device `name`, such as `cpu` or `cuda:1`. Raise `UserError` if this machine cannot use the device."""
    device = named(name)
    reason = look()[0] if device.type == "cuda" else ""
    with suppress(RuntimeError):
        if not reason:
            return torch.empty(0, device=device).device
    raise UserError(f"device {name!r} cannot be used: {reason or 'no GPU has this number'}")


def look() -> tuple[str, list[tuple[str, int]]]:
    """Return why torch finds no GPU ("" if it finds one), and a list of all GPUs, each with its name and memory in bytes."""
    if torch.version.cuda is None and torch.version.hip is None:
        remedy = "install one for this machine's GPU (https://pytorch.org/get-started/locally)"
        return f"torch {torch.__version__} is a CPU build; {remedy}", []
    if not torch.cuda.is_available():
        remedy = "check `nvidia-smi`, the driver's version and CUDA_VISIBLE_DEVICES"
        return f"torch {torch.__version__} finds no GPU; {remedy}", []
    cards = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return "", [(card.name, card.total_memory) for card in cards]


def name_of(device: torch.device) -> str:
    """Return the name of a device for records: the GPU's model, or `cpu`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def computes(device: torch.device, dtype: str) -> None:
    """Make GPU results in this process deterministic. Allow TF32 matrix products only if `dtype` is "tf32"."""
    if device.type != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"


@cache
def keep_freed() -> None:
    """Keep up to 256 MiB of freed memory in this process for later tensors."""
    # By default glibc returns large blocks at once, which slows recurrent networks by a quarter.
    if (tune := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        tune(-3, 2**25)  # M_MMAP_THRESHOLD of malloc.h
        tune(-1, KEPT)  # M_TRIM_THRESHOLD


def take_part(share: float) -> None:
    """Limit this process to a share (0 to 1) of the GPU's memory. A trial that exceeds this limit fails without harm to other trials."""
    total = torch.cuda.get_device_properties(0).total_memory
    part = max(0.0, min(1.0, share) * total - CONTEXT)
    torch.cuda.set_per_process_memory_fraction(part / total)


def budgets(device: torch.device, held: float = 0.0) -> tuple[float, float]:
    """Return two limits of a device's memory, in bytes: one for clients that are computed together, one for tables (n, d) of all
    clients. On a CPU they are 2 GiB and infinity. On a GPU they are 3/4 and 1/4 of what this process may use besides `held` bytes.
    """
    # Free memory is not read: no bit may depend on what else runs on the machine.
    if device.type != "cuda":
        return 2.0**31, inf
    total = torch.cuda.get_device_properties(device).total_memory
    index = torch.cuda.current_device() if device.index is None else device.index
    fraction = torch.cuda.get_per_process_memory_fraction(index)
    left = max(0.0, min(fraction * total, total - CONTEXT) - held)
    return (1 - TABLES) * left, TABLES * left
