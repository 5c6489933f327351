"""What an entry's configurations are judged by, besides one validation score: costs that are bounded or
traded against it, further seeds, and several cells at once.

Everything here is computed from what an `End` holds: validation scores and counters, no test metric.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from trials.settings import Number, Positive

SamplerName = Literal["tpe", "gp", "cmaes", "random", "grid", "nsga2"]

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


class Joint(BaseModel):
    """Cells that differ only in what is named in `over` share one configuration, judged by the mean
    over the cells of its `rank` among the trials, or of its `score` scaled to [0, 1] within each.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    over: Annotated[list[Literal["datasets", "models", "heterogeneity"]], Field(min_length=1)]
    by: Literal["rank", "score"] = "rank"


class SearchSettings(BaseModel):
    """How a study searches its entries and judges their configurations; docs/search.md has the details.

    `target` is a score: of tests for "rounds to target", of validation for `rounds_to_target`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sampler: SamplerName = "tpe"
    scheduler: Literal["none", "asha", "hyperband", "median", "pbt"] = "none"
    grid_points: Positive = 5
    pareto: Cost | None = None
    constraints: dict[Cost, Bound] = {}
    confirm: Confirm | None = None
    joint: Joint | None = None
    warm_start: str | None = None
    target: Annotated[float, Number, Field(allow_inf_nan=False)] | None = None

    @property
    def traded(self) -> Cost | None:
        """The cost that is an objective beside the score; NSGA-II always has one."""
        return "uploaded_bytes" if self.pareto is None and self.sampler == "nsga2" else self.pareto

    @property
    def costs(self) -> set[str]:
        """The costs that are bounded or traded against the score."""
        return {*self.constraints, *filter(None, [self.traded])}

    def contradictions(self) -> Iterator[tuple[str, Any, str]]:
        """Settings that do not go together: key, value, rule."""
        if self.traded and self.sampler == "cmaes":
            yield "sampler", "cmaes", f"has one objective, and `pareto: {self.traded}` is a second"
        if self.traded and self.scheduler != "none":
            rule = "with two objectives no trial can be stopped early, or replaced: none"
            yield "scheduler", self.scheduler, rule
        if self.traded and self.confirm:
            yield "confirm", None, "chooses one configuration, but two objectives have a front"
        if "rounds_to_target" in self.costs and self.target is None:
            yield "target", None, "is needed by rounds_to_target: a validation score"
        if self.joint and (self.traded or self.sampler in ("cmaes", "nsga2")):
            yield "joint", None, "is searched by tpe, gp, random or grid, for one objective"
        if self.joint and self.scheduler != "none":
            rule = "a joint configuration needs its scores in all of its cells: none"
            yield "scheduler", self.scheduler, rule
