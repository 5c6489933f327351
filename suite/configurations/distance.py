"""How near two scenarios are, for configurations that are reused where they were not tuned.

The distance between two scenarios is the sum of three parts, each 0 for equal names:

- dataset: 0.25 for one family with other arguments (`synthetic(0,0)`, `synthetic(1,1)`), 0.5 for
  another of the same `kind`, 1 for another kind, infinite where the task is another;
- model: the same rule (`mlp` and `mlp(100,100)` are 0.25 apart, `logreg` and `linear` 0.5);
- heterogeneity: how far apart the label skews are (`skew`), 0.5 where one is `natural`; 0.05 for
  another partition rule, 0.01 for the same one with other arguments; and for each modifier (`+sizes`,
  `+system`, ...) 0.1 where only one has it, 0.05 where its arguments differ.

Each part is symmetric and obeys the triangle inequality. A learning rate depends on more than this (rounds, clients,
local work), so a recommendation names its settings as well.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from suite.configurations.configuration import Tuned
from trials import datasets, heterogeneity
from trials.common import names, plugins
from trials.run.scenario import Scenario

LABELS = 10
"""The number of labels that skews are computed for: a level has no data of its own."""
MODEL_KINDS: dict[str, tuple[str, ...]] = {
    "linear": ("logreg", "linear"),
    "small convolutional": (
        "lenet5",
        "lenet5_fedagg",
        "mcmahan_cnn",
        "cifar10_cnn",
        "feddc_cnn",
    ),
    "deep convolutional": (
        "vgg_light",
        "torchvision:vgg11",
        "torchvision:resnet18",
        "torchvision:alexnet",
        "torchvision:googlenet",
        "torchvision:densenet121",
    ),
    "recurrent": ("char_lstm", "sent_lstm"),
}
"""Models that resemble each other. A name that is in no kind resembles only itself."""


@dataclass(frozen=True)
class Distance:
    """The three parts of a distance."""

    dataset: float
    model: float
    heterogeneity: float

    @property
    def total(self) -> float:
        """The sum of the parts; infinite between tasks."""
        return self.dataset + self.model + self.heterogeneity

    def __str__(self) -> str:
        """The distance in words: `0.55 away (dataset 0.50, heterogeneity 0.05)`, or `the same scenario`."""
        if self.total == 0:
            return "the same scenario"
        parts = ", ".join(f"{name} {part:.2f}" for name, part in vars(self).items() if part)
        return f"{self.total:.2f} away ({parts})"


def nearest(wanted: Scenario, found: Iterable[Tuned]) -> list[tuple[Distance, Tuned]]:
    """`found` with their distances from `wanted`, nearest first; equally near ones keep their order.
    Those of another task are left out.
    """
    pairs = [(distance(wanted, item.scenario), item) for item in found]
    reachable = [pair for pair in pairs if math.isfinite(pair[0].total)]
    return sorted(reachable, key=lambda pair: pair[0].total)


def distance(a: Scenario, b: Scenario) -> Distance:
    """The distance between two places with canonical names, by the rule of the module."""
    mine, theirs = datasets.parse(a.dataset), datasets.parse(b.dataset)
    alike = mine.kind != "" and mine.kind == theirs.kind
    between = _apart(a.dataset, b.dataset, alike) if mine.task == theirs.task else math.inf
    kinds = MODEL_KINDS.values()
    alike = any({_bare(a.model), _bare(b.model)} <= {*kind} for kind in kinds)
    levels = _levels_apart(a.heterogeneity, b.heterogeneity)
    return Distance(between, _apart(a.model, b.model, alike), levels)


def skew(level: str) -> float | None:
    """What its partition says (`Partition.skew`), of `LABELS` labels; None where it depends on the data, and for
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
            skews = 0.0
        case (None, _) | (_, None):
            skews = 0.5
        case (one, other):
            skews = abs(one - other)
    (rule_a, *rest_a), (rule_b, *rest_b) = names.split_top(a, "+"), names.split_top(b, "+")
    ours, yours = ({_bare(modifier): modifier for modifier in rest} for rest in (rest_a, rest_b))
    changed = sum(0.05 for m in ours.keys() & yours.keys() if ours[m] != yours[m])
    missing = 0.1 * len(ours.keys() ^ yours.keys())
    rules = 0.05 if _bare(rule_a) != _bare(rule_b) else 0.01 * (rule_a != rule_b)
    return skews + rules + changed + missing


def _apart(a: str, b: str, alike: bool) -> float:
    """The distance between the names of two data sets, or of two models, of one task."""
    if a == b:
        return 0.0
    if _bare(a) == _bare(b):
        return 0.25
    return 0.5 if alike else 1.0


def _bare(name: str) -> str:
    """A name without its arguments; what a person brought along (`npz:PATH`) is all name."""
    return name if ":" in name else name.split("(")[0]
