"""What a trial gets, and how many run at once."""

import math
from dataclasses import dataclass, fields
from typing import Any, Self

from trials.common.errors import UserError
from trials.common.machine import usable_cpus

LEAST_CPUS = 0.1
"""Of a processor, that a trial is given: a smaller part is no measure of what it takes."""
ABOVE = math.nextafter(0, 1)
LIMITS = {
    "cpus_per_trial": (LEAST_CPUS, f"at least {LEAST_CPUS:g}"),
    "gpus_per_trial": (0.0, "0 or more"),
    "memory_per_trial": (ABOVE, "more than 0 GB"),
    "memory_budget": (ABOVE, "more than 0 GB"),
    "checkpoint_seconds": (0.0, "0 or more"),
    "max_concurrent": (1, "a whole number, 1 or more"),
}
"""The least that each may be, and the rule in words."""
OPTIONAL = ("memory_per_trial", "memory_budget", "max_concurrent")


@dataclass(frozen=True)
class Resources:
    """What a trial gets, how many run at once (default: what fits), and where.

    `memory_per_trial` in GB replaces the estimate; `memory_budget` in GB is what a trial's clients
    that are computed at once may take of it (`trials.common.memory.memory_budget`). `address` is a running
    cluster's (`host:port`, `ray://host:port`, `auto`); None starts one on this machine, as does `local`.
    `checkpoint_seconds` is how often a trial writes its checkpoint.

    Raises `UserError` for numbers by which nothing can run, and for more than one GPU a trial.
    """

    cpus_per_trial: float = 1.0
    gpus_per_trial: float = 0.0
    max_concurrent: int | None = None
    memory_per_trial: float | None = None
    address: str | None = None
    checkpoint_seconds: float = 60.0
    memory_budget: float | None = None

    @classmethod
    def taken(cls, given: dict[str, Any], address: str | None = None) -> Self:
        """Return those among the keys that are given, which are taken out of `given`."""
        own = {field.name for field in fields(cls)} & given.keys()
        return cls(**{"address": address} | {name: given.pop(name) for name in own})

    @property
    def trial_bytes(self) -> int | None:
        """`memory_per_trial` in bytes."""
        return None if self.memory_per_trial is None else round(self.memory_per_trial * 1e9)

    @property
    def budget_bytes(self) -> int | None:
        """`memory_budget` in bytes."""
        return None if self.memory_budget is None else round(self.memory_budget * 1e9)

    @property
    def joins(self) -> bool:
        """Whether there is a running cluster to join."""
        return self.address not in (None, "", "local")

    def __post_init__(self) -> None:
        for name, (least, rule) in LIMITS.items():
            value = getattr(self, name)
            if value is None and name in OPTIONAL:
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool)
            whole = name != "max_concurrent" or (number and value % 1 == 0)
            if not number or not least <= value < math.inf or not whole:
                raise UserError(f"{name} is {value}, but must be {rule}")
        if self.gpus_per_trial > 1:
            raise UserError(
                f"gpus_per_trial is {self.gpus_per_trial:g}, but must be at most 1: a trial computes on "
                "one GPU, or a part of one"
            )

    def need(self, memory: int) -> dict[str, float]:
        """Return the resources that Ray sets aside for a trial that takes `memory` bytes."""
        need = {"CPU": self.cpus_per_trial, "GPU": self.gpus_per_trial, "memory": float(memory)}
        return {name: amount for name, amount in need.items() if amount}


def local_slots(resources: Resources) -> int:
    """Return how many trials would run at once here, by the number of CPUs."""
    return resources.max_concurrent or max(1, int(usable_cpus() // resources.cpus_per_trial))
