"""What Ray Tune hands to the process of a trial: written by the driver, read by the trainable."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, with_config

from trials.run.spec import TrialSpec

PACK = "pack"
"""The one key of Tune's `config`."""


@with_config(ser_json_inf_nan="constants")
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


_PACK = TypeAdapter(dict[str, TrialConfig])


def packed(configs: Mapping[str, TrialConfig]) -> dict[str, str]:
    """Return Tune's `config` of trials by id: one string, since Tune copies, flattens and prints what is in it, and keeps
    several copies for good.
    """
    return {PACK: _PACK.dump_json(dict(configs), exclude_defaults=True).decode()}


def unpacked(config: Mapping[str, Any]) -> dict[str, TrialConfig]:
    """Read Tune's `config`."""
    return _PACK.validate_json(config[PACK])
