"""What Ray Tune hands to the process of a trial: written by the driver, read by the trainable."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from trials.run.spec import TrialSpec

PACK = "pack"
"""Where the config of a pack has those of its trials, by trial id."""


@dataclass(frozen=True)
class TrialConfig:
    """One trial to run, and how.

    `stops` are rounds at which a scheduler wants to decide, so that each is the last of a step.
    `memory_budget` (bytes) is what clients that are computed at once may take, `members` how many trials
    its process has at most, `need` what Ray sets aside for it. `checkpoint` names the trial's own checkpoint, written every
    `checkpoint_seconds`: a trial whose checkpoint is there continues from it. Its final models go into
    the checkpoint `model`, where they are kept.
    """

    trial: TrialSpec
    stops: tuple[int, ...] = ()
    device: str = "cpu"
    threads: int = 1
    memory_budget: float | None = None
    members: int = 1
    need: Mapping[str, float] = field(default_factory=lambda: {"CPU": 1})
    checkpoint: str | None = None
    checkpoint_seconds: float = 60.0
    model: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for Tune's `config`."""
        return {**vars(self), "trial": self.trial.model_dump(), "stops": list(self.stops)}

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Read Tune's `config`."""
        known = {f.name: config[f.name] for f in fields(cls) if f.name in config}
        return cls(
            **{**known, "trial": TrialSpec(**config["trial"]), "stops": tuple(known["stops"])}
        )
