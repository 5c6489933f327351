"""The registry: one entry an algorithm. Others come from elsewhere without an edit here (`Registry`)."""

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

_OWN: dict[str, type[Algorithm]] = {
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


def _ranged(cls: type[Algorithm], where: str) -> None:
    """Raise `UserError` for a field that is no hyperparameter, or cannot be recorded."""
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
    _OWN,
    needs=("init", "round", "scored"),
    check=_ranged,
)
known, broken = ALGORITHMS.known, ALGORITHMS.broken
resolve = ALGORITHMS.resolve
canonical = ALGORITHMS.located


def label(name: str) -> str:
    """Return the short name of an algorithm: of a third party's its class."""
    return name.rpartition(":")[2]


def is_named(name: str, asked: str) -> bool:
    """Return whether a person who asks for a name, perhaps the short one, means the recorded one."""
    return asked in (name, label(name))
