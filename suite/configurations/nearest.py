"""Which known configuration to start from on a scenario: its own, else the nearest scenario's.

docs/reproduce.md has the distance between scenarios, whose parts are symmetric and obey the triangle inequality. A learning
rate depends on more than that (rounds, clients, local work), so a recommendation names its settings as well.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from suite.configurations.configuration import Tuned
from suite.studies.samplers import LAG, searched_by
from trials import algorithms, datasets, heterogeneity
from trials.common import names, plugins
from trials.common.errors import UserError
from trials.run.spec import SPELLING, Scenario, outside, refuse
from trials.settings import Settings

LABELS = 10
"""The number of labels that skews are computed for: a level has no data of its own."""
MODEL_KINDS: dict[str, str] = {
    "linear": "logreg linear",
    "small convolutional": "lenet5 lenet5_fedagg mcmahan_cnn cifar10_cnn feddc_cnn",
    "deep convolutional": "vgg_light torchvision:vgg11 torchvision:resnet18 torchvision:alexnet torchvision:googlenet torchvision:densenet121",
    "recurrent": "char_lstm sent_lstm",
}
"""Models that resemble each other. A name that is in no kind resembles only itself."""
OTHERS = 3
"""How many further scenarios a recommendation names."""
EVIDENCE = ("rounds", "clients", "participation", "batch_size", "local_epochs", "local_steps")
"""Settings that a learning rate depends on."""


class Distance(NamedTuple):
    """The three parts of a distance, each 0 for equal names."""

    dataset: float
    model: float
    heterogeneity: float

    @property
    def total(self) -> float:
        """The sum of the parts; infinite between tasks."""
        return sum(self)

    def __str__(self) -> str:
        """Return it in words: `0.55 away (dataset 0.50, heterogeneity 0.05)`, or `the same scenario`."""
        if self.total == 0:
            return "the same scenario"
        parts = ", ".join(f"{name} {part:.2f}" for name, part in self._asdict().items() if part)
        return f"{self.total:.2f} away ({parts})"


def nearest(wanted: Scenario, known: Iterable[Tuned]) -> list[tuple[Distance, Tuned]]:
    """Return what is known with its distance from `wanted`, nearest first; equally near ones keep their order.
    Those of another task are left out.
    """
    pairs = [(distance(wanted, item.scenario), item) for item in known]
    reachable = [pair for pair in pairs if math.isfinite(pair[0].total)]
    return sorted(reachable, key=lambda pair: pair[0].total)


def distance(a: Scenario, b: Scenario) -> Distance:
    """Return the distance between two scenarios with canonical names."""
    mine, theirs = datasets.parse(a.dataset), datasets.parse(b.dataset)
    kin = mine.kind != "" and mine.kind == theirs.kind
    apart = _apart(a.dataset, b.dataset, kin) if mine.task == theirs.task else math.inf
    both = {_bare(a.model), _bare(b.model)}
    alike = any(both <= set(kind.split()) for kind in MODEL_KINDS.values())
    levels = _levels_apart(a.heterogeneity, b.heterogeneity)
    return Distance(apart, _apart(a.model, b.model, alike), levels)


def skew(level: str) -> float | None:
    """Return what its partition says (`Partition.skew`), of `LABELS` labels; None where it depends on the data, and for
    code of others, which does not run to be compared.
    """
    partition = names.split_top(level, "+")[0]
    if plugins.named(partition):
        return None
    return heterogeneity.PARTITIONS.parse(partition).skew(LABELS)


def _levels_apart(a: str, b: str) -> float:
    if a == b:
        return 0.0
    match skew(a), skew(b):
        case (None, None):
            apart = 0.0
        case (None, _) | (_, None):
            apart = 0.5
        case (one, other):
            apart = abs(one - other)
    (rule_a, *rest_a), (rule_b, *rest_b) = names.split_top(a, "+"), names.split_top(b, "+")
    apart += 0.05 if _bare(rule_a) != _bare(rule_b) else 0.01 * (rule_a != rule_b)
    ours, yours = ({_bare(modifier): modifier for modifier in rest} for rest in (rest_a, rest_b))
    apart += sum(0.05 for name in ours.keys() & yours.keys() if ours[name] != yours[name])
    return apart + 0.1 * len(ours.keys() ^ yours.keys())


def _apart(a: str, b: str, alike: bool) -> float:
    """Return the distance between the names of two data sets, or of two models, of one task."""
    if a == b:
        return 0.0
    if _bare(a) == _bare(b):
        return 0.25
    return 0.5 if alike else 1.0


def _bare(name: str) -> str:
    """Return a name without its arguments; what a person brought along (`npz:PATH`) is all name."""
    return name if ":" in name else name.split("(")[0]


@dataclass(frozen=True)
class Recommendation:
    """The best configuration of the nearest scenario, the same adapted to the scenario that was asked for with what was
    changed in words, and what else there is.
    """

    wanted: dict[str, str | None]
    best: Tuned
    adapted: Tuned
    changes: tuple[str, ...]
    distance: Distance
    compared: int
    others: tuple[tuple[Distance, Tuned], ...]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that its learning rate depends on."""
        settings = self.best.settings.model_dump(exclude_none=True)
        return {key: settings[key] for key in EVIDENCE if key in settings}

    def document(self) -> dict[str, Any]:
        """Return the JSON of `suite tuned recommend`."""
        others = [
            {"distance": away.total, "configuration": other.model_dump(mode="json")}
            for away, other in self.others
        ]
        return {
            "wanted": self.wanted,
            "exact": self.distance.total == 0,
            "distance": {**self.distance._asdict(), "total": self.distance.total},
            "configuration": self.best.model_dump(mode="json"),
            "adapted": self.adapted.model_dump(mode="json"),
            "adaptations": list(self.changes),
            "evidence": {
                "scores": self.best.scores,
                "budget": self.best.budget,
                "settings": self.settings,
                "algorithms_tuned_on_that_scenario": self.compared,
                "provenance": self.best.provenance,
            },
            "others": others,
        }

    def lines(self) -> list[str]:
        """Return the recommendation for a person: how near, on what evidence, what else."""
        best = self.best
        near = f"The nearest scenario: {best.scenario}, {self.distance}"
        if self.distance.total == 0:
            near = "This very scenario"
        seeds, interval = map(best.scores.get, ("test_by_seed", "test_interval_95"))
        measured = "no recorded score"
        if (score := best.score("test")) is not None:
            measured = f"test_{best.task.metric} {score:.4g}"
            match interval:
                case [float(low), float(high)]:
                    measured += f" [{low:.4g}, {high:.4g}]"
        budget = ", ".join(f"{value} {key}" for key, value in _budget(best).items())
        settings = ", ".join(f"{key} {value}" for key, value in self.settings.items())
        count = len(seeds) if isinstance(seeds, dict) else 0
        lines = [
            f"{near}; {best.algorithm} validates best of {self.compared} algorithms tuned there.",
            f"Evidence: {measured} over {count} final seeds ({budget or 'budget not recorded'}).",
            f"Tuned under: {settings}. Other settings may want another learning rate.",
        ]
        if self.changes:
            lines.append(f"Adapted: {'; '.join(self.changes)}.")
        for away, other in self.others:
            lines.append(f"Else: {other.algorithm} on {other.scenario}, {away}.")
        return lines


