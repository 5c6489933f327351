"""The environments that cold tests type commands in (`tests.support.installed`), each made once for all
processes of the tests.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from tests.support.installed import ROOT, Installed, uv


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Installed]:
    """Makes an environment: the wheel with these extras, and versions as a file of constraints says."""
    mine = tmp_path_factory.getbasetemp()
    shared = mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine

    def install(constraints: str, extras: str = "") -> Installed:
        name = f"{Path(constraints).stem}{extras.strip('[]')}"
        folder, whole = shared / name, shared / f"{name}.whole"
        with FileLock(shared / "cold.lock"):
            if not whole.exists():
                _install(folder, wheel(shared), ROOT / constraints, extras)
                whole.touch()
        return Installed(folder)

    return install


@pytest.fixture(scope="session")
def fresh(installed) -> Installed:
    """The environment of `make sweep`."""
    return installed("constraints.txt", "[fast]")


def wheel(shared: Path) -> Path:
    """The wheel of this checkout."""
    folder = shared / "wheel"
    if not folder.exists():
        uv("build", "--wheel", "--quiet", "--out-dir", folder, ROOT)
    return next(folder.glob("*.whl"))


def _install(folder: Path, built: Path, constraints: Path, extras: str) -> None:
    uv("venv", "--quiet", "--python", sys.executable, folder)
    python, what = folder / "bin" / "python", f"suite-fl{extras} @ {built.as_uri()}"
    uv("pip", "install", "--quiet", "--python", python, "-c", constraints, what)
