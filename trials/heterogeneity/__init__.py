"""Heterogeneity levels: which client holds which samples, how much work devices do, how fast, and which of them answer.

A level is written `PARTITION[+MODIFIER...]`, such as `dirichlet(0.3)+system(steps=1..20)`. A new partition or modifier is
one class and one entry of `PARTITIONS` or `MODIFIERS`, or one class in a file elsewhere (examples/own_partition.py).
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
"""Modifiers in the order in which a level spells and applies them; those of users follow in alphabetical order."""

TIMES = np.ndarray | np.number | float | int
"""The types of the seconds, or factors of seconds, that a modifier may return."""


@dataclass(frozen=True)
class Heterogeneity:
    """A parsed heterogeneity level. `name` is its canonical text, `dealing` the part of this text that assigns samples to clients."""

    name: str
    dealing: str
    partition: Partition
    modifiers: tuple[Modifier, ...] = ()

    @property
    def changes_work(self) -> bool:
        """Return whether devices do different amounts of local work."""
        return any(modifier.changes_work for modifier in self.modifiers)

    def unseen(self, clients: int, rng: np.random.Generator) -> Array:
        """Return the sorted ids of clients that take no part in training. Ids are from 0 to `clients` - 1."""
        unseen = [plugins.hook(m, "unseen", np.ndarray, clients, rng) for m in self.modifiers]
        return np.unique(np.concatenate([np.empty(0, np.int64), *unseen]))

    def local_steps(
        self, planned: Array, per_epoch: Array, ids: Array, round_index: int, seed: int
    ) -> Array:
        """Return the local steps (k,) that clients `ids` (k,) do in a round. The study plans `planned` (k,) steps, and one
        pass over a client's data takes `per_epoch` (k,) steps.
        """
        for modifier in self.modifiers:
            arguments = planned, per_epoch, ids, round_index, seed
            planned = plugins.hook(modifier, "local_steps", np.ndarray, *arguments)
        deadline = min((modifier.deadline for modifier in self.modifiers), default=math.inf)
        if deadline == math.inf:
            return planned
        # The same times as those that `seconds` counts, with all modifiers' effects.
        pace, waiting = self._times(ids, seed)
        return np.clip(np.floor((deadline - waiting) / pace), 1, planned).astype(np.int64)

    def seconds(self, steps: Array, ids: Array, seed: int) -> Array:
        """Return clients' simulated seconds (k,) in a round: for `steps` (k,) local steps and other work, such as communication."""
        pace, waiting = self._times(ids, seed)
        return steps * pace + waiting

    def _times(self, ids: Array, seed: int) -> tuple[Array, Array]:
        """Return each client's simulated seconds for one local step (k,), and for the rest of a round, such as communication (k,)."""
        pace, waiting = np.ones(len(ids)), np.zeros(len(ids))
        for modifier in self.modifiers:
            pace = pace * plugins.hook(modifier, "step_seconds", TIMES, ids, seed)
            waiting = waiting + plugins.hook(modifier, "waiting_seconds", TIMES, ids, seed)
        return pace, waiting

    def answering(self, ids: Array, round_index: int, seed: int) -> Array:
        """Return the ids of the selected clients that answer in a round, out of `ids` (k,). At least one client answers."""
        for modifier in self.modifiers:
            ids = plugins.hook(modifier, "answering", np.ndarray, ids, round_index, seed)
        return ids


def parse(text: str) -> Heterogeneity:
    """Return the heterogeneity level that a text spells. Raise `UserError` for a wrong name, argument or combination."""
    first, *rest = names.split_top(text, "+")
    level, partition = PARTITIONS.read(first)
    parsed: dict[str, tuple[str, Modifier]] = {}
    for part in rest:
        spelled, modifier = MODIFIERS.read(part)
        bare, _ = names.split(spelled)
        if bare in parsed:
            raise UserError(f"heterogeneity {text!r}: +{bare} is given twice")
        parsed[bare] = spelled, modifier
    dealing, applied = level, list[Modifier]()
    # A fixed order, so that each level has one canonical name and one meaning.
    for bare in (*MODIFIERS, *sorted(parsed.keys() - MODIFIERS.keys())):
        if bare not in parsed:
            continue
        spelled, modifier = parsed[bare]
        changed = modifier.applied(partition)
        level += f"+{spelled}"
        if changed is not partition or type(modifier).unseen is not Modifier.unseen:
            dealing += f"+{spelled}"
        partition = changed
        applied.append(modifier)
    return Heterogeneity(level, dealing, partition, tuple(applied))


def grammar() -> str:
    """Return one line for help texts that shows how to write partitions, modifiers and size laws."""
    bases = " | ".join(names.usage(name, cls) for name, cls in PARTITIONS.known().items())
    extras = " ".join(f"+{names.usage(name, cls)}" for name, cls in MODIFIERS.known().items())
    laws = " | ".join(names.usage(name, cls) for name, cls in LAWS.items())
    return f"{bases}, optionally {extras}; law: {laws}"
