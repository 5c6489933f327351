"""Where a trial computes: on the CPU or on a GPU, and why it cannot."""

from __future__ import annotations

import os
from contextlib import suppress

from trials.common.errors import UserError
from trials.common.tensors import torch

DEVICES = ("cpu", "cuda")
"""The kinds of device that a trial runs on."""
BUILDS = "https://pytorch.org/get-started/locally"
"""Where torch says how its builds for GPUs are installed."""


def named(name: str) -> torch.device:
    """The device of this name, which need not be there; raises `UserError` where it is none of ours."""
    with suppress(RuntimeError):  # torch's list of all kinds is long
        found = torch.device(name)
        if found.type in DEVICES:
            return found
    raise _refused(name, f"must be {' or '.join(DEVICES)}")


def usable(name: str) -> torch.device:
    """The device of this name; raises `UserError` where it is none, or cannot be used here."""
    found = named(name)
    if found.type == "cuda" and (reason := no_gpu()):
        raise _refused(name, reason)
    try:
        torch.empty(0, device=found)
    except RuntimeError as error:
        raise _refused(name, str(error).splitlines()[0]) from None
    return found


def computes(device: torch.device, dtype: str) -> None:
    """Have a GPU give the same bits each time, and products in the precision of a trial's `dtype`.

    All that torch offers for it holds for the whole process: kernels of cuDNN and cuBLAS that repeat,
    none chosen by a race of a few, and products of float32 that are rounded to TF32 in `tf32` alone.
    Nothing is done for other devices.
    """
    if device.type != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
    torch.use_deterministic_algorithms(True, warn_only=True)
    filling = torch.utils.deterministic  # a kernel for each empty tensor
    filling.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"


def name_of(device: torch.device) -> str:
    """What runs are said to be computed on: a GPU's own name, or `cpu`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def look() -> tuple[str, list[tuple[str, int]]]:
    """Why torch has no GPU on this machine ("" where it has), and the name and bytes of each."""
    if reason := no_gpu():
        return reason, []
    cards = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return "", [(card.name, card.total_memory) for card in cards]


def no_gpu() -> str:
    """Why this process's torch has no GPU, with the remedy; "" where it has one."""
    if torch.version.cuda is None and torch.version.hip is None:
        return (
            f"torch {torch.__version__} is a CPU build, which no GPU is computed on with; "
            f"install one for this machine's GPU ({BUILDS})"
        )
    if not torch.cuda.is_available():
        return (
            f"torch {torch.__version__} finds no GPU; see what `nvidia-smi` says, whether the driver is "
            "new enough for torch's build, and what CUDA_VISIBLE_DEVICES is"
        )
    return ""


def _refused(name: str, reason: str) -> UserError:
    return UserError(f"device {name!r} cannot be used: {reason}")
