"""What a trial gets, and how many run at once."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from trials.common.errors import UserError
from trials.common.machine import usable_cpus

Gigabytes = Annotated[FiniteFloat, Field(gt=0)] | None


class Resources(BaseModel):
    """What a trial gets, how many run at once (default: what fits), and where.

    `memory_per_trial` in GB replaces the estimate, `memory_budget` in GB is for the clients that a trial computes at once.
    `address` is a running cluster's (`host:port`, `ray://host:port`, `auto`); None starts one on this machine, as does
    `local`. `checkpoint_seconds` is how often a trial writes its checkpoint. Raises `UserError` for numbers with which
    nothing can run, and for more than one GPU per trial.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    cpus_per_trial: FiniteFloat = Field(1.0, ge=0.1)  # less is no measure of what it takes
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
        """Take the resources out of a study's values, and return them."""
        names = cls.model_fields.keys() & values.keys()
        return cls(**{"address": address} | {name: values.pop(name) for name in names})

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

    def need(self, memory: int) -> dict[str, float]:
        """Return the resources that Ray sets aside for a trial that takes `memory` bytes."""
        need = {"CPU": self.cpus_per_trial, "GPU": self.gpus_per_trial, "memory": float(memory)}
        return {name: amount for name, amount in need.items() if amount}


def local_slots(resources: Resources) -> int:
    """Return how many trials would run at once here, by the number of CPUs."""
    return resources.max_concurrent or max(1, int(usable_cpus() // resources.cpus_per_trial))
