"""The way of numbers from the host to a device, which nobody waits for: copied, or made there."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common import randomness
from trials.common.tensors import Tensor, torch

AT_ONCE = 2**22
"""Random numbers that a GPU hashes at a time: a few hundred megabytes while it does."""


def to_device(
    host: npt.NDArray[Any] | Tensor, device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """What the host holds, in `dtype` (its own by default), on a device.

    A copy to a GPU is from page-locked memory and in its dtype already, since the host would wait for
    any other. What is on the device stays there.
    """
    if isinstance(host, np.ndarray):
        host = torch.from_numpy(np.ascontiguousarray(host))
    found = host if dtype is None else host.to(dtype)
    if found.device == device or device.type in ("cpu", "meta"):
        return found.to(device)
    if found.device.type != "cpu":
        return found
    return found.contiguous().pin_memory().to(device, non_blocking=True)


def distinct(
    ids: Tensor, device: torch.device
) -> tuple[npt.NDArray[Any], Tensor | slice, Tensor | slice]:
    """Each of `ids` (k,) once, where it first stands, and how to come back to all of them; both index
    rows on the device.
    """
    array = ids.numpy()
    if (array[1:] > array[:-1]).all():
        return array, slice(None), slice(None)
    once, first, back = np.unique(array, return_index=True, return_inverse=True)
    return once, to_device(first, device), to_device(back, device)


def uniform_on(
    device: torch.device, stream: str, *words: Any, size: int, dtype: torch.dtype | None = None
) -> Tensor:
    """`randomness.uniform` of words (k, 1) and of 0..size-1, (k, size), in `dtype` (float64 by default), on
    a device.

    A GPU hashes the last word itself, since the host would take longer; the bits are the same, because
    products wrap alike with a sign and without. It hashes `AT_ONCE` numbers at a time, whose steps would
    take several times their memory.
    """
    if device.type == "cpu":
        return torch.from_numpy(randomness.uniform(stream, *words, np.arange(size))).to(
            dtype or torch.float64
        )
    state = to_device(randomness.bits(stream, *words).view(np.int64), device)
    words_at_once = torch.arange(size, device=device).split(max(1, AT_ONCE // len(state)))
    parts = [_hashed(state, word).to(dtype or torch.float64) for word in words_at_once]
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def _hashed(state: Tensor, word: Tensor) -> Tensor:
    """Uniform numbers (k, b) of states (k, 1) and words (b,)."""
    z = (state * _signed(randomness.GOLDEN)) ^ (word + _signed(randomness.GOLDEN))
    for shift, factor in zip((30, 27), randomness.FACTORS, strict=True):
        z = (z ^ _shifted(z, shift)) * _signed(factor)
    return _shifted(z ^ _shifted(z, 31), 11).double() * 2.0**-53


def _signed(word: np.uint64) -> int:
    """The int64 with the bits of a uint64."""
    return int(word.astype(np.int64))


def _shifted(z: Tensor, by: int) -> Tensor:
    """z >> by of the bits of int64 z, whose own shift would repeat the sign."""
    return (z >> by) & ((1 << (64 - by)) - 1)
