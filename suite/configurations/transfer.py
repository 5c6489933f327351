"""`suite transfer`: what it costs to reuse a configuration that was tuned elsewhere.

For each algorithm, the hyperparameters tuned for one scenario run on every other scenario, under that scenario's
settings, and so do the scenario's own; both with the same fresh seeds. The loss is what the scenario's own
configuration scores more, paired by seed: points of accuracy, or the difference of mean squared errors.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from reports.frames import frame
from reports.leaderboard.statistics import interval
from suite.configurations.configuration import Tuned
from suite.configurations.distance import distance
from suite.runs.batch import Batch, Job
from suite.tracking.schema.tags import RunKind, written
from suite.tracking.store import Record, Store
from trials.common.errors import UserError
from trials.run.scenario import Scenario
from trials.run.spec import canonical
from trials.scoring.metrics import TASKS, score

if TYPE_CHECKING:
    import pandas as pd

EXPERIMENT = "transfer"
FIRST_SEED = 100_000
"""Far from the seeds of searches and final runs."""


@dataclass(frozen=True)
class Loss:
    """One entry of the matrix: tuned on `source`, used on `target`; `loss` is 0 on the diagonal."""

    algorithm: str
    source: str
    target: str
    distance: float
    metric: str
    score: float
    own_score: float
    loss: float
    ci_low: float | None
    ci_high: float | None
    seeds: int
    diverged: int


@dataclass(frozen=True)
class Transfer:
    """The matrices of all algorithms, row after row."""

    entries: list[Loss]
    failed: int
    interrupted: bool

    def __repr__(self) -> str:
        return f"Transfer: {len(self.entries)} pairs of scenarios, {self.failed} runs failed"

    def to_pandas(self) -> "pd.DataFrame":
        """A row a pair of scenarios."""
        return frame(map(asdict, self.entries))

    def document(self) -> dict[str, Any]:
        """The JSON of `suite transfer`."""
        return {"entries": [asdict(e) for e in self.entries], "runs_failed": self.failed}


def transfer(
    found: Iterable[Tuned],
    seeds: int,
    store: Store,
    storage: Path,
    data_root: str | None,
    resources: Any,
) -> Transfer:
    """Run what is not done and fill the matrices. `found`: the best first of each algorithm and scenario.

    Raises `UserError` when no algorithm is tuned for two scenarios of one task.
    """
    pairs = _pairs(found)
    if not pairs:
        raise UserError(
            "transfer needs one algorithm that is tuned for two scenarios of one task: see `suite tuned "
            "list`, or add some with `suite sweep` or `suite tuned import`"
        )
    for tuned in {id(one): one for pair in pairs for one in pair}.values():
        tuned.refuse_changed(f"the tuned configuration of {tuned.algorithm} on {tuned.scenario}")
    jobs: dict[tuple[int, int], Job] = {}
    for i, (source, target) in enumerate(pairs):
        for k in range(seeds):
            jobs[i, k] = _job(source, target, FIRST_SEED + k)
    batch = Batch(store, RunKind.TRANSFER, EXPERIMENT, storage / EXPERIMENT / "tune")
    failed, interrupted = batch.run(list(jobs.values()), data_root, resources)
    done = batch.done()
    scores: dict[int, dict[int, float]] = {}
    lost: dict[int, int] = {}
    for (i, k), job in jobs.items():
        if (record := done.get(job.id)) is not None:
            scores.setdefault(i, {})[k] = _score(store, record)
            lost[i] = lost.get(i, 0) + record.lost(_metric(record))
    own = {
        (target.algorithm, target.scenario): scores.get(i, {})
        for i, (source, target) in enumerate(pairs)
        if source is target
    }
    entries = []
    for i, (source, target) in enumerate(pairs):
        theirs = own[target.algorithm, target.scenario]
        if common := [k for k in scores.get(i, {}) if k in theirs]:
            entries.append(_loss(source, target, scores[i], theirs, common, lost[i]))
    return Transfer(entries, failed, interrupted)


def _pairs(found: Iterable[Tuned]) -> list[tuple[Tuned, Tuned]]:
    """(tuned on, used on) of each algorithm with two scenarios or more of one task."""
    by_algorithm: dict[tuple[str, str], dict[Scenario, Tuned]] = {}
    for tuned in found:
        task = tuned.task.metric
        by_algorithm.setdefault((tuned.algorithm, task), {}).setdefault(tuned.scenario, tuned)
    return [
        (source, target)
        for scenarios in by_algorithm.values()
        if len(scenarios) > 1
        for source in scenarios.values()
        for target in scenarios.values()
    ]


def _job(source: Tuned, target: Tuned, seed: int) -> Job:
    spec = canonical(target.algorithm, source.params, target.scenario, target.settings, seed)
    name = f"{source.algorithm} · from {source.scenario} · on {target.scenario} · {seed}"
    return Job(
        spec, name, written(source_scenario=source.scenario, target_scenario=target.scenario)
    )


def _score(store: Store, record: Record) -> float:
    """Mean of the last three evaluations; the untrained model's where the run is lost."""
    metric = _metric(record)
    return score(store.curve(record, [metric]), metric, record.lost(metric))


def _metric(record: Record) -> str:
    return f"test_{record.tags.metric}"


def _loss(
    source: Tuned,
    target: Tuned,
    scores: Mapping[int, float],
    own: Mapping[int, float],
    seeds: list[int],
    diverged: int,
) -> Loss:
    metric = target.task.metric
    scale = 100 if target.task.pooled == "accuracy" else 1
    gaps = [scale * TASKS[metric].sign * (own[k] - scores[k]) for k in seeds]
    low, high = interval(gaps)
    return Loss(
        algorithm=target.algorithm,
        source=str(source.scenario),
        target=str(target.scenario),
        distance=round(distance(source.scenario, target.scenario).total, 4),
        metric=f"test_{metric}",
        score=fmean(scores[k] for k in seeds),
        own_score=fmean(own[k] for k in seeds),
        loss=fmean(gaps),
        ci_low=low,
        ci_high=high,
        seeds=len(seeds),
        diverged=diverged,
    )
