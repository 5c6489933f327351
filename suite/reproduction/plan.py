"""What a reproduction will run: jobs, reduced to what is affordable."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from reports.claims.metrics import BEST, metric
from suite.reproduction.experiments import SCORED, Configured, Experiment
from suite.reproduction.paper import Paper
from suite.runs.batch import Job
from trials import datasets
from trials.common.errors import UserError

SEEDS, QUICK_SEEDS, QUICK_SHARE, QUICK_ROUNDS = 5, 2, 5, 10
"""Seeds by default; `--quick`: seeds, what rounds are divided by, and their least number."""


NO_DATA = "no data: "
"""Begins the reason why a row without its data set is not run."""


@dataclass(frozen=True)
class Effort:
    """How much of the paper's protocol is run; `other`: values of what is ours, instead of ours; `until_said`: up to
    how many seeds are added, once, for verdicts that are too noisy.
    """

    seeds: int = SEEDS
    rounds: int | None = None
    quick: bool = False
    max_minutes: float | None = None
    other: Mapping[str, Any] = field(default_factory=dict)
    until_said: int | None = None

    def cut(self, rounds: int) -> int:
        """The rounds that are run of those the paper ran."""
        if self.quick:
            rounds = min(rounds, max(QUICK_ROUNDS, rounds // QUICK_SHARE))
        return rounds if self.rounds is None else min(rounds, self.rounds)


@dataclass(frozen=True)
class Planned:
    """A row that is to be run: its jobs, (method, variant, seed) -> job."""

    experiment: Experiment
    jobs: Mapping[tuple[str, int, int], Job]
    rounds: int
    planned: int


def runs_left(plan: Planned, done: Collection[str]) -> Counter[str]:
    """How many runs of each method are to be made."""
    return Counter(method for (method, _, _), job in plan.jobs.items() if job.id not in done)


def what_is_missing(made: Experiment | None, data_root: str | None) -> str | None:
    """Why the data of a row are not at hand; None where they are."""
    if made is None:
        return None
    dataset = next(iter(made.methods.values())).scenario.dataset
    unsound = [r.name for r in datasets.prepare(dataset, data_root) if not r.sound]
    if unsound:
        return NO_DATA + dataset
    return None


def plan_of(paper: Paper, made: Experiment, effort: Effort) -> Planned:
    """The jobs of a row. Evaluations after each round where a metric needs them, else at the end."""
    table = paper.tables[made.table]
    row = table.rows[made.row]
    names = [*row.numbers, *(c.metric for c in table.claims if c.metric)]
    every_round = any(_every_round(name) for name in names)
    every_round |= any(c.value(SCORED) == BEST for c in made.methods.values())
    planned = max(configured.rounds for configured in made.methods.values())
    rounds = effort.cut(planned)
    jobs = {}
    for method, configured in made.methods.items():
        for number, variant in enumerate(_variants(configured, effort)):
            for seed in range(effort.seeds):
                spec = configured.spec(variant, seed, rounds, 1 if every_round else rounds)
                shown = " ".join(f"{k}={v:g}" for k, v in variant.items())
                jobs[method, number, seed] = Job(
                    spec,
                    " · ".join(filter(None, [made.path, method, shown, f"seed {seed}"])),
                    {"claim": made.path, "method": method},
                )
    return Planned(made, jobs, rounds, planned)


def _variants(configured: Configured, effort: Effort) -> list[dict[str, Any]]:
    """The searched values; the middle one alone with `--quick`."""
    variants = configured.variants
    return [variants[len(variants) // 2]] if effort.quick else variants


def _every_round(name: str) -> bool:
    try:
        return metric(name).every_round
    except UserError:
        return False


def reductions(plan: Planned) -> list[str]:
    """What was not run of the paper's protocol, in words."""
    found = []
    if plan.rounds < plan.planned:
        found.append(f"{plan.rounds} rounds instead of {plan.planned}")
    for method, configured in plan.experiment.methods.items():
        ran = {number for m, number, _ in plan.jobs if m == method}
        if len(ran) < len(configured.variants):
            found.append(f"{method}: {len(ran)} of {len(configured.variants)} searched values")
    return found
