"""The registry: one entry an algorithm. Others come from elsewhere without an edit here.

`resolve` also finds classes in the entry-point group `suite.algorithms` and in a file named
`path/to/file.py:ClassName`.
"""

import importlib.util
import sys
import zlib
from importlib.metadata import entry_points
from pathlib import Path

from trials.algorithm import Algorithm
from trials.algorithms.fedavg import FedAvg
from trials.algorithms.fedprox import FedProx
from trials.algorithms.folb import FOLB
from trials.algorithms.safl import SAFL
from trials.errors import UserError, unknown

ALGORITHMS: dict[str, type[Algorithm]] = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "folb": FOLB,
    "safl": SAFL,
}


def known() -> dict[str, type[Algorithm]]:
    """All algorithms by name: the project's own and those of installed packages."""
    found = dict(ALGORITHMS)
    for point in entry_points(group="suite.algorithms"):
        found.setdefault(point.name, point.load())
    return found


def resolve(name: str) -> type[Algorithm]:
    """The class a name stands for: of the registry, of an entry point, or `file.py:ClassName`.

    Raises `UserError` when there is none.
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    path, _, class_name = name.rpartition(":")
    if path.endswith(".py"):
        return _from_file(Path(path).expanduser().resolve(), class_name)
    algorithms = known()
    if name not in algorithms:
        raise unknown("algorithm", name, algorithms)
    return algorithms[name]


def canonical(name: str) -> str:
    """The name as it is recorded; a file's path is made absolute."""
    path, _, class_name = name.rpartition(":")
    return f"{Path(path).expanduser().resolve()}:{class_name}" if path.endswith(".py") else name


def _from_file(path: Path, class_name: str) -> type[Algorithm]:
    module_name = f"suite_algorithm_{zlib.crc32(str(path).encode()):08x}"
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(module_name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise UserError(f"algorithm file {path} does not exist")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[module_name]
            raise UserError(f"algorithm file {path} cannot be imported: {error!r}") from error
    cls = getattr(sys.modules[module_name], class_name, None)
    if not (isinstance(cls, type) and issubclass(cls, Algorithm)):
        raise UserError(
            f"{path} has no class {class_name!r} that derives from trials.algorithm.Algorithm"
        )
    return cls
