"""What the suite needs of Ray and Ray offers no public way to."""

from contextlib import suppress
from importlib import import_module

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


def load_what_init_imports() -> None:
    """Import it in this thread; what a version of Ray does not have it does not import either."""
    for name in IMPORTED_BY_INIT:
        with suppress(ImportError):
            import_module(name)
