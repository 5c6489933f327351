"""How near two scenarios are, for configurations that are reused where they were not tuned.

The distance between two scenarios is the sum of three parts, each 0 for equal names:

- dataset: 0.25 for one family with other arguments (`synthetic(0,0)`, `synthetic(1,1)`), 0.5 for
  another of the same kind (`KINDS`), 1 for another kind, infinite where the task is another;
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
from statistics import fmean
from typing import Any, Protocol, TypeVar

from trials import datasets, heterogeneity
from trials.common import names
from trials.common.lazy import Lazy
from trials.run.scenario import Scenario

special = Lazy("scipy.special")

LABELS = 10
"""The number of labels that skews are computed for: a level has no data of its own."""
KINDS: dict[str, tuple[str, ...]] = {
    "grey images": (
        "digits",
        "mnist",
        "fashion_mnist",
        "mnist01",
        "fashion_mnist01",
        "emnist_letters",
        "emnist_byclass",
        "femnist",
        "femnist10",
    ),
    "colour images": ("cifar10", "cifar100"),
    "generated features": ("synthetic", "synthetic_iid", "feddc_synthetic"),
    "text": ("shakespeare", "sent140", "sent140_bow", "speeches"),
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
        "vgg11",
        "resnet18",
        "alexnet",
        "googlenet",
        "densenet121",
    ),
    "recurrent": ("char_lstm", "sent_lstm"),
}
"""Data sets and models that resemble each other. A name that is in no kind resembles only itself."""


class InScenario(Protocol):
    """What is for a place."""

    @property
    def scenario(self) -> Scenario:
        """Its address."""


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


T = TypeVar("T", bound=InScenario)


def nearest(
    wanted: Scenario, found: Iterable[T], measured: float | None = None
) -> list[tuple[Distance, T]]:
    """`found` with their distances from `wanted`, nearest first; equally near ones keep their order.
    Those of another task are left out. `measured` is the skew of `wanted` where its level has none.
    """
    pairs = [(distance(wanted, item.scenario, measured), item) for item in found]
    reachable = [pair for pair in pairs if math.isfinite(pair[0].total)]
    return sorted(reachable, key=lambda pair: pair[0].total)


def distance(a: Scenario, b: Scenario, measured: float | None = None) -> Distance:
    """The distance between two places with canonical names, by the rule of the module; `measured` is the
    skew of `a` where its level is `natural`, if it is known.
    """
    if datasets.parse(a.dataset).task != datasets.parse(b.dataset).task:
        between = math.inf
    else:
        between = _apart(a.dataset, b.dataset)
    levels = _levels_apart(a.heterogeneity, b.heterogeneity, measured)
    return Distance(between, _apart(a.model, b.model), levels)


def skew(level: str) -> float | None:
    """Expected total variation between a client's label shares and even ones, for C = `LABELS`
    labels; None for `natural`, which depends on the data.

    iid: 0. labels(c), shards(c), gaussian(labels=c): 1 - c / C, for a range of c their mean; groups:
    the same for its two sets of labels, weighted by their shares of the clients. dirichlet(a) and
    dirichlet_by_class(a): (C / 2) E|p - 1/C| with p ~ Beta(a, b), b = (C - 1) a, which is
    I_{1/C}(a, b) - I_{1/C}(a + 1, b), I the regularised incomplete beta function.
    """
    kind, partition = _partition(level)
    if kind == "iid":
        return 0.0
    if kind in ("labels", "shards", "gaussian"):
        held = {"labels": "c", "shards": "s", "gaussian": "labels"}[kind]
        count = getattr(partition, held)
        least, most = count if isinstance(count, tuple) else (count, count)
        return fmean(_held(c) for c in range(int(least), int(most) + 1))
    if kind == "groups":
        first, second = _held(len(partition.first)), _held(len(partition.second))
        return float(partition.share * first + (1 - partition.share) * second)
    if kind in ("dirichlet", "dirichlet_by_class"):
        a = min(max(partition.a, 1e-9), 1e9)  # beyond, the limits; and betainc gives up at 1e300
        b = (LABELS - 1) * a
        return float(special.betainc(a, b, 1 / LABELS) - special.betainc(a + 1, b, 1 / LABELS))
    return None


def _held(count: int) -> float:
    """The skew of a client that holds `count` labels alike."""
    return max(0.0, 1 - count / LABELS)


def _partition(level: str) -> tuple[str, Any]:
    """The partition's bare name, and the partition."""
    text = names.split_top(level, "+")[0]
    return _bare(text), names.parse("heterogeneity", text, heterogeneity.PARTITIONS)


def _levels_apart(a: str, b: str, measured: float | None) -> float:
    if a == b:
        return 0.0
    mine = skew(a)
    match measured if mine is None else mine, skew(b):
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


def _apart(a: str, b: str) -> float:
    """The distance between the names of two data sets, or of two models, of one task."""
    if a == b:
        return 0.0
    if _bare(a) == _bare(b):
        return 0.25
    alike = any(_bare(a) in kind and _bare(b) in kind for kind in KINDS.values())
    return 0.5 if alike else 1.0


def _bare(name: str) -> str:
    """A name without its arguments; what a person brought along (`npz:PATH`) is all name."""
    return name if ":" in name else name.split("(")[0]
