"""Numbers for a device, copied from the host or drawn there, without waiting."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common import randomness
from trials.common.tensors import Tensor, torch

AT_ONCE = 2**22  # random numbers that a GPU hashes at a time, in a few hundred megabytes


def to_device(
    host: npt.NDArray[Any] | Tensor, device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """Return an array or tensor in `dtype` on a device; one that is there already stays."""
    if isinstance(host, np.ndarray):
        host = torch.from_numpy(np.ascontiguousarray(host))
    tensor = host if dtype is None else host.to(dtype)
    if tensor.device == device or device.type in ("cpu", "meta"):
        return tensor.to(device)
    if tensor.device.type != "cpu":
        return tensor
    # The host waits for a copy of memory that is not page-locked.
    return tensor.contiguous().pin_memory().to(device, non_blocking=True)


def distinct(ids: Tensor, device: torch.device) -> tuple[npt.NDArray[Any], Any, Any]:
    """Return the distinct `ids`, the first place of each, and the indices that restore `ids` (k,); both on the device."""
    array = ids.numpy()
    if (array[1:] > array[:-1]).all():
        return array, slice(None), slice(None)
    once, first, back = np.unique(array, return_index=True, return_inverse=True)
    return once, to_device(first, device), to_device(back, device)


def uniform_on(
    device: torch.device, stream: str, *words: Any, size: int, dtype: torch.dtype | None = None
) -> Tensor:
    """Return `randomness.uniform` of words (k, 1) and of 0..size-1, (k, size), on a device; a GPU hashes the last word
    itself.
    """
    dtype = dtype or torch.float64
    if device.type == "cpu":
        return torch.from_numpy(randomness.uniform(stream, *words, np.arange(size))).to(dtype)
    state = to_device(randomness.bits(stream, *words).view(np.int64), device)
    # torch has no 64 bits without a sign; products wrap alike with one.
    golden, first, second = (
        np.array([randomness.GOLDEN, *randomness.FACTORS]).view(np.int64).tolist()
    )
    numbers = []
    for word in torch.arange(size, device=device).split(max(1, AT_ONCE // len(state))):
        z = (state * golden) ^ (word + golden)
        for shift, factor in ((30, first), (27, second), (31, 1)):
            # The shift of a number with a sign would repeat the sign.
            z = (z ^ ((z >> shift) & ((1 << (64 - shift)) - 1))) * factor
        numbers.append((((z >> 11) & ((1 << 53) - 1)).double() * 2.0**-53).to(dtype))
    return torch.cat(numbers, 1)
