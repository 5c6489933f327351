"""Leaderboards: final runs in, rows with means, intervals and paired differences out.

Runs are compared within a group: same sweep, data set, model and heterogeneity level. Seeds are few,
so intervals are Student's t over final seeds. Differences are paired by seed against the best mean of
the group, with Bonferroni's correction over the group's other algorithms; one whose interval holds 0
is within the seeds' noise. References stand below, without a rank.

At equal rounds a score is that of the whole run. At equal steps or bytes the group's budget is the
least that any of its runs spent, and a score is that of the last evaluation within it: a mean of
several would reach back to where a costly method had hardly begun.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean, stdev
from typing import Any

from scipy.special import stdtrit

LEVEL = 0.95
METRICS = {"accuracy": "maximize", "mse": "minimize"}
"""Ranked metrics, by the name a data set's task gives them."""
COUNTED = (
    "client_steps",
    "gradient_passes",
    "sample_gradients",
    "uploaded_bytes",
    "downloaded_bytes",
    "peer_bytes",
)
"""What runs count and rows show."""
COSTS: dict[str, tuple[str, ...]] = {
    "rounds": (),
    "steps": ("sample_gradients",),
    "bytes": ("uploaded_bytes", "downloaded_bytes", "peer_bytes"),
}
"""What runs are compared at equal amounts of. Steps are counted in samples whose gradient was taken,
so that minibatches and full-gradient passes weigh alike; bytes in both directions and between peers.
"""


@dataclass(frozen=True)
class FinalRun:
    """One final run as it was recorded. `score` is the mean of the last three evaluations, or the
    untrained model's when the run diverged; `reached` the first round at or past the target;
    `spent` its `COUNTED` totals; `curve` (cost so far, score) of each evaluation, round 0 first,
    where runs are compared at equal cost.
    """

    sweep: str
    study: str
    cell: str
    algorithm: str
    paper: str
    dataset: str
    model: str
    heterogeneity: str
    metric: str
    seed: int
    diverged: bool
    score: float
    spent: Mapping[str, float]
    params: Mapping[str, Any]
    reached: int | None = None
    reference: bool = False
    curve: tuple[tuple[float, float], ...] = ()
    warm: bool = False

    @property
    def group(self) -> tuple[str, str, str, str, bool]:
        """What runs must share to be ranked together; warm-started ones are ranked apart."""
        return self.sweep, self.dataset, self.model, self.heterogeneity, self.warm


@dataclass(frozen=True)
class Row:
    """One algorithm in one cell.

    `behind` is how far its mean is behind the best of its group, `behind_low` and `behind_high` the
    paired interval of that difference (None for the best, or with fewer than two common seeds);
    `within_noise` whether that interval holds 0. `rank` is None for references. `budget` is the cost
    at which the group is compared, if any.
    """

    algorithm: str
    paper: str
    dataset: str
    model: str
    heterogeneity: str
    metric: str
    rank: int | None
    mean: float
    ci_low: float | None
    ci_high: float | None
    seeds: int
    failed_seeds: int
    trials: int
    rounds_to_target: float | None
    reached_share: float | None
    client_steps: float
    gradient_passes: float
    sample_gradients: float
    uploaded_bytes: float
    downloaded_bytes: float
    peer_bytes: float
    params: Mapping[str, Any]
    behind: float
    behind_low: float | None
    behind_high: float | None
    within_noise: bool | None
    budget: float | None
    sweep: str
    study: str
    cell: str
    warm: bool = False

    @property
    def group(self) -> tuple[str, str, str, str, bool]:
        """What rows must share to be ranked together."""
        return self.sweep, self.dataset, self.model, self.heterogeneity, self.warm


