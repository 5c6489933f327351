"""The registry: one entry an algorithm. Others come from elsewhere without an edit here.

`resolve` also finds classes in the entry-point group `suite.algorithms` and in a file named
`path/to/file.py:ClassName`.
"""

import dataclasses
import sys
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from importlib.util import decode_source
from pathlib import Path
from types import ModuleType
from typing import Any

from trials.algorithm import Algorithm
from trials.algorithms.astw import ASTW
from trials.algorithms.astw_safl import ASTWSAFL
from trials.algorithms.centralized import Centralized
from trials.algorithms.defed import DeFed
from trials.algorithms.fedadagrad import FedAdagrad
from trials.algorithms.fedadam import FedAdam
from trials.algorithms.fedagg import FedAgg
from trials.algorithms.fedagg_literal import FedAggLiteral
from trials.algorithms.fedavg import FedAvg
from trials.algorithms.fedavgm import FedAvgM
from trials.algorithms.feddc import FedDC
from trials.algorithms.feddyn import FedDyn
from trials.algorithms.fedma_fixed_width import FedMAFixedWidth
from trials.algorithms.fednova import FedNova
from trials.algorithms.fednu_sign import FedNuSign
from trials.algorithms.fedprox import FedProx
from trials.algorithms.fedsgd import FedSGD
from trials.algorithms.fedumf import FedUmf
from trials.algorithms.fedumf_feddc import FedUmfFedDC
from trials.algorithms.fedyogi import FedYogi
from trials.algorithms.folb import FOLB
from trials.algorithms.folb_two_set import FOLBTwoSet
from trials.algorithms.ida import IDA
from trials.algorithms.ida_safl import IDASAFL
from trials.algorithms.lb_norm import LBNorm
from trials.algorithms.lb_optimal import LBOptimal
from trials.algorithms.local_only import LocalOnly
from trials.algorithms.safl import SAFL
from trials.algorithms.safl_extended import SAFLExtended
from trials.algorithms.scaffold import SCAFFOLD
from trials.common.errors import UserError, unknown
from trials.common.files import plain, resolved
from trials.common.plugins import (
    admit,
    contained,
    keep_alive,
    module_name,
    run_module,
    unimportable,
)

ALGORITHMS: dict[str, type[Algorithm]] = {
    "safl": SAFL,
    "safl_extended": SAFLExtended,
    "ida": IDA,
    "astw": ASTW,
    "ida_safl": IDASAFL,
    "astw_safl": ASTWSAFL,
    "fedagg": FedAgg,
    "fedagg_literal": FedAggLiteral,
    "folb": FOLB,
    "folb_two_set": FOLBTwoSet,
    "fednu_sign": FedNuSign,
    "lb_optimal": LBOptimal,
    "lb_norm": LBNorm,
    "defed": DeFed,
    "fedumf": FedUmf,
    "fedumf_feddc": FedUmfFedDC,
    "fedavg": FedAvg,
    "fedsgd": FedSGD,
    "fedprox": FedProx,
    "scaffold": SCAFFOLD,
    "feddyn": FedDyn,
    "feddc": FedDC,
    "fedadam": FedAdam,
    "fedadagrad": FedAdagrad,
    "fedyogi": FedYogi,
    "fedavgm": FedAvgM,
    "fednova": FedNova,
    "fedma_fixed_width": FedMAFixedWidth,
    "centralized": Centralized,
    "local_only": LocalOnly,
}

BASE = "trials.algorithm.Algorithm"
GROUP = "suite.algorithms"
"""The entry points of installed packages' algorithms."""
HOOKS = ("init", "round", "scored")
"""What an algorithm has to say itself."""
_supplied: dict[str, ModuleType] = {}
"""Modules that were sent to this process, which asks for their files no more."""


def known() -> dict[str, type[Algorithm]]:
    """All algorithms by name: the project's own and those of installed packages, as far as they can be
    imported (`broken` has the others).
    """
    found = dict(ALGORITHMS)
    for point in entry_points(group=GROUP):
        with suppress(UserError):
            found.setdefault(point.name, _from_package(point))
    return found


def broken() -> list[str]:
    """Why algorithms of installed packages are not among those that are known."""
    faults = []
    for point in entry_points(group=GROUP):
        try:
            _from_package(point)
        except UserError as error:
            faults.append(str(error))
    return faults


