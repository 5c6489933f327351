"""The address of a scenario: which data, which model, partitioned how."""

from typing import Any, NamedTuple, Self

from trials import datasets, heterogeneity, models
from trials.common import plugins
from trials.common.names import split_top
from trials.models.own import TORCHVISION

SPELLING = {
    "dataset": datasets.canonical,
    "model": models.canonical,
    "heterogeneity": lambda level: heterogeneity.parse(level).name,
}
"""The canonical spelling of each part of a place; raises `UserError` for what is none."""


class Scenario(NamedTuple):
    """Data set, model and heterogeneity level; in this order wherever a person reads it."""

    dataset: str
    model: str
    heterogeneity: str

    @classmethod
    def of(cls, named: Any) -> Self:
        """The place that something names: files and records have its three parts as attributes."""
        return cls(named.dataset, named.model, named.heterogeneity)

    @classmethod
    def canonical(cls, dataset: str, model: str, heterogeneity: str) -> Self:
        """With the canonical spelling of each part; raises `UserError` for the first that is none."""
        given = cls(dataset, model, heterogeneity).names()
        return cls(**{part: SPELLING[part](name) for part, name in given.items()})

    @property
    def code(self) -> list[str]:
        """Its names, and each part of the level; some may load third-party code."""
        return [self.dataset, *self.model_code, *split_top(self.heterogeneity, "+")]

    @property
    def model_code(self) -> list[str]:
        """The model's name where it brings in code of others; torchvision's is a dependency's."""
        own = plugins.named(self.model) and not self.model.startswith(TORCHVISION)
        return [self.model] if own else []

    def names(self) -> dict[str, Any]:
        """The parts by name, as files and records hold them."""
        return self._asdict()

    def __str__(self) -> str:
        """In a line: `digits · logreg · iid`."""
        return " · ".join(self)
