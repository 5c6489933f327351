"""Leaderboards: final runs in, rows with means, intervals and paired differences out.

Runs are compared within a group: same sweep, data set, model and heterogeneity level. Seeds are few,
so intervals are Student's t over final seeds. Differences are paired by seed against the best mean of
the group, with Bonferroni's correction over the group's other algorithms; one whose interval holds 0
is within the seeds' noise.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from scipy.special import stdtrit

LEVEL = 0.95
METRICS = {"accuracy": "maximize"}
"""Ranked test metrics, by the name a data set's task gives them."""


@dataclass(frozen=True)
class FinalRun:
    """One final run as it was recorded. `score` is the mean of the last three evaluations, or the
    untrained model's when the run diverged; `reached` the first round at or past the target.
    """

    sweep: str
    study: str
    cell: str
    algorithm: str
    paper: str
    dataset: str
    model: str
    heterogeneity: str
    seed: int
    diverged: bool
    score: float
    client_steps: float
    uploaded_bytes: float
    params: Mapping[str, Any]
    reached: int | None = None

    @property
    def group(self) -> tuple[str, str, str, str]:
        """What runs must share to be ranked together."""
        return self.sweep, self.dataset, self.model, self.heterogeneity


@dataclass(frozen=True)
class Row:
    """One algorithm in one cell.

    `behind` is how far its mean is behind the best of its group, `behind_low` and `behind_high` the
    paired interval of that difference (None for the best, or with fewer than two common seeds);
    `within_noise` whether that interval holds 0.
    """

    algorithm: str
    paper: str
    dataset: str
    model: str
    heterogeneity: str
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
    uploaded_bytes: float
    params: Mapping[str, Any]
    behind: float
    behind_low: float | None
    behind_high: float | None
    within_noise: bool | None
    sweep: str
    study: str
    cell: str

    @property
    def group(self) -> tuple[str, str, str, str]:
        """What rows must share to be ranked together."""
        return self.sweep, self.dataset, self.model, self.heterogeneity


@dataclass(frozen=True)
class Leaderboard:
    """Rows, group after group in order of first appearance, best first."""

    study: str
    metric: str
    direction: str
    protocol: str
    target: float | None
    rows: tuple[Row, ...]

    def as_dict(self) -> dict[str, Any]:
        """The JSON document of `suite leaderboard --json`."""
        return asdict(self)


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
    metric: str,
    target: float | None,
) -> Leaderboard:
    """Rank final runs. `trials` counts the search trials of each (sweep, cell)."""
    direction = METRICS[metric.removeprefix("test_")]
    groups: dict[tuple[str, ...], dict[str, list[FinalRun]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for run in runs:
        groups[run.group][run.cell].append(run)
    rows = [
        row
        for group in groups.values()
        for row in _rank(list(group.values()), trials, direction == "maximize", target)
    ]
    names = sorted({run.study for run in runs})
    protocol = "tuned on validation, ranked by final runs with fresh seeds on test"
    return Leaderboard(", ".join(names), metric, direction, protocol, target, tuple(rows))


def _rank(
    cells: list[list[FinalRun]],
    trials: Mapping[tuple[str, str], int],
    more_is_better: bool,
    target: float | None,
) -> list[Row]:
    sign = 1 if more_is_better else -1
    means = {cell[0].cell: fmean(run.score for run in cell) for cell in cells}
    cells = sorted(cells, key=lambda cell: (-sign * means[cell[0].cell], cell[0].algorithm))
    best = cells[0]
    rows = []
    for cell in cells:
        first, mean = cell[0], means[cell[0].cell]
        low, high = interval([run.score for run in cell])
        ahead = {run.seed: run.score for run in best}
        gaps = [sign * (ahead[run.seed] - run.score) for run in cell if run.seed in ahead]
        behind = fmean(gaps) if gaps else sign * (means[best[0].cell] - mean)
        level = 1 - (1 - LEVEL) / max(1, len(cells) - 1)
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
                rank=1 + sum(sign * (other - mean) > 0 for other in means.values()),
                mean=mean,
                ci_low=low,
                ci_high=high,
                seeds=len(cell),
                failed_seeds=sum(run.diverged for run in cell),
                trials=trials.get((first.sweep, first.cell), 0),
                rounds_to_target=fmean(reached) if reached else None,
                reached_share=None if target is None else len(reached) / len(cell),
                client_steps=fmean(run.client_steps for run in cell),
                uploaded_bytes=fmean(run.uploaded_bytes for run in cell),
                params=dict(first.params),
                behind=behind,
                behind_low=gap_low,
                behind_high=gap_high,
                within_noise=noise,
                sweep=first.sweep,
                study=first.study,
                cell=first.cell,
            )
        )
    return rows
