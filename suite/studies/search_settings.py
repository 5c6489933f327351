"""What an entry's configurations are judged by, besides one validation score: costs that are bounded, and
further seeds.

Everything here is computed from what an `End` holds: validation scores and counters, no test metric.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from suite.studies.samplers import full_name
from trials.settings import Number, Positive

Cost = Literal[
    "uploaded_bytes",
    "downloaded_bytes",
    "peer_bytes",
    "client_steps",
    "gradient_passes",
    "sample_gradients",
    "rounds_to_target",
]
"""Counters at the last round, and the first round whose validation score reaches the study's `target`
(one more than there are rounds where none does).
"""


class Bound(BaseModel):
    """The most that a run may spend."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max: Annotated[float, Number, Field(gt=0, allow_inf_nan=False)]


class Confirm(BaseModel):
    """The `best` configurations of a search run again with `seeds` further search seeds; the one with
    the best mean is chosen.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    best: Annotated[Positive, Field(ge=2)] = 3
    seeds: Positive = 2


class SearchSettings(BaseModel):
    """How a study searches its entries and judges their configurations; docs/search.md has the details.

    `target` is a score: of tests for "rounds to target", of validation for `rounds_to_target`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sampler: Annotated[str, AfterValidator(full_name)] = "tpe"
    scheduler: Literal["none", "asha"] = "none"
    grid_points: Positive = 5
    constraints: dict[Cost, Bound] = {}
    confirm: Confirm | None = None
    warm_start: str | None = None
    target: Annotated[float, Number, Field(allow_inf_nan=False)] | None = None

    def contradictions(self) -> Iterator[tuple[str, Any, str]]:
        """Settings that do not go together: key, value, rule."""
        if "rounds_to_target" in self.constraints and self.target is None:
            yield "target", None, "is needed by rounds_to_target: a validation score"
