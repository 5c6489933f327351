"""Which known configuration to start from on a scenario: its own, else the nearest scenario's.

The distance of two scenarios is a sum over their parts (docs/reproduce.md).
"""

import math
from collections.abc import Sequence

from suite.configurations.configuration import Tuned
from suite.search.trial import InitialConfiguration
from suite.studies.entries import Entry
from trials import algorithms, datasets, heterogeneity
from trials.common import plugins
from trials.common.errors import UserError
from trials.common.names import split_top
from trials.run.spec import SPELLING, Scenario, outside, refuse

NEAREST = "nearest"
"""`warm_start: nearest`: among all that the storage holds."""
LABELS = 10
"""The number of labels that skews are computed for: a level has no data of its own."""


def distance(a: Scenario, b: Scenario) -> float:
    """Return how far two scenarios with canonical names are from each other: 0 for the same one, infinite between tasks."""
    ours, theirs = datasets.parse(a.dataset), datasets.parse(b.dataset)
    if ours.task != theirs.task:
        return math.inf
    same_kind = ours.kind != "" and ours.kind == theirs.kind
    apart = _apart(a.dataset, b.dataset, same_kind) + _apart(a.model, b.model)
    if a.heterogeneity != b.heterogeneity:
        skew_a, skew_b = (skew(split_top(s.heterogeneity, "+")[0]) for s in (a, b))
        if skew_a is not None and skew_b is not None:
            apart += 0.1 + abs(skew_a - skew_b)
        else:
            apart += 0.1 + 0.5 * (skew_a != skew_b)
    return apart


def _apart(a: str, b: str, same_kind: bool = False) -> float:
    """Return the distance between the names of two data sets, or of two models."""
    # `npz:PATH` is all name; what `mlp(100)` has in parentheses are arguments.
    alike = same_kind or (":" not in a and a.partition("(")[0] == b.partition("(")[0])
    return 0.0 if a == b else 0.5 if alike else 1.0


def skew(partition: str) -> float | None:
    """Return what a partition says of `LABELS` labels (`Partition.skew`); None where it depends on the data, and for
    code of others, which does not run to be compared.
    """
    if plugins.named(partition):
        return None
    return heterogeneity.PARTITIONS.read(partition)[1].skew(LABELS)


def recommend(
    known: Sequence[Tuned],
    dataset: str,
    level: str,
    algorithm: str | None = None,
    model: str | None = None,
) -> tuple[float, Tuned]:
    """Return the best by validation score of the nearest scenario, and how far that is from the one asked for. Without an
    algorithm, of all that leaderboards rank; without a model, of any model.

    Raises `UserError` on unknown names, and when nothing known belongs to the data set's task.
    """
    name = algorithms.canonical(algorithm) if algorithm else None
    dataset, level = SPELLING["dataset"](dataset), SPELLING["heterogeneity"](level)
    model = SPELLING["model"](model) if model else None
    apart = []
    for item in known:
        # Without a model each configuration is as near as if its own had been asked for.
        away = distance(Scenario(dataset, model or item.model, level), item.scenario)
        asked_for = name is None or algorithms.is_named(item.algorithm, name)
        if math.isfinite(away) and asked_for and _runs_at(item, level, ranked=name is None):
            apart.append((away, item.loss, item.algorithm, item.model, item))
    if not apart:
        raise UserError(
            f"no tuned configuration of {name or 'a ranked algorithm'} fits {dataset}: see `suite tuned list`, "
            "make one with `suite sweep`, or add some with `suite tuned import`"
        )
    away, *_, best = min(apart, key=lambda candidate: candidate[:-1])
    return away, best


def _runs_at(item: Tuned, level: str, ranked: bool) -> bool:
    """Return whether a configuration can run at a level, and perhaps whether leaderboards would rank it. Code of others does
    not run for an answer: it is taken to.
    """
    if plugins.named(item.algorithm):
        return True
    cls = algorithms.resolve(item.algorithm)
    if ranked and (cls.reference or outside(cls, item.settings)):
        return False
    try:
        refuse(item.algorithm, cls, item.settings, level)
    except UserError:
        return False
    return True


def warm_start(
    entries: Sequence[Entry], known: Sequence[Tuned]
) -> dict[str, list[InitialConfiguration]]:
    """Return by entry the configuration of the same algorithm whose scenario is nearest, of equally near ones the first;
    none where there is none. What the entry does not search or set is left out of it; the default configuration fills the rest.
    """
    warm: dict[str, list[InitialConfiguration]] = {entry.id: [] for entry in entries}
    for entry in entries:
        own = [item for item in known if item.algorithm == entry.algorithm]
        apart = [(distance(entry.scenario, item.scenario), item) for item in own]
        away, item = min(apart, key=lambda pair: pair[0], default=(math.inf, None))
        if item is not None and math.isfinite(away):
            tuned_by = item.provenance.get("sweep", "a file")
            source = f"{item.scenario}, tuned by {tuned_by}: {away:.2f} away"
            values = item.settings.model_dump() | item.params
            values = {k: values[k] for k in entry.space.ranges if values.get(k) is not None}
            warm[entry.id] = [InitialConfiguration("warm", entry.space.default(values), source)]
    return warm
