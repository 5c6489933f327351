"""What there is: algorithms, data sets, models, heterogeneity levels, studies, papers."""

import sys
from collections import defaultdict
from typing import Any

from suite.spaces import published
from suite.study import study_names
from trials import algorithms, names
from trials.datasets import DATASETS, PATHS
from trials.errors import unknown
from trials.heterogeneity import MODIFIERS, PARTITIONS
from trials.models import MODELS


def listing(kind: str) -> list[dict[str, Any]]:
    """One object for each thing of a kind; raises `UserError` on an unknown kind."""
    if kind not in KINDS:
        raise unknown("listing", kind, KINDS)
    return KINDS[kind]()


def _algorithms() -> list[dict[str, Any]]:
    found = []
    for name, cls in algorithms.known().items():
        defaults = cls()
        found.append(
            {
                "name": name,
                "paper": cls.paper,
                "summary": _summary(cls),
                "hyperparameters": {
                    key: {
                        "type": spec.type,
                        "default": getattr(defaults, key),
                        "low": spec.low,
                        "high": spec.high,
                        "log": spec.log,
                        "choices": spec.choices,
                        "when": spec.when,
                    }
                    for key, spec in cls.ranges().items()
                },
                "published": [
                    {
                        "params": p.params,
                        "source": p.source,
                        "datasets": p.datasets,
                        "models": p.models,
                    }
                    for p in published(name)
                ],
            }
        )
    return found


def _datasets() -> list[dict[str, Any]]:
    found = [{"name": names.usage(n, cls), "summary": cls.summary} for n, cls in DATASETS.items()]
    return found + [{"name": f"{n}:PATH", "summary": cls.summary} for n, cls in PATHS.items()]


def _models() -> list[dict[str, Any]]:
    return [{"name": names.usage(n, cls), "summary": cls.summary} for n, cls in MODELS.items()]


def _heterogeneity() -> list[dict[str, Any]]:
    found = [{"name": names.usage(n, cls), "summary": cls.summary} for n, cls in PARTITIONS.items()]
    extra = [
        {"name": f"+{names.usage(n, cls)}", "summary": cls.summary} for n, cls in MODIFIERS.items()
    ]
    return found + extra


def _studies() -> list[dict[str, Any]]:
    return [{"name": name, "summary": text} for name, text in study_names().items()]


def _papers() -> list[dict[str, Any]]:
    by_paper: dict[str, list[str]] = defaultdict(list)
    for name, cls in algorithms.known().items():
        by_paper[cls.paper].append(name)
    return [{"name": paper, "algorithms": found} for paper, found in by_paper.items()]


def _summary(cls: type) -> str:
    """The first sentence of the module's docstring, or of the class's where the module has none."""
    text = sys.modules[cls.__module__].__doc__ or cls.__doc__ or ""
    return text.strip().split("\n\n")[0].replace("\n", " ")


KINDS = {
    "algorithms": _algorithms,
    "datasets": _datasets,
    "models": _models,
    "heterogeneity": _heterogeneity,
    "studies": _studies,
    "papers": _papers,
}
