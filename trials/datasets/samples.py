"""Samples one at a time, as `torch.utils.data.Dataset`s have them, made arrays."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from trials.common.errors import UserError
from trials.datasets.base import Array

PARTS = ("train", "test")


def is_pair(made: object) -> bool:
    """Whether something is a training part and a test part of samples: `(train, test)`."""
    return (
        isinstance(made, tuple | list)
        and len(made) == len(PARTS)
        and all(hasattr(part, "__len__") and hasattr(part, "__getitem__") for part in made)
    )


def pair_arrays(name: str, pair: Any) -> dict[str, Array]:
    """x_train, y_train, x_test and y_test of `(train, test)`, whose samples are pairs (x, y); each is asked for
    once, in order. Raises `UserError` naming the sample that does not fit.
    """
    found: dict[str, Array] = {}
    for part, samples in zip(PARTS, pair, strict=True):
        x: list[Array] = []
        y: list[Array] = []
        for i, (one, label) in _samples(f"{name}: sample {{}} of {part}", samples):
            if x and one.shape != x[0].shape:
                raise UserError(
                    f"{name}: samples must have one shape, but sample {i} of {part} has {one.shape} and "
                    f"sample 0 {x[0].shape}"
                )
            x.append(one)
            y.append(label)
        if not x:
            raise UserError(f"{name}: the {part} part has no samples")
        found |= {f"x_{part}": np.stack(x), f"y_{part}": np.stack(y)}
    return found


def _samples(what: str, samples: Any) -> Iterator[tuple[int, tuple[Array, Array]]]:
    for i in range(len(samples)):
        sample = samples[i]
        if not isinstance(sample, tuple | list) or len(sample) != 2:
            raise UserError(
                f"{what.format(i)} must be a pair (x, y), but is {type(sample).__name__}"
            )
        x, y = (np.asarray(value) if _plain(value) else None for value in sample)
        if x is None or x.dtype.kind not in "iufb":
            kind = type(sample[0]).__name__
            raise UserError(
                f"{what.format(i)} must have numbers as its x, but it is {kind}: use a transform that makes "
                "tensors"
            )
        if y is None or y.size != 1 or y.dtype.kind not in "iufb":
            raise UserError(
                f"{what.format(i)} must have one number as its y, but it is {sample[1]!r}"
            )
        yield i, (x, y.reshape(()))


def _plain(value: Any) -> bool:
    """Whether a value is numbers: a picture of Pillow is an array of pixels too, laid out otherwise."""
    return not type(value).__module__.startswith("PIL.")
