"""The replicates of an entry: how often it is tuned again, and on how many partitions and splits of the data.

A replicate is an independent search with its own winner and its own final runs. Its draws depend only on the study's seed,
the replicate and the entry. All algorithms have the same seeds:

    run seeds:       study seed + tuning 10^4 + partition 10^7 + split 10^10
    partition seed:  the study's + partition
    data seed:       the study's + split, by which the validation samples are drawn
"""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Self

TUNING_SEEDS, PARTITION_SEEDS, SPLIT_SEEDS = 10**4, 10**7, 10**10
"""The distances between the run seeds of successive tunings, partitions and splits."""
MOST = 99
"""The most tunings, partitions or splits. The seeds of more tunings would reach those of confirming runs."""
_NAME = re.compile(r"(?:v(?P<split>\d+))?(?:d(?P<partition>\d+))?(?:t(?P<tuning>\d+))?")


@dataclass(frozen=True, order=True)
class Replicate:
    """The numbers of the split, the partition and the tuning of a search, each counted from 0."""

    split: int = 0
    partition: int = 0
    tuning: int = 0

    @classmethod
    def parse(cls, name: str) -> Self:
        """Return the replicate with a name such as `v1d1t2`. Raise `ValueError` for any other text."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"{name!r} is not the name of a replicate")
        return cls(**{key: int(text) for key, text in match.groupdict().items() if text})

    @property
    def name(self) -> str:
        """Return the name, such as `v1d1t2` for split 1, partition 1 and tuning 2. The name omits parts with number 0."""
        parts = (("v", self.split), ("d", self.partition), ("t", self.tuning))
        return "".join(f"{letter}{level}" for letter, level in parts if level)

    @property
    def words(self) -> tuple[int, ...]:
        """Return the integers that seed a sampler, besides the study's seed and the entry. They are () for the first replicate."""
        return (self.split, self.partition, self.tuning) if self.name else ()

    @property
    def seed(self) -> int:
        """Return the number by which this replicate's run seeds exceed the first replicate's run seeds."""
        return (
            self.tuning * TUNING_SEEDS + self.partition * PARTITION_SEEDS + self.split * SPLIT_SEEDS
        )


FIRST = Replicate()


def replicates(tunings: int, partitions: int, splits: int) -> list[Replicate]:
    """Return all replicates of a study in a fixed order: splits vary fastest, tunings slowest."""
    levels = itertools.product(range(tunings), range(partitions), range(splits))
    return [Replicate(split, partition, tuning) for tuning, partition, split in levels]


def replicates_of(study: Mapping[str, Any]) -> int:
    """Return how many replicates each entry of a study has: tunings x partitions x splits. A missing key counts as 1."""
    return prod(int(study.get(factor, 1)) for factor in ("tunings", "partitions", "splits"))


def finals_of(study: Mapping[str, Any]) -> int:
    """Return how many final runs each entry of a study has in all replicates together."""
    return int(study["seeds"]) * replicates_of(study)


def confirms_of(study: Mapping[str, Any]) -> int:
    """Return how many confirming runs (repeats of its best trials) each entry of a study has in all replicates together."""
    confirm = study.get("confirm") or {"best": 0, "seeds": 0}
    return int(confirm["best"] * confirm["seeds"]) * replicates_of(study)
