"""Heterogeneity levels: how samples reach clients, and what devices manage and when they answer.

A level is written `PARTITION[+MODIFIER...]`, such as `dirichlet(0.3)+system(steps=1..20)`. A new
partition or modifier is one class and one entry of `PARTITIONS` or `MODIFIERS`, or one class in a file elsewhere
(examples/own_partition.py).
"""

import math
from dataclasses import dataclass

import numpy as np

from trials.common import names, plugins
from trials.common.errors import UserError
from trials.common.registry import Registry
from trials.heterogeneity import modifiers, partitions
from trials.heterogeneity.modifiers import LAWS, Modifier
from trials.heterogeneity.partitions import Array, Partition

PARTITIONS: Registry[Partition] = Registry(
    "heterogeneity",
    "suite.partitions",
    Partition,  # type: ignore[type-abstract]
    {
        "iid": partitions.IID,
        "dirichlet": partitions.Dirichlet,
        "dirichlet_by_class": partitions.DirichletByClass,
        "labels": partitions.Labels,
        "shards": partitions.Shards,
        "gaussian": partitions.Gaussian,
        "groups": partitions.Groups,
        "natural": partitions.Natural,
    },
    needs=("assign",),
)
MODIFIERS: Registry[Modifier] = Registry(
    "heterogeneity modifier",
    "suite.modifiers",
    Modifier,
    {
        "sizes": modifiers.Sizes,
        "system": modifiers.System,
        "speed": modifiers.Speed,
        "dropout": modifiers.Dropout,
        "delay": modifiers.Delay,
    },
)
"""In the order in which they are spelled and applied; those from elsewhere follow by their names."""

TIMES = np.ndarray | np.number | float | int
"""The type of devices' seconds that a modifier returns."""


@dataclass(frozen=True)
class Heterogeneity:
    """A parsed level: its canonical `name`, and the part of it that decides who holds which sample, `dealing`."""

    name: str
    dealing: str
    partition: Partition
    modifiers: tuple[Modifier, ...] = ()

    @property
    def changes_work(self) -> bool:
        """Return whether devices do different amounts of local work."""
        return any(modifier.changes_work for modifier in self.modifiers)

    def unseen(self, clients: int, rng: np.random.Generator) -> Array:
        """Return those of the partition's `clients` that take no part in training, ascending."""
        apart = [plugins.hook(m, "unseen", np.ndarray, clients, rng) for m in self.modifiers]
        return np.unique(np.concatenate([np.empty(0, np.int64), *apart]))

    def local_steps(
        self, asked: Array, per_epoch: Array, ids: Array, round_index: int, seed: int
    ) -> Array:
        """Return local steps (k,) of clients `ids` (k,) in a round, as `Modifier.local_steps`."""
        for modifier in self.modifiers:
            arguments = asked, per_epoch, ids, round_index, seed
            asked = plugins.hook(modifier, "local_steps", np.ndarray, *arguments)
        deadline = min((modifier.deadline for modifier in self.modifiers), default=math.inf)
        if deadline == math.inf:
            return asked
        # Each step takes as long as `seconds` counts it, whatever else the level says of the device.
        pace, waiting = self._times(ids, seed)
        return np.clip(np.floor((deadline - waiting) / pace), 1, asked).astype(np.int64)

    def seconds(self, steps: Array, ids: Array, seed: int) -> Array:
        """Return the simulated seconds (k,) of clients `ids` (k,) for local `steps` (k,) and all else of a round."""
        pace, waiting = self._times(ids, seed)
        return steps * pace + waiting

    def _times(self, ids: Array, seed: int) -> tuple[Array, Array]:
        """Return the simulated seconds (k,) of each client's local step, and those of its part in a round beside steps."""
        pace, waiting = np.ones(len(ids)), np.zeros(len(ids))
        for modifier in self.modifiers:
            pace = pace * plugins.hook(modifier, "step_seconds", TIMES, ids, seed)
            waiting = waiting + plugins.hook(modifier, "waiting_seconds", TIMES, ids, seed)
        return pace, waiting

    def answering(self, ids: Array, round_index: int, seed: int) -> Array:
        """Return those of the selected clients `ids` that answer in a round, at least one."""
        for modifier in self.modifiers:
            ids = plugins.hook(modifier, "answering", np.ndarray, ids, round_index, seed)
        return ids


def parse(text: str) -> Heterogeneity:
    """Read a level. Raises `UserError` that shows the nearest known name."""
    first, *rest = names.split_top(text, "+")
    level, partition = PARTITIONS.read(first)
    read: dict[str, tuple[str, Modifier]] = {}
    for part in rest:
        spelled, modifier = MODIFIERS.read(part)
        bare, _ = names.split(spelled)
        if bare in read:
            raise UserError(f"heterogeneity {text!r}: +{bare} is given twice")
        read[bare] = spelled, modifier
    dealing, kept = level, list[Modifier]()
    # One order, so that a level has one name and one meaning.
    for bare in (*MODIFIERS, *sorted(read.keys() - MODIFIERS.keys())):
        if bare not in read:
            continue
        spelled, modifier = read[bare]
        changed = modifier.applied(partition)
        level += f"+{spelled}"
        if changed is not partition or type(modifier).unseen is not Modifier.unseen:
            dealing += f"+{spelled}"
        partition = changed
        kept.append(modifier)
    return Heterogeneity(level, dealing, partition, tuple(kept))


def grammar() -> str:
    """Return one line: how a level is written."""
    bases = " | ".join(names.usage(name, cls) for name, cls in PARTITIONS.known().items())
    added = " ".join(f"+{names.usage(name, cls)}" for name, cls in MODIFIERS.known().items())
    laws = " | ".join(names.usage(name, cls) for name, cls in LAWS.items())
    return f"{bases}, optionally {added}; law: {laws}"
