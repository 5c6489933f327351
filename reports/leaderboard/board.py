"""A leaderboard: its rows and what is said of them, as a repr, as JSON, as a table and in a notebook."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.frames import drawing, frame
from reports.leaderboard.audit import Audit
from reports.leaderboard.interim import Standing
from reports.leaderboard.replication import Difference
from reports.leaderboard.statistics import Across
from trials.run.spec import Scenario

if TYPE_CHECKING:
    import pandas as pd

FIRST = (
    "dataset", "model", "heterogeneity", "rank", "algorithm", "mean", "ci_low", "ci_high", "behind", "within_noise",
    "seeds", "worst_clients", "sample_gradients", "uploaded_bytes", "downloaded_bytes", "trials",
)  # fmt: skip
"""The first columns of a data frame: what the table shows."""


class Contest(NamedTuple):
    """What rows that are ranked together have in common: the sweeps they are from, the scenario's address,
    whether they were warm-started.
    """

    sweeps: str
    scenario: Scenario
    warm: bool


@dataclass(frozen=True)
class Row:
    """One algorithm in one scenario.

    The mean's interval is over the factor `over` (`reports.leaderboard.replication`): the seeds of one tuned
    configuration, or its `tunings`, partitions or splits with their seeds in them; `spread` has the standard
    deviation by each of these. `behind` is how far its mean is behind the first row's, `behind_low` and
    `behind_high` the interval of how far it is behind the best, whichever that is (`reports.leaderboard.best`; None where
    nothing can be estimated); `within_noise` whether it may be the best: none is shown to be ahead of it, and
    `beaten_by` has those that are, best first, which need not hold the first row; `tied` whether another has
    the same rank, `equivalent` whether it may be the best and is shown to be within the study's margin of it. `units` is
    the number of levels of `over`. `params` are
    those of the tuning that validates best over its final seeds; `chosen` are the final runs of `params`. `by_replicate`
    are the means of the tunings on each partition and split. `rank` is None for references; `outside` says of references that are so for their settings what their paper assumes, `away` what the scenario lacks of
    the experiments of the row's paper. `budget` is
    the cost at which the group is compared, if any.

    Seeds that missed the target are right-censored: `reached_share` says how many did not, `*_to_target` are
    means over those that reached it, and the median counts the others as later than all (None when it is one of
    them). `worst_clients` is the score of the worst 10 % of clients, `client_spread` the standard deviation
    over clients.

    `sweeps` are those that the group was made of, `runs` the final runs' ids. `audit` says how fair its
    search was, None where no search trial is recorded.
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
    median_rounds_to_target: float | None
    client_steps_to_target: float | None
    bytes_to_target: float | None
    reached_share: float | None
    worst_clients: float | None
    client_spread: float | None
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
    entry_id: str
    sweeps: str
    runs: tuple[str, ...]
    page: str
    warm: bool = False
    outside: str = ""
    away: str = ""
    audit: Audit | None = None
    over: str = "seed"
    units: int = 1
    tunings: int = 1
    partitions: int = 1
    spread: Mapping[str, float] = field(default_factory=dict)
    equivalent: bool | None = None
    chosen: tuple[str, ...] = ()
    by_replicate: tuple[float, ...] = ()
    beaten_by: tuple[str, ...] = ()
    tied: bool = False

    @property
    def scenario(self) -> Scenario:
        """The scenario's address."""
        return Scenario.of(self)

    @property
    def group(self) -> Contest:
        """What rows must share to be ranked together."""
        return Contest(self.sweeps, self.scenario, self.warm)

    @property
    def compared_as(self) -> str:
        """The comparison over scenarios that it takes part in: scenarios that were warm-started stand apart."""
        return self.metric + ", warm-started" * self.warm


@dataclass(frozen=True)
class Leaderboard:
    """Rows, group after group in order of first appearance, best first.

    `metric` and `direction` are the rows', or a list of them where data sets are ranked by several.
    `differences` has every pair of each group, `overall` the comparison over scenarios by metric, `notes` what
    could not be compared, `searched` how each sweep
    found its configurations, in words, `interim` how scenarios stand whose final runs are not all there: they have
    no rows yet.
    """

    study: str
    metric: str
    direction: str
    protocol: str
    at: str
    target: float | None
    rows: tuple[Row, ...]
    differences: tuple[tuple[Contest, tuple[Difference, ...]], ...] = ()
    overall: Mapping[str, Across] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    searched: Mapping[str, str] = field(default_factory=dict)
    interim: tuple[Standing, ...] = ()

    def __repr__(self) -> str:
        scenarios = len({row.group for row in self.rows})
        first = ", ".join(
            f"{row.algorithm} {row.mean:.4f} on {row.scenario}"
            for row in self.rows
            if row.rank == 1
        )
        return f"Leaderboard of {self.study}: {len(self.rows)} rows, {scenarios} scenarios; first: {first or '-'}"

    def _repr_html_(self) -> str:
        found: str = drawing().board_html(self)
        return found

    def plot(self, *kinds: str) -> Any:
        """Its charts, which a notebook shows: intervals (`dots`), ranks (`cd`), scores by level (`heat`); all,
        or those kinds. A sweep's `plot` has curves besides.
        """
        return drawing().board_plot(self, kinds)

    def to_pandas(self) -> "pd.DataFrame":
        """A row an algorithm in a scenario, the table's columns first, with hyperparameters as columns
        `params.lr`, ...
        """
        table = frame(map(asdict, self.rows))
        return table[
            [*(name for name in FIRST if name in table), *table.columns.drop(list(FIRST), "ignore")]
        ]

    def as_dict(self) -> dict[str, Any]:
        """The JSON document of `suite leaderboard --json`."""
        pairs = [
            {"sweeps": sweeps, **scenario.names(), "warm": warm, **asdict(pair)}
            for (sweeps, scenario, warm), found in self.differences
            for pair in found
        ]
        return {**asdict(self), "differences": pairs}