@dataclass(frozen=True)
class Leaderboard:
    """Rows, group after group in order of first appearance, best first.

    `metric` and `direction` are the rows', or a list of them where data sets are ranked by several.
    `pareto` are the fronts of cells that were searched with two objectives (`reports.pareto`).
    """

    study: str
    metric: str
    direction: str
    protocol: str
    at: str
    target: float | None
    rows: tuple[Row, ...]
    pareto: tuple[Any, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The JSON document of `suite leaderboard --json`."""
        return {**asdict(self), "pareto": [front.as_dict() for front in self.pareto]}


def interval(values: Sequence[float], level: float = LEVEL) -> tuple[float | None, float | None]:
    """Student-t interval of the mean: m -+ t_{n-1, (1+level)/2} s / sqrt(n); None below 2 values."""
    if len(values) < 2:
        return None, None
    half = stdtrit(len(values) - 1, (1 + level) / 2) * stdev(values) / len(values) ** 0.5
    mean = fmean(values)
    return float(mean - half), float(mean + half)


def leaderboard(
    runs: Sequence[FinalRun],
    trials: Mapping[tuple[str, str], int],
    target: float | None,
    at: str = "rounds",
) -> Leaderboard:
    """Rank final runs at equal rounds, steps or bytes. `trials` counts the search trials of each
    (sweep, cell).
    """
    groups: dict[tuple[Any, ...], dict[str, list[FinalRun]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for run in runs:
        groups[run.group][run.cell].append(run)
    rows = [row for group in groups.values() for row in _rank(list(group.values()), trials, target)]
    metrics = list(dict.fromkeys(run.metric for run in runs))
    metric = ", ".join(f"test_{name}" for name in metrics)
    direction = ", ".join(METRICS[name] for name in metrics)
    names = sorted({run.study for run in runs})
    protocol = "tuned on validation, ranked by final runs with fresh seeds on test"
    protocol += "" if at == "rounds" else f", at equal {at}"
    return Leaderboard(", ".join(names), metric, direction, protocol, at, target, tuple(rows))


def _at_budget(cells: list[list[FinalRun]]) -> tuple[list[list[FinalRun]], float | None]:
    """The runs with their scores at the least cost that any of them spent, and that cost.

    Runs that cost nothing (they never send, say) set no budget; those that diverged keep their score.
    """
    ends = [run.curve[-1][0] for cell in cells for run in cell if run.curve]
    budget = min((end for end in ends if end > 0), default=None)
    if budget is None:
        return cells, None

    def score(run: FinalRun) -> float:
        return (
            [value for cost, value in run.curve if cost <= budget][-1] if run.curve else run.score
        )

    return [[replace(run, score=score(run)) for run in cell] for cell in cells], budget


def _rank(
    cells: list[list[FinalRun]],
    trials: Mapping[tuple[str, str], int],
    target: float | None,
) -> list[Row]:
    sign = 1 if METRICS[cells[0][0].metric] == "maximize" else -1
    cells, budget = _at_budget(cells)
    means = {cell[0].cell: fmean(run.score for run in cell) for cell in cells}
    cells = sorted(
        cells,
        key=lambda cell: (cell[0].reference, -sign * means[cell[0].cell], cell[0].algorithm),
    )
    best = cells[0]
    rivals = {cell[0].cell: means[cell[0].cell] for cell in cells if not cell[0].reference}
    rows = []
    for cell in cells:
        first, mean = cell[0], means[cell[0].cell]
        low, high = interval([run.score for run in cell])
        ahead = {run.seed: run.score for run in best}
        gaps = [sign * (ahead[run.seed] - run.score) for run in cell if run.seed in ahead]
        behind = fmean(gaps) if gaps else sign * (means[best[0].cell] - mean)
        level = 1 - (1 - LEVEL) / max(1, len(rivals) - 1)
        gap_low, gap_high = (None, None) if cell is best else interval(gaps, level)
        noise = None if gap_low is None or gap_high is None else gap_low <= 0 <= gap_high
        reached = [run.reached for run in cell if run.reached is not None]
        rows.append(
            Row(
                algorithm=first.algorithm,
                paper=first.paper,
                dataset=first.dataset,
                model=first.model,
                heterogeneity=first.heterogeneity,
                metric=f"test_{first.metric}",
                rank=None
                if first.reference
                else 1 + sum(sign * (other - mean) > 0 for other in rivals.values()),
                mean=mean,
                ci_low=low,
                ci_high=high,
                seeds=len(cell),
                failed_seeds=sum(run.diverged for run in cell),
                trials=trials.get((first.sweep, first.cell), 0),
                rounds_to_target=fmean(reached) if reached else None,
                reached_share=None if target is None else len(reached) / len(cell),
                **{name: fmean(run.spent[name] for run in cell) for name in COUNTED},
                params=dict(first.params),
                behind=behind,
                behind_low=gap_low,
                behind_high=gap_high,
                within_noise=noise,
                budget=budget,
                sweep=first.sweep,
                study=first.study,
                cell=first.cell,
                warm=first.warm,
            )
        )
    return rows
