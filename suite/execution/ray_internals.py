"""All uses of Ray's private names, each with the reason: what Ray offers no public way to.

A version of Ray may take any of it away. `tests/test_private_names.py` says so in words.
"""

import os
import site
import sys
import sysconfig
from pathlib import Path
from typing import Any

from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]
from ray.job_config import JobConfig


class SameImports(JobConfig):
    """Let workers import from the same folders as this process. Ray by itself puts the current folder first, so
    that a `pandas.py` there would hide the package.
    """

    def _get_proto_job_config(self) -> Any:
        # Ray puts each before those that come earlier.
        self._py_driver_sys_path = _folders()[::-1]
        return super()._get_proto_job_config()


def _folders() -> list[str]:
    """Return the folders that this process imports from, except its interpreter's own: a worker has its own."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {*site.getsitepackages(), site.getusersitepackages()}
    folders = map(Path, map(os.path.abspath, sys.path))
    return [str(path) for path in folders if places.isdisjoint(map(str, (path, *path.parents)))]


def read_authentication_again() -> None:
    """Have Ray read the mode and token of authentication from the environment again. By itself it does so once per
    process, but a process may use several clusters.
    """
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
