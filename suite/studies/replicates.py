"""The replicates of an entry: how often it is tuned anew, and on how many partitions and splits of the data.

A replicate is one independent search with its own winner and its own final runs. What it draws is a
function of (study seed, replicate, entry), the same for all algorithms as far as they share it:

    run seeds:       study seed + tuning 10^4 + partition 10^7 + split 10^10
    partition seed:  the study's + partition
    data seed:       the study's + split, which is what the validation samples are drawn by
"""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Self

TUNING_SEEDS, PARTITION_SEEDS, SPLIT_SEEDS = 10**4, 10**7, 10**10
"""The distances between run seeds of neighbouring tunings, partitions and splits."""
MOST = 99
"""The most levels of a factor, and tunings' seeds stay below those of confirming runs."""
_NAME = re.compile(r"(?:v(?P<split>\d+))?(?:d(?P<partition>\d+))?(?:t(?P<tuning>\d+))?")


@dataclass(frozen=True, order=True)
class Replicate:
    """Which split, partition and tuning a search is of, each counted from 0."""

    split: int = 0
    partition: int = 0
    tuning: int = 0

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read a name; raises `ValueError` for anything else."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"{name!r} is not the name of a replicate")
        return cls(**{key: int(text) for key, text in match.groupdict().items() if text})

    @property
    def name(self) -> str:
        """`t2`, `d1`, `v1d1t2`; "" for the first."""
        parts = (("v", self.split), ("d", self.partition), ("t", self.tuning))
        return "".join(f"{letter}{level}" for letter, level in parts if level)

    @property
    def words(self) -> tuple[int, ...]:
        """Words that seed a sampler, besides the study's seed and the entry; none for the first."""
        return (self.split, self.partition, self.tuning) if self.name else ()

    @property
    def seed(self) -> int:
        """The distance of its run seeds from the first replicate's."""
        return (
            self.tuning * TUNING_SEEDS + self.partition * PARTITION_SEEDS + self.split * SPLIT_SEEDS
        )


FIRST = Replicate()


def replicates(tunings: int, partitions: int, splits: int) -> list[Replicate]:
    """All replicates of a study, in the order in which trials are handed out: the first of each kind first."""
    levels = itertools.product(range(tunings), range(partitions), range(splits))
    return [Replicate(split, partition, tuning) for tuning, partition, split in levels]


def replicates_of(study: Mapping[str, Any]) -> int:
    """Return how often each entry of a study is searched. The study is plain data, without values that are 1."""
    return prod(int(study.get(factor, 1)) for factor in ("tunings", "partitions", "splits"))


def finals_of(study: Mapping[str, Any]) -> int:
    """Return the number of final runs of each entry of a study, in all of its replicates."""
    return int(study["seeds"]) * replicates_of(study)


def confirms_of(study: Mapping[str, Any]) -> int:
    """Return the number of runs that confirm the best configurations of each entry of a study, in all of its replicates."""
    confirm = study.get("confirm") or {"best": 0, "seeds": 0}
    return int(confirm["best"] * confirm["seeds"]) * replicates_of(study)
