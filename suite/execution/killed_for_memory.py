"""A trial whose process Ray kills, the node being low on memory: dead like any other.

Ray Tune takes `RayActorError` for the death of a trial's process. Of a process that was killed for memory Ray
2.60 says `OutOfMemoryError`, which is none and ends the whole experiment.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ray._private import serialization
from ray.exceptions import OutOfMemoryError, RayActorError


class KilledForMemoryError(RayActorError, OutOfMemoryError):
    """What Ray says of such a process, without the pages about who used how much."""

    def __init__(self, message: str) -> None:
        words, _, _ = message.partition("\n")
        super().__init__(error_msg=f"Ray killed it: {words}")


@contextmanager
def told_as_a_death() -> Iterator[None]:
    """Have Ray say it so to this process."""
    before = serialization.OutOfMemoryError
    serialization.OutOfMemoryError = KilledForMemoryError  # type: ignore[misc]
    try:
        yield
    finally:
        serialization.OutOfMemoryError = before  # type: ignore[misc]