def resolve(name: str) -> type[Algorithm]:
    """The class a name stands for: of the registry, of an entry point, or `file.py:ClassName`.

    Raises `UserError` when there is none.
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    path, _, class_name = name.rpartition(":")
    if path.endswith(".py"):
        return _from_file(resolved(path, "algorithm file"), class_name)
    if name.endswith(".py"):
        names = [f"{name}:{each}" for each in in_file(name)]
        raise UserError(f"algorithm {name}: name its class too: {' or '.join(names)}")
    for point in entry_points(group=GROUP, name=name):
        return _from_package(point)
    raise unknown("algorithm", name, known())


def canonical(name: str) -> str:
    """The name as it is recorded; a file's path is made absolute."""
    path, _, class_name = name.rpartition(":")
    return f"{resolved(path, 'algorithm file')}:{class_name}" if path.endswith(".py") else name


def label(name: str) -> str:
    """The short name of an algorithm; a third party's class name."""
    return name.rpartition(":")[2]


def is_named(name: str, asked: str) -> bool:
    """Whether a recorded name is what a person asks for, who may use the short one."""
    return asked in (name, label(name))


def in_file(path: str) -> list[str]:
    """The algorithms that a file defines, in its order; raises `UserError` where there are none."""
    found = _defined(_imported(resolved(path, "algorithm file")))
    if not found:
        raise UserError(f"{path} has no class that derives from {BASE}")
    return found


def source(name: str) -> tuple[str, str] | None:
    """The path and the text of the file that `file.py:ClassName` names; None for other names."""
    name = canonical(name)
    path, _, _ = name.rpartition(":")
    return (path, decode_source(admit(name).content)) if path.endswith(".py") else None


def supply(path: str, text: str) -> None:
    """Import an algorithm file from its text, for a machine that may not have the file."""
    name = module_name("algorithm", path)
    if name not in sys.modules:
        keep_alive()
        with contained():
            _supplied[name] = run_module(name, path, text)


def _from_package(point: EntryPoint) -> type[Algorithm]:
    """The class of an entry point; raises `UserError` where it cannot be imported, or is none."""
    where = f"algorithm {point.name} of {point.dist.name if point.dist else 'a package'}"
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        raise UserError(f"{where} ({point.value}) cannot be imported: {error!r}") from error
    return _checked(found, f"{where} ({point.value})", point.attr)


def _imported(path: Path, class_name: str = "") -> ModuleType:
    name = module_name("algorithm", str(path))
    if name in _supplied:
        return _supplied[name]
    plain(path, "algorithm file")
    found = admit(f"{path}:{class_name}")
    if name not in sys.modules:
        try:
            run_module(name, str(path), found.content)
        except (Exception, SystemExit) as error:
            why = unimportable(error)
            raise UserError(f"algorithm file {path} cannot be imported: {why}") from error
    return sys.modules[name]


def _defined(module: ModuleType) -> list[str]:
    """The algorithms that a module defines itself, in its order."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, Algorithm)
        and value.__module__ == module.__name__
    ]


def _from_file(path: Path, class_name: str) -> type[Algorithm]:
    module = _imported(path, class_name)
    cls = getattr(module, class_name, None)
    return _checked(cls, str(path), class_name, ", ".join(_defined(module)))


def _checked(cls: Any, where: str, name: str, there: str = "") -> type[Algorithm]:
    """A class of others, if an algorithm can be made of it; raises `UserError` that names what it lacks.
    `there`: the algorithms that are where it was looked for.
    """
    if not (isinstance(cls, type) and issubclass(cls, Algorithm)):
        rule = f"is an algorithm; it has {there}" if there else f"derives from {BASE}"
        raise UserError(f"{where} has no class {name!r} that {rule}")
    lacks = [hook for hook in HOOKS if getattr(cls, hook) is getattr(Algorithm, hook)]
    if lacks:
        raise UserError(f"{where}:{name} lacks {', '.join(lacks)}, which a round is made of")
    for field in dataclasses.fields(cls):
        if "range" not in field.metadata:
            raise UserError(
                f"{where}:{name}: its field {field.name} has no range: make it with real(), "
                "whole() or choice() of trials.algorithm"
            )
    return cls
