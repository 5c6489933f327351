"""Which known configuration to start from on a scenario: its own, else the nearest scenario's.

docs/reproduce.md has the distance between scenarios, which is symmetric and obeys the triangle inequality.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from suite.configurations.configuration import Tuned, files_at, read
from suite.search.trial import InitialConfiguration
from suite.studies.entry import Entry
from trials import algorithms, datasets, heterogeneity
from trials.common import names, plugins
from trials.common.errors import UserError
from trials.run.spec import SPELLING, Scenario, outside, refuse

NEAREST = "nearest"
"""`warm_start: nearest`: among all that the storage holds."""
LABELS = 10
"""The number of labels that skews are computed for: a level has no data of its own."""
DEEP = ("vgg11", "resnet18", "alexnet", "googlenet", "densenet121")
MODEL_KINDS = (
    {"logreg", "linear"},
    {"lenet5", "lenet5_fedagg", "mcmahan_cnn", "cifar10_cnn", "feddc_cnn"},
    {"vgg_light", *map("torchvision:{}".format, DEEP)},
    {"char_lstm", "sent_lstm"},
)
"""Models that resemble each other. A name that is in no kind resembles only itself."""


def distance(a: Scenario, b: Scenario) -> float:
    """Return how far two scenarios with canonical names are from each other: 0 for the same one, infinite between tasks."""
    ours, theirs = datasets.parse(a.dataset), datasets.parse(b.dataset)
    if ours.task != theirs.task:
        return math.inf
    models = {_bare(a.model), _bare(b.model)}
    data = _apart(a.dataset, b.dataset, ours.kind != "" and ours.kind == theirs.kind)
    model = _apart(a.model, b.model, any(models <= kind for kind in MODEL_KINDS))
    return data + model + _levels_apart(a.heterogeneity, b.heterogeneity)


def _apart(a: str, b: str, alike: bool) -> float:
    """Return the distance between the names of two data sets, or of two models, of one task."""
    if _bare(a) == _bare(b):
        return 0.25 * (a != b)
    return 0.5 if alike else 1.0


def _bare(name: str) -> str:
    """Return a name without its arguments; what a person brought along (`npz:PATH`) is all name."""
    return name if ":" in name else name.split("(")[0]


def _levels_apart(a: str, b: str) -> float:
    if a == b:
        return 0.0
    (rule_a, *rest_a), (rule_b, *rest_b) = names.split_top(a, "+"), names.split_top(b, "+")
    skew_a, skew_b = skew(rule_a), skew(rule_b)
    if skew_a is not None and skew_b is not None:
        apart = abs(skew_a - skew_b)
    else:
        apart = 0.5 * (skew_a != skew_b)
    apart += 0.05 if _bare(rule_a) != _bare(rule_b) else 0.01 * (rule_a != rule_b)
    ours, theirs = ({_bare(modifier): modifier for modifier in rest} for rest in (rest_a, rest_b))
    apart += sum(0.05 for name in ours.keys() & theirs.keys() if ours[name] != theirs[name])
    return apart + 0.1 * len(ours.keys() ^ theirs.keys())


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
        if math.isfinite(away) and _is_asked_for(item, name, level):
            apart.append((away, item))
    if not apart:
        raise UserError(
            f"no tuned configuration of {name or 'a ranked algorithm'} fits {dataset}: see `suite tuned list`, "
            "make one with `suite sweep`, or add some with `suite tuned import`"
        )
    return min(apart, key=lambda pair: (pair[0], pair[1].loss, pair[1].algorithm, pair[1].model))


def _is_asked_for(item: Tuned, name: str | None, level: str) -> bool:
    """Return whether a configuration is of an algorithm, or of one that leaderboards rank, and can run at a level. Code of
    others does not run for an answer: it is taken to.
    """
    if name is not None and not algorithms.is_named(item.algorithm, name):
        return False
    if plugins.named(item.algorithm):
        return True
    cls = algorithms.resolve(item.algorithm)
    if name is None and (cls.reference or outside(cls, item.settings)):
        return False
    try:
        refuse(item.algorithm, cls, item.settings, level)
    except UserError:
        return False
    return True


def tuned_files(path: Path) -> list[Tuned]:
    """Read a tuned file, or all below a folder; raises `UserError` when there is none."""
    return [read(file) for file in files_at(path)]


def warm_start(
    entries: Sequence[Entry], known: Sequence[Tuned]
) -> dict[str, list[InitialConfiguration]]:
    """Return by entry the configuration of the same algorithm whose scenario is nearest, of equally near ones the first;
    none where there is none. What the entry does not search or set is left out of it; the default configuration fills the rest.

    Raises `UserError` where a hyperparameter has a value that the algorithm never takes.
    """
    warm: dict[str, list[InitialConfiguration]] = {entry.id: [] for entry in entries}
    for entry in entries:
        own = [item for item in known if item.algorithm == entry.algorithm]
        apart = [(distance(entry.scenario, item.scenario), item) for item in own]
        away, item = min(apart, key=lambda pair: pair[0], default=(math.inf, None))
        if item is None or math.isinf(away):
            continue
        tuned_by = item.provenance.get("sweep", "a file")
        source = f"{item.scenario}, tuned by {tuned_by}: {away:.2f} away"
        every = {**item.settings.model_dump(), **item.params}
        values = {k: every[k] for k in entry.space.ranges if every.get(k) is not None}
        cls = algorithms.resolve(entry.algorithm)
        try:
            for name in values.keys() & cls.ranges():
                cls.checked(name, values[name])
        except UserError as error:
            raise UserError(f"warm start of {entry.name} from {source}: {error}") from None
        warm[entry.id] = [InitialConfiguration("warm", entry.space.default(values), source)]
    return warm
