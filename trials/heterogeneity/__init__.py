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


@dataclass(frozen=True)
class Heterogeneity:
    """A parsed level: its canonical `name`, the part of it that decides which client holds which sample
    (`dealing`), the partition with its sizes, and the modifiers.
    """

    name: str
    dealing: str
    partition: Partition
    modifiers: tuple[Modifier, ...] = ()

    @property
    def changes_work(self) -> bool:
        """Whether devices do different amounts of local work."""
        return any(modifier.changes_work for modifier in self.modifiers)

    @property
    def timed(self) -> bool:
        """Whether it says how fast devices are."""
        return any(modifier.timed for modifier in self.modifiers)

    def unseen(self, clients: int, rng: np.random.Generator) -> Array:
        """Return those of the partition's `clients` that take no part in training, ascending."""
        apart = [modifier.unseen(clients, rng) for modifier in self.modifiers]
        return np.unique(np.concatenate([np.empty(0, np.int64), *apart]))

    def local_steps(
        self, asked: Array, per_epoch: Array, ids: Array, round_index: int, seed: int
    ) -> Array:
        """Return local minibatch steps (k,) of clients `ids` (k,) in a round, where the study asks for
        `asked` (k,) and `per_epoch` (k,) make one pass over the client's data.
        """
        for modifier in self.modifiers:
            arguments = asked, per_epoch, ids, round_index, seed
            asked = plugins.hook(modifier, "local_steps", np.ndarray, *arguments)
        deadline = min((modifier.deadline for modifier in self.modifiers), default=math.inf)
        if deadline == math.inf:
            return asked
        # Each step takes as long as `seconds` counts it, whatever else the level says of the device.
        fit = np.floor((deadline - self._waiting(ids, seed)) / self._pace(ids, seed))
        return np.clip(fit, 1, asked).astype(np.int64)

    def seconds(self, steps: Array, ids: Array, seed: int) -> Array:
        """Return the simulated seconds (k,) of clients `ids` (k,) for local `steps` (k,) and all else of a round."""
        return steps * self._pace(ids, seed) + self._waiting(ids, seed)

    def _pace(self, ids: Array, seed: int) -> Array:
        """Return the simulated seconds (k,) of a local step: one, as modifiers change it."""
        factors = [modifier.step_seconds(ids, seed) for modifier in self.modifiers]
        return np.prod(np.broadcast_arrays(np.ones(len(ids)), *factors), axis=0)

    def _waiting(self, ids: Array, seed: int) -> Array:
        """Return the simulated seconds (k,) of a round that are not local steps."""
        terms = [modifier.waiting_seconds(ids, seed) for modifier in self.modifiers]
        return np.sum(np.broadcast_arrays(np.zeros(len(ids)), *terms), axis=0)

    def answering(self, ids: Array, round_index: int, seed: int) -> Array:
        """Return those of the selected clients `ids` that answer in a round, at least one."""
        for modifier in self.modifiers:
            ids = plugins.hook(modifier, "answering", np.ndarray, ids, round_index, seed)
        return ids


def parse(text: str) -> Heterogeneity:
    """Read a level. Raises `UserError` that shows the nearest known name."""
    first, *rest = names.split_top(text, "+")
    given: dict[str, tuple[str, Modifier]] = {}
    try:
        name, partition = PARTITIONS.read(first)
        for part in rest:
            spelled, modifier = MODIFIERS.read(part)
            bare, _ = names.split(spelled)
            if given.setdefault(bare, (spelled, modifier))[1] is not modifier:
                raise UserError(f"heterogeneity {text!r}: +{bare} is given twice")
    except UserError as error:
        if any(map(plugins.named, (first, *rest))):
            raise
        raise UserError(
            f"{error} (`suite list heterogeneity` says how levels are written)"
        ) from None
    dealing, order = name, [*MODIFIERS, *sorted(given.keys() - MODIFIERS.keys())]
    kept = [given[key] for key in order if key in given]
    for spelled, modifier in kept:
        try:
            changed = modifier.applied(partition)
        except UserError as error:
            raise UserError(f"heterogeneity {text!r}: {error}") from None
        name += f"+{spelled}"
        shapes = changed is not partition or type(modifier).unseen is not Modifier.unseen
        dealing += f"+{spelled}" if shapes else ""
        partition = changed
    return Heterogeneity(name, dealing, partition, tuple(modifier for _, modifier in kept))


def grammar() -> str:
    """Return one line: how a level is written."""
    bases, added, laws = (
        [names.usage(name, cls) for name, cls in registry.items()]
        for registry in (PARTITIONS.known(), MODIFIERS.known(), LAWS)
    )
    return (
        f"{' | '.join(bases)}, optionally {' '.join(f'+{usage}' for usage in added)}; "
        f"law: {' | '.join(laws)}"
    )
