"""The resources of a trial, and the number of trials that run at once."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from trials.common.errors import UserError
from trials.common.machine import usable_cpus

Gigabytes = Annotated[FiniteFloat, Field(gt=0)] | None


class Resources(BaseModel):
    """The resources of a trial, the number of trials at once (default: as many as fit), and the cluster to run them on.

    `memory_per_trial` (GB) replaces the estimate. `memory_budget` (GB) is for the clients that a trial computes at once.
    `address` is that of a running cluster (`host:port`, `ray://host:port` or `auto`); with None or `local` one is started
    on this machine. `checkpoint_seconds` is the time between checkpoints of a trial. Raises `UserError` for a number that
    is out of range, such as more than one GPU per trial.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    cpus_per_trial: FiniteFloat = Field(1.0, ge=0.1)  # no trial gets by with less
    gpus_per_trial: FiniteFloat = Field(0.0, ge=0, le=1)
    max_concurrent: int | None = Field(None, ge=1)
    memory_per_trial: Gigabytes = None
    address: str | None = None
    checkpoint_seconds: FiniteFloat = Field(60.0, ge=0)
    memory_budget: Gigabytes = None

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            fault = error.errors()[0]
            rule = fault["msg"].removeprefix("Input should be ")
            raise UserError(f"{fault['loc'][0]} is {fault['input']}, but must be {rule}") from None

    @classmethod
    def taken(cls, values: dict[str, Any], address: str | None = None) -> Self:
        """Return the resources in a sweep's options `values`, and remove these options."""
        names = cls.model_fields.keys() & values.keys()
        return cls(**{"address": address} | {name: values.pop(name) for name in names})

    @property
    def trial_bytes(self) -> int | None:
        """Return the option `memory_per_trial` in bytes, or None if it is not set."""
        return None if self.memory_per_trial is None else round(self.memory_per_trial * 1e9)

    @property
    def budget_bytes(self) -> int | None:
        """Return the option `memory_budget` in bytes, or None if it is not set."""
        return None if self.memory_budget is None else round(self.memory_budget * 1e9)

    @property
    def joins(self) -> bool:
        """Return whether trials run on an existing cluster, instead of a new one on this machine."""
        return self.address not in (None, "", "local")

    def need(self, memory: int) -> dict[str, float]:
        """Return the amounts that Ray reserves for a trial of `memory` bytes, by resource name. Amounts of 0 are left out."""
        need = {"CPU": self.cpus_per_trial, "GPU": self.gpus_per_trial, "memory": float(memory)}
        return {name: amount for name, amount in need.items() if amount}


def local_slots(resources: Resources) -> int:
    """Return how many trials run at once on this machine, at least 1. If `max_concurrent` is not set, the CPUs decide."""
    return resources.max_concurrent or max(1, int(usable_cpus() // resources.cpus_per_trial))
