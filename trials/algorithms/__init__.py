"""The registry of algorithms. Those of users and of installed packages need no entry here (see `Registry`)."""

import dataclasses

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
from trials.common.errors import UserError
from trials.common.names import check_recorded
from trials.common.registry import Registry
from trials.settings import Settings

_CLASSES: tuple[type[Algorithm], ...] = (
    SAFL, SAFLExtended, IDA, ASTW, IDASAFL, ASTWSAFL, FedAgg, FedAggLiteral, FOLB, FOLBTwoSet, FedNuSign, LBOptimal,
    LBNorm, DeFed, FedUmf, FedUmfFedDC, FedAvg, FedSGD, FedProx, SCAFFOLD, FedDyn, FedDC, FedAdam, FedAdagrad, FedYogi,
    FedAvgM, FedNova, FedMAFixedWidth, Centralized, LocalOnly,
)  # fmt: skip
"""The algorithms in the order of listings and pages. Each is named after its file."""


def _check_fields(cls: type[Algorithm], where: str) -> None:
    """Raise `UserError` for a field that has no range, is named like a setting, or cannot be recorded."""
    for field in dataclasses.fields(cls):
        if "range" not in field.metadata:
            raise UserError(
                f"{where}: its field {field.name} has no range: make it with real(), whole() or choice() of "
                "trials.algorithm"
            )
        if field.name in (*Settings.model_fields, "seed"):
            raise UserError(f"{where}: its field {field.name} has the name of a setting")
        for value in (field.default, *(field.metadata["range"].choices or ())):
            check_recorded(f"{where}: its hyperparameter", field.name, value)


ALGORITHMS = Registry(
    "algorithm",
    "suite.algorithms",
    Algorithm,
    {cls.__module__.rpartition(".")[2]: cls for cls in _CLASSES},
    needs=("init", "round", "scored"),
    check=_check_fields,
)
known, broken = ALGORITHMS.known, ALGORITHMS.broken
resolve = ALGORITHMS.resolve
canonical = ALGORITHMS.located


def label(name: str) -> str:
    """Return the short name of an algorithm: the class name of `FILE.py:CLASS`, else the name itself."""
    return name.rpartition(":")[2]


def is_named(name: str, text: str) -> bool:
    """Return whether `text` is an algorithm's recorded `name` or its short name, such as `Mine` for `a.py:Mine`."""
    return text in (name, label(name))
