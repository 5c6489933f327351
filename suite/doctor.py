"""`suite doctor`: is everything here that a sweep needs?"""

import importlib.metadata
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from suite.tracking.store import Store
from trials.common.machine import usable_cpus
from trials.datasets.base import data_root


@dataclass(frozen=True)
class Check:
    """One finding; `remedy` says what to do when it is not well."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def examine(storage: Path, tracking_uri: str | None, data: str | None) -> list[Check]:
    """Run every check, none of which changes more than an empty store under `storage`."""
    checks: list[tuple[str, Callable[[], str], str]] = [
        ("python", platform.python_version, ""),
        ("packages", _packages, "pip install the project again, with its constraints.txt"),
        ("torch", _torch, "reinstall torch within the range that pyproject.toml names"),
        (
            "torchvision",
            _vision,
            "reinstall torchvision within the range that pyproject.toml names",
        ),
        ("ray", _ray, "see the message; a stale cluster is ended by `ray stop`"),
        (
            "mlflow store",
            lambda: Store(tracking_uri, storage).uri,
            "choose another --storage",
        ),
        ("disk", lambda: _disk(storage), "free some space or choose another --storage"),
        ("data root", lambda: _data(data), ""),
    ]
    return [_check(name, action, remedy) for name, action, remedy in checks]


def _check(name: str, action: Callable[[], str], remedy: str) -> Check:
    try:
        return Check(name, True, action())
    except Exception as error:
        return Check(name, False, f"{type(error).__name__}: {error}", remedy)


def _packages() -> str:
    wrong = []
    for text in importlib.metadata.requires("suite-fl") or []:
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        have = importlib.metadata.version(wanted.name)
        if not wanted.specifier.contains(have, prereleases=True):
            wrong.append(f"{wanted.name} {have} is not {wanted.specifier}")
    if wrong:
        raise RuntimeError("; ".join(wrong))
    shown = ("ray", "optuna", "mlflow")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in shown)


def _torch() -> str:
    import torch

    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"{torch.__version__}, {usable_cpus()} CPUs, GPUs: {', '.join(devices) or 'none'}"


def _vision() -> str:
    from trials.datasets.torchvision_import import torchvision

    return str(torchvision.__version__)


def _ray() -> str:
    from suite.execution.cluster import connect
    from suite.execution.resources import Resources

    with connect(Resources()) as cluster:
        return f"a local cluster starts; {cluster.slots()} trials at once by default"


def _disk(storage: Path) -> str:
    free = shutil.disk_usage(storage).free / 1e9
    if free < 1:
        raise RuntimeError(f"only {free:.1f} GB free at {storage}")
    return f"{free:.0f} GB free at {storage}"


def _data(data: str | None) -> str:
    root = data_root(data)
    return f"{root}" + (
        "" if root.exists() else " (does not exist yet; made by the first download)"
    )
