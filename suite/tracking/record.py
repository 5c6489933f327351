"""One run of the store, as it is read back."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suite.tracking.schema.inherited import Inherited
from suite.tracking.schema.leaderboard_view import run_page
from suite.tracking.schema.long_texts import whole
from suite.tracking.schema.names import plain
from suite.tracking.schema.tags import PREFIX, RunKind, Tags
from trials.run.outcome import lost

if TYPE_CHECKING:
    from mlflow.entities import Run  # whose environment the store sets first

LARGEST = 1e100
"""Values beyond it mean nothing, and their squares no computer holds."""


@dataclass(frozen=True)
class Record:
    """One run as it was recorded; tags without their `suite.` prefix."""

    run_id: str
    tags: Tags
    params: dict[str, str]
    metrics: dict[str, float]
    began: float = 0.0
    """When it started, in seconds since 1970; `ended` likewise, None while it runs."""
    ended: float | None = None

    @property
    def finished(self) -> bool:
        """Whether the run came to its end, be it by divergence."""
        return self.tags.run_status == "FINISHED"

    @property
    def over(self) -> bool:
        """Whether the run is over, however it ended; one that is half-written is not."""
        return self.tags.run_status != "RUNNING"

    def lost(self, metric: str) -> bool:
        """Whether a metric has no mean over the last evaluations, or the run diverged."""
        return lost(metric, self.tags.status, self.tags.not_finite or ())

    @property
    def fault(self) -> str:
        """What of the run cannot be read: `tag suite.spec`, `metric test_score`; "" where it is sound."""
        if tag := self.tags.fault:
            return f"tag {tag}"
        counts = self.finished and self.tags.kind == RunKind.FINAL
        scored = abs(self.metrics.get("test_score", math.nan)) <= LARGEST
        return "metric test_score" if counts and not scored else ""

    @property
    def page(self) -> str:
        """The path of the run's page in MLflow, below the server's address."""
        return run_page(self.tags.experiment_id, self.run_id)


def tags_of(run: "Run") -> dict[str, str]:
    """The tags of ours that a run of MLflow's has itself, without their prefix."""
    named = run.data.tags.items()
    return whole({k.removeprefix(PREFIX): v for k, v in named if k.startswith(PREFIX)})


def recorded(run: "Run", shared: Mapping[str, str]) -> Record:
    """A run of MLflow's, with the tags that it inherits; metrics by their plain names."""
    own = tags_of(run)
    own["run_status"] = run.info.status
    own["experiment_id"] = run.info.experiment_id
    tags: Mapping[str, str] = Inherited(own, shared) if shared else own
    metrics = {plain(name): value for name, value in run.data.metrics.items()}
    return Record(
        run.info.run_id,
        Tags(tags, run.info.run_id),
        whole(run.data.params),
        metrics,
        run.info.start_time / 1000,
        None if run.info.end_time is None else run.info.end_time / 1000,
    )
