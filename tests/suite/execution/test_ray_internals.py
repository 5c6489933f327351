"""What of Ray is used that it does not promise: whether this version has it, and what a process that was killed
for memory is to Ray Tune (for real in tests/faults).
"""

from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray._private import serialization
from ray._private.custom_types import ErrorType
from ray.exceptions import OutOfMemoryError, RayActorError

from suite.execution.ray_internals import told_as_a_death
from tests.support.others import has

USED = {
    "ray._private.serialization.OutOfMemoryError": "trials killed for memory would end a sweep",
    "ray._private.worker.print_to_stdstream": "what Ray hears of nodes would stand in a result",
    "ray._private.worker._global_node": "the death of a cluster's processes would not be seen",
    "ray._private.worker.get_dashboard_url": "nobody would be told of Ray's own page",
    "ray._private.state.state.get_max_resources_from_cluster_config": "growing clusters would be refused",
    "ray._private.ray_constants.PROCESS_TYPE_GCS_SERVER": "the death of a cluster would not be seen",
    "ray._private.ray_constants.PROCESS_TYPE_RAYLET": "the death of a cluster would not be seen",
    "ray._private.accelerators.get_accelerator_manager_for_resource": "GPUs would not be counted",
    "ray._private.utils.read_ray_address": "--address auto would join any cluster",
    "ray._raylet.Config.initialize": "the mode of authentication would be read once a process",
    "ray._raylet.AuthenticationTokenLoader.instance": "a token would be read once a process",
    "ray.job_config.JobConfig._get_proto_job_config": "workers would import from the current folder",
    "ray.tune.experiment.config_parser._create_trial_from_spec": "trials would not get ids of ours",
    "ray.tune.experiment.config_parser._make_parser": "trials would not get ids of ours",
    "ray.tune.experiment.trial._TemporaryTrialState": "packs would not be told of their members",
}
"""Each name, and what a version of Ray without it would break."""


@pytest.mark.parametrize("name", USED)
def test_this_version_has(name: str) -> None:
    assert has(name), f"Ray {ray.__version__} has no {name} any more: {USED[name]}"


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
