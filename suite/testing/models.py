"""What every model of others owes: it computes what it says, whatever computes it."""

from contextlib import suppress

from suite.testing.algorithms import check_algorithm
from trials import datasets
from trials.common.errors import UserError
from trials.common.plugins import named
from trials.common.tensors import nn
from trials.models.base import Model
from trials.models.own import TORCHVISION, OwnModel


def makes_a_model(text: str) -> bool:
    """Whether a name is that of a function or of a module's class that makes a model."""
    found = None
    with suppress(UserError):
        if text.startswith(TORCHVISION):
            return True
        found = OwnModel.at(text).function() if named(text) else None
    return found is not None and (not isinstance(found, type) or issubclass(found, nn.Module))


def check_model(text: str, dataset: str = "digits") -> str:
    """How a model of others is computed, by its name `FILE.py:function`; raises `WrongError` or `UserError` with
    what is wrong with it, on a data set: by itself, then by two rounds of FedAvg.
    """
    model, data = OwnModel.at(text), datasets.parse(dataset).load(0, None, None)
    fitted = Model(model, data.shape, data.classes)
    check_algorithm("fedavg", models=(model.name,), dataset=dataset, level="iid")
    return f"right, {fitted.d:,} weights, {fitted.architecture.note}"
