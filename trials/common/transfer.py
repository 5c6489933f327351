"""Copies of numbers to a device, and random numbers drawn there, without blocking the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common import randomness
from trials.common.tensors import Tensor, torch

AT_ONCE = 2**22  # random numbers that a GPU hashes at a time, which takes a few hundred megabytes


def to_device(
    host: npt.NDArray[Any] | Tensor, device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """Return an array or tensor copied to a device, with dtype `dtype` if given. The host does not wait for copies to a GPU."""
    if isinstance(host, np.ndarray):
        host = torch.from_numpy(np.ascontiguousarray(host))
    tensor = host if dtype is None else host.to(dtype)
    if tensor.device == device or device.type in ("cpu", "meta"):
        return tensor.to(device)
    if tensor.device.type != "cpu":
        return tensor
    # A copy from memory that is not page-locked would block the host.
    return tensor.contiguous().pin_memory().to(device, non_blocking=True)


def distinct(ids: Tensor, device: torch.device) -> tuple[npt.NDArray[Any], Any, Any]:
    """Return (unique, first, inverse) for `ids` (k,), as `np.unique` does. `unique` has the distinct ids in ascending
    order, `ids[first]` equals `unique`, and `unique[inverse]` equals `ids`. Both indices are on the device.
    """
    array = ids.numpy()
    if (array[1:] > array[:-1]).all():
        return array, slice(None), slice(None)
    unique, first, inverse = np.unique(array, return_index=True, return_inverse=True)
    return unique, to_device(first, device), to_device(inverse, device)


def uniform_on(
    device: torch.device, stream: str, *words: Any, size: int, dtype: torch.dtype | None = None
) -> Tensor:
    """Return uniform numbers (k, size) on a device, equal to `randomness.uniform(stream, *words, np.arange(size))` for `words` (k, 1)."""
    # On a GPU the hash of the last word, the largest part of the work, runs on the device.
    dtype = dtype or torch.float64
    if device.type == "cpu":
        return torch.from_numpy(randomness.uniform(stream, *words, np.arange(size))).to(dtype)
    state = to_device(randomness.bits(stream, *words).view(np.int64), device)
    # torch computes with signed 64-bit integers only; products overflow to the same bits.
    golden, first, second = (
        np.array([randomness.GOLDEN, *randomness.FACTORS]).view(np.int64).tolist()
    )
    numbers = []
    for word in torch.arange(size, device=device).split(max(1, AT_ONCE // len(state))):
        z = (state * golden) ^ (word + golden)
        for shift, factor in ((30, first), (27, second), (31, 1)):
            # A right shift of a signed number repeats its sign bit, which the mask clears.
            z = (z ^ ((z >> shift) & ((1 << (64 - shift)) - 1))) * factor
        numbers.append((((z >> 11) & ((1 << 53) - 1)).double() * 2.0**-53).to(dtype))
    return torch.cat(numbers, 1)
