"""An entry: one algorithm in one scenario of a study; what is asked, and what a trial of it runs."""

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from suite.studies.space import Space, Stated
from trials import algorithms
from trials.algorithm import Algorithm
from trials.run.spec import Scenario, TrialSpec, away, outside
from trials.scoring.metrics import Task
from trials.settings import Settings


@dataclass(frozen=True)
class Entry:
    """One question: how good can this algorithm get on this data set, model and level?"""

    algorithm: str
    scenario: Scenario
    settings: Settings
    space: Space
    known: tuple[Stated, ...]
    task: Task
    constraints: Mapping[str, float] = field(default_factory=dict)
    implied: Mapping[str, Any] = field(default_factory=dict)
    """What the method's paper implies for the default configuration here, instead of the algorithm's defaults."""

    @property
    def _cls(self) -> type[Algorithm]:
        return algorithms.resolve(self.algorithm)

    @property
    def paper(self) -> str:
        """The algorithm's source."""
        return self._cls.paper

    def _under(self, params: Mapping[str, Any] | None) -> Settings:
        """Return the settings of a configuration, by default of the default configuration."""
        return self.spec(params or self.space.default(), 0, self.settings.partition_seed).settings

    def outside(self, params: Mapping[str, Any] | None = None) -> str:
        """Say how a configuration's settings are not those that the algorithm's paper assumes; "" where they are."""
        return outside(self._cls, self._under(params))

    @property
    def away(self) -> str:
        """What the default configuration lacks of the experiments of the algorithm's paper; "" where it lacks nothing."""
        return away(self._cls, self._under(None), self.scenario.heterogeneity)

    @property
    def unscored(self) -> bool:
        """Return whether its clients keep models that no score is of: whoever wrote its `personal` left `scored` as it was."""
        owner = next(cls for cls in self._cls.__mro__ if "personal" in vars(cls))
        own = owner is not Algorithm and "scored" not in vars(owner)
        return own and self.settings.metric != "personal"

    def reference(self, params: Mapping[str, Any] | None = None) -> bool:
        """Return whether a configuration, by default the default configuration, is shown without a rank."""
        beside = self._cls.reference and self._cls.ranked_under != self.settings.metric
        return beside or bool(self.outside(params))

    @cached_property
    def id(self) -> str:
        """A hash of all that decides what is asked: not of budgets, seeds and how it is executed."""
        apart = {"data_seed", "partition_seed", "execution", "chunk"}
        fixed = self.settings.model_dump(exclude=apart, exclude_defaults=True)
        content = [self.algorithm, *self.scenario, fixed, self.space.describe()]
        if self.constraints:
            content.append({"constraints": dict(self.constraints)})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """Readable: `folb · digits · logreg · dirichlet(0.3)`."""
        return f"{self.label} · {self.scenario}"

    def about(self) -> dict[str, str]:
        """Return the parts of its name, and what it is ranked by, as plain data."""
        return {"algorithm": self.algorithm, **self.scenario.names(), "metric": self.task.metric}

    @property
    def label(self) -> str:
        """The algorithm's short name; a third party's class name."""
        return algorithms.label(self.algorithm)

    @property
    def stops(self) -> tuple[int, ...]:
        """Rounds at which early stopping decides: gap, 3 gap, 9 gap, ... below the last round."""
        gap, rounds = self.settings.evaluation_gap, self.settings.rounds
        return tuple(itertools.takewhile(lambda r: r < rounds, (gap * 3**k for k in range(64))))

    def spec(
        self, params: Mapping[str, Any], seed: int, partition_seed: int, split: int = 0
    ) -> TrialSpec:
        """Return the trial that runs these params, on a split of the data; names that are settings go there."""
        own = {k: v for k, v in params.items() if k in self._cls.ranges()}
        shared = {k: v for k, v in params.items() if k not in own}
        settings = {**self.settings.model_dump(), **shared, "partition_seed": partition_seed}
        settings["data_seed"] += split
        return TrialSpec(
            algorithm=self.algorithm,
            params=own,
            **self.scenario.names(),
            settings=Settings(**settings),
            seed=seed,
        )
