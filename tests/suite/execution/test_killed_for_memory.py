"""A process that Ray kills for memory, as Ray Tune gets to know of it; for real in tests/faults."""

from types import SimpleNamespace
from typing import Any

from ray._private import serialization
from ray._private.custom_types import ErrorType
from ray.exceptions import OutOfMemoryError, RayActorError

from suite.execution.ray_internals import told_as_a_death

SAID = (
    "1 worker(s) were killed due to the node running low on memory.\nPID MEM COMMAND\n1 17.41 hog"
)


def told(name: str) -> Any:
    """What Ray makes in this process of an error of this name that is told of a task."""
    context: Any = SimpleNamespace(
        _deserialize_error_info=lambda *_: SimpleNamespace(error_message=SAID)
    )
    metadata = str(ErrorType.Value(name)).encode()
    get: Any = serialization.SerializationContext._deserialize_object
    return get(context, b"", metadata, None, None)


def test_it_is_the_death_of_an_actor() -> None:
    with told_as_a_death():
        killed = told("OUT_OF_MEMORY")
    assert isinstance(killed, RayActorError), "what Tune starts again"
    assert isinstance(killed, OutOfMemoryError), "what it is to all others"
    assert str(killed) == f"Ray killed it: {SAID.splitlines()[0]}"


def test_another_error_stays_what_it_is() -> None:
    with told_as_a_death():
        assert not isinstance(told("NODE_DIED"), RayActorError)


def test_other_programs_of_the_process_are_told_as_before() -> None:
    with told_as_a_death():
        pass
    assert not isinstance(told("OUT_OF_MEMORY"), RayActorError)