def _budget(item: Tuned) -> dict[str, Any]:
    """Return what its file says of the search, the sampler by what it came to (`searched_by`)."""
    match item.budget:
        case {"sampler": sampler, "trials": int(trials), **rest}:
            confirming = rest.get("confirming", 0)
            return {**item.budget, "sampler": searched_by(str(sampler), trials - confirming, LAG)}
    return item.budget


def recommend(
    known: Sequence[Tuned],
    dataset: str,
    level: str,
    algorithm: str | None = None,
    model: str | None = None,
    clients: int | None = None,
) -> Recommendation:
    """Return the best by validation score of the nearest scenario, adapted to the scenario asked for, and to so many
    clients. Without an algorithm, of all that leaderboards rank; without a model, of any model.

    Raises `UserError` on unknown names, and when nothing known belongs to the data set's task.
    """
    if clients is not None and not 1 <= clients < 2**63:
        raise UserError(f"--clients {clients}: must be at least 1, and below 2^63")
    name = algorithms.canonical(algorithm) if algorithm else None
    dataset, level = SPELLING["dataset"](dataset), SPELLING["heterogeneity"](level)
    model = SPELLING["model"](model) if model else None
    apart = []
    for item in known:
        if _is_asked_for(item, name, level):
            # Without a model each configuration is as near as if its own had been asked for.
            away = distance(Scenario(dataset, model or item.model, level), item.scenario)
            apart.append((away, item))
    ranked = sorted(
        (pair for pair in apart if math.isfinite(pair[0].total)),
        key=lambda pair: (pair[0].total, pair[1].loss, pair[1].algorithm, pair[1].model),
    )
    if not ranked:
        what = f"of {name} " if name else ""
        raise UserError(
            f"no tuned configuration {what}fits {dataset}: see `suite tuned list`, make one with "
            "`suite sweep`, or add some with `suite tuned import`"
        )
    away, best = ranked[0]
    there = {item.algorithm for _, item in ranked if item.scenario == best.scenario}
    others: dict[Scenario, tuple[Distance, Tuned]] = {}
    for pair in ranked:
        others.setdefault(pair[1].scenario, pair)
    del others[best.scenario]
    wanted = {"algorithm": name, "dataset": dataset, "model": model, "heterogeneity": level}
    adapted, changes = adapt(best, Scenario(dataset, model or best.model, level), clients)
    further = tuple(others.values())[:OTHERS]
    return Recommendation(wanted, best, adapted, changes, away, len(there), further)


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


def adapt(
    item: Tuned, wanted: Scenario, clients: int | None = None
) -> tuple[Tuned, tuple[str, ...]]:
    """Return a configuration for another scenario, and what was changed of it in words. As many clients take part in a
    round as did where it was tuned; how a round is computed is left to the new model. Scores, which are of the other
    scenario, are left out.
    """
    old = item.settings
    new: dict[str, Any] = {}
    if clients is not None:
        new["clients"] = clients
    elif wanted.heterogeneity.startswith("natural"):
        new["clients"] = None
    if old.clients and clients not in (None, old.clients):
        selected = max(1, round(old.participation * old.clients))
        new["participation"] = float(f"{min(1.0, selected / clients):.6g}")
    if wanted.model != item.model:
        new |= {"execution": None, "chunk": None}
    settings = Settings(**{**old.model_dump(), **new})
    pairs = [(part, getattr(item, part), name) for part, name in wanted.names().items()]
    pairs += [(key, getattr(old, key), getattr(settings, key)) for key in new]
    changes = [f"{key} {_said(was)} -> {_said(now)}" for key, was, now in pairs if was != now]
    if not changes:
        return item, ()
    provenance = {"adapted_from": str(item.scenario), **item.provenance}
    content = {**item.model_dump(), **wanted.names(), "settings": settings, "scores": {}}
    changes.append(f"its scores, those of {item.scenario}, are left out")
    return Tuned(**{**content, "provenance": provenance}), tuple(changes)


def _said(value: Any) -> str:
    return "as many as there are" if value is None else str(value)
