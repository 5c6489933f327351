"""All uses of private names of Ray, for things that its public interface cannot do.

A new version of Ray may lack these names. Then `tests/test_private_names.py` fails and says what breaks.
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
    """A job configuration by which workers import from the same folders as this process. Ray's own puts the current folder
    first, where a file `pandas.py` would hide the package of that name.
    """

    def _get_proto_job_config(self) -> Any:
        # Ray inserts each folder before the previous ones.
        self._py_driver_sys_path = _folders()[::-1]
        return super()._get_proto_job_config()


def _folders() -> list[str]:
    """Return this process's import folders, except those of its interpreter. A worker has an interpreter of its own."""
    excluded = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    excluded |= {*site.getsitepackages(), site.getusersitepackages()}
    folders = map(Path, map(os.path.abspath, sys.path))
    return [str(path) for path in folders if excluded.isdisjoint(map(str, (path, *path.parents)))]


def read_authentication_again() -> None:
    """Make Ray read its authentication mode and token from the environment again. By itself Ray reads them only once."""
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
