"""What the suite needs of Ray and Ray offers no public way to: all of it, each with the reason.

A version of Ray may take any of it away. `tests/test_private_names.py` says so in words.
"""

import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import ray
from ray._private import serialization
from ray._private.accelerators import get_accelerator_manager_for_resource
from ray._private.ray_constants import PROCESS_TYPE_GCS_SERVER, PROCESS_TYPE_RAYLET
from ray._private.utils import read_ray_address
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.job_config import JobConfig
from ray.tune.experiment import Trial
from ray.tune.experiment.config_parser import _create_trial_from_spec, _make_parser

IMPORTED_BY_INIT = (
    "ray._private.runtime_env.uv_runtime_env_hook",
    "ray._common.usage.usage_lib",
    "ray.autoscaler.v2.instance_manager.common",
    "ray.autoscaler.v2.utils",
    "ray.dashboard.optional_deps",
    "ray._private.thirdparty.pynvml",
    "ctypes.util",
)
"""What `ray.init` imports when it is called. A thread calls it while the main thread imports MLflow, torch
and Ray Tune, and two threads that import one package at a time can each meet half of it.
"""
_NEEDED = (PROCESS_TYPE_GCS_SERVER, PROCESS_TYPE_RAYLET)


class KilledForMemoryError(RayActorError, OutOfMemoryError):
    """What Ray says of a process that it killed for memory, without the pages about who used how much."""

    def __init__(self, message: str) -> None:
        words, _, _ = message.partition("\n")
        super().__init__(error_msg=f"Ray killed it: {words}")


class SameImports(JobConfig):
    """Workers import what this process does. Ray itself puts the current folder before all else there, where
    a `pandas.py` would be run that this process never looks at.
    """

    def _get_proto_job_config(self) -> Any:
        # Ray puts each before those that come earlier.
        self._py_driver_sys_path = _folders()[::-1]
        return super()._get_proto_job_config()


def _folders() -> list[str]:
    """Where this process imports from, besides its interpreter's own places: a worker has its own."""
    own = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    own += [*site.getsitepackages(), site.getusersitepackages()]
    folders = [os.path.abspath(path) for path in sys.path]
    return [path for path in folders if not any(Path(path).is_relative_to(of) for of in own)]


def load_what_init_imports() -> None:
    """Import it in this thread; what a version of Ray does not have it does not import either."""
    for name in IMPORTED_BY_INIT:
        with suppress(ImportError):
            import_module(name)


def read_authentication_again() -> None:
    """Have Ray read the environment's mode and token of authentication again: it does so once a process, and
    a process may use its own cluster and others.
    """
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def printing(how: Callable[..., None]) -> Iterator[None]:
    """Pass on what Ray hears of nodes that die: it prints that, with their last log lines, to standard output,
    which belongs to the result.
    """
    worker = vars(ray._private.worker)
    before = worker["print_to_stdstream"]
    worker["print_to_stdstream"] = how
    try:
        yield
    finally:
        worker["print_to_stdstream"] = before


@contextmanager
def told_as_a_death() -> Iterator[None]:
    """Have Ray say of a process that it killed for memory what it says of any that died. Ray Tune starts a
    trial again after a `RayActorError`; after `OutOfMemoryError`, which is none, it ends the experiment.
    """
    before = serialization.OutOfMemoryError
    serialization.OutOfMemoryError = KilledForMemoryError  # type: ignore[misc]
    try:
        yield
    finally:
        serialization.OutOfMemoryError = before  # type: ignore[misc]


def dead_process() -> str:
    """The name of a process of this process's own cluster that has died, "" while all live: Ray ends those who
    use it without a word for them.
    """
    node = ray._private.worker._global_node
    processes: Mapping[str, Any] = node.all_processes if node is not None else {}
    started = ((name, one.process) for name in _NEEDED for one in processes.get(name, []))
    return next((name for name, process in started if process.poll() is not None), "")


def dashboard_url() -> str:
    """The address of the page of the cluster that is joined, "" where none runs; `ray.init` says it only of a
    cluster that it starts.
    """
    found = ray._private.worker.get_dashboard_url()
    return f"http://{found}" if found else ""


def can_grow() -> bool:
    """Whether the cluster may start nodes by itself."""
    return bool(ray._private.state.state.get_max_resources_from_cluster_config())


def started_address() -> str | None:
    """The address of the cluster that `ray start` began last on this machine. `ray.init("auto")` would join a
    cluster of another sweep's own, too.
    """
    return read_ray_address()


def gpus_here() -> int:
    """How many GPUs a cluster that is started on this machine would have."""
    kind = get_accelerator_manager_for_resource("GPU")
    return kind.get_current_node_num_accelerators() if kind is not None else 0


def make_trial(trial_id: str, spec: Mapping[str, Any], config: Mapping[str, Any]) -> Trial:
    """A Tune trial of this id, as a search algorithm hands it out: a searcher's trials get ids of Tune's."""
    wanted = {**spec, "config": config}
    return _create_trial_from_spec(
        wanted, _make_parser(), evaluated_params={}, experiment_tag="", trial_id=trial_id
    )


def actor_of(trial: Trial) -> Any:
    """The actor that runs a trial, which a pack is told of its members by."""
    return trial.temporary_state.ray_actor
