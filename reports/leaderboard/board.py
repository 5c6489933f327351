"""A leaderboard: its rows, how it is printed, and what a report shows beside it; all plain data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.leaderboard.audit import Audit
from reports.leaderboard.replication import Difference
from reports.leaderboard.statistics import Across
from reports.table import frame
from trials.run.spec import Scenario

if TYPE_CHECKING:
    import pandas as pd

MARK = "interim, validation only"
"""The mark beside the title of every interim table."""
ABOUT = (
    "Interim: the best validation score of the search so far, of one seed, which flatters who had more "
    "trials. Ranks count once all final runs of a scenario are there."
)


class Ongoing(NamedTuple):
    """The key of standings that are ranked together: a sweep and one of its unfinished scenarios."""

    sweep: str
    scenario: Scenario


@dataclass(frozen=True)
class Standing:
    """One algorithm in an unfinished scenario. `trials` of `planned` trials and `finals` of `seeds` final runs have
    ended. `best` is the best validation score so far, that of `params`. `rank` is None for references and without a
    score.
    """

    algorithm: str
    dataset: str
    model: str
    heterogeneity: str
    metric: str
    rank: int | None
    best: float | None
    trials: int
    planned: int
    finals: int
    seeds: int
    params: Mapping[str, Any]
    reference: bool
    sweep: str
    study: str
    entry_id: str

    @property
    def group(self) -> Ongoing:
        """Return what standings must share to be ranked together."""
        return Ongoing(self.sweep, Scenario.of(self))


FIRST = (
    "dataset", "model", "heterogeneity", "rank", "algorithm", "mean", "ci_low", "ci_high", "behind", "within_noise",
    "seeds", "worst_clients", "sample_gradients", "uploaded_bytes", "downloaded_bytes", "trials",
)  # fmt: skip
"""The first columns of a data frame: what the table shows."""


class Contest(NamedTuple):
    """The key of rows that are ranked together: the sweeps they are from, their scenario, and whether they were warm-started."""

    sweeps: str
    scenario: Scenario
    warm: bool


@dataclass(frozen=True, kw_only=True)
class Method:
    """The method of a row, in its scenario. `params` are those of the tuning that validates best over its final seeds.
    `outside` says which settings break its paper's assumptions: then it is not ranked. `away` says what the scenario
    lacks of its paper's experiments. With `own_models` the scored models are those that its clients keep.
    """

    algorithm: str
    paper: str
    dataset: str
    model: str
    heterogeneity: str
    params: Mapping[str, Any]
    outside: str = ""
    away: str = ""
    own_models: bool = False


@dataclass(frozen=True, kw_only=True)
class Score:
    """The score of a row. `rank` is None for references; `tied` says that another row has the same.

    The mean's interval is over the `units` levels of the factor `over` (`reports.leaderboard.replication`), `spread` has
    the standard deviation by each factor, and `by_replicate` are the means of the tunings on each partition and split.
    `behind` is how far the mean is behind the first row's; `behind_low` and `behind_high` are the interval of how far the
    method is behind the best (`reports.leaderboard.replication`; None where nothing can be estimated). `within_noise`
    says that it may be the best: no other is shown to be ahead. `beaten_by` names those that are. `equivalent` says
    whether it may be the best and is within the study's margin of it. `worst_clients` is the score of the worst 10 % of
    clients and `client_spread` the standard deviation over clients, both at the evaluations of the mean; None where the
    mean is of others. `test_samples` is the size of the test set, 0 where it is unknown.
    """

    metric: str
    rank: int | None
    tied: bool
    mean: float
    ci_low: float | None
    ci_high: float | None
    over: str
    units: int
    seeds: int
    failed_seeds: int
    spread: Mapping[str, float]
    by_replicate: tuple[float, ...]
    behind: float
    behind_low: float | None
    behind_high: float | None
    within_noise: bool | None
    beaten_by: tuple[str, ...]
    equivalent: bool | None
    worst_clients: float | None
    client_spread: float | None
    test_samples: int = 0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of a row: means over whole final runs; `budget` is the cost at which the group is compared, if any.

    Seeds that missed the target are right-censored: `reached_share` says how many did not, `*_to_target` are
    means over those that reached it, and the median counts the others as later than all (None when it is one of them).
    """

    rounds_to_target: float | None
    median_rounds_to_target: float | None
    client_steps_to_target: float | None
    bytes_to_target: float | None
    reached_share: float | None
    client_steps: float
    gradient_passes: float
    sample_gradients: float
    uploaded_bytes: float
    downloaded_bytes: float
    peer_bytes: float
    budget: float | None


@dataclass(frozen=True, kw_only=True)
class Search:
    """The search of a row, and where it is recorded. `sweeps` are those of the whole group; `runs` are the ids of final
    runs, `chosen` those with `params`; `page` is the row in MLflow. `audit` is None where no search trial is recorded.
    """

    sweep: str
    study: str
    entry_id: str
    sweeps: str
    warm: bool
    trials: int
    tunings: int
    partitions: int
    runs: tuple[str, ...]
    chosen: tuple[str, ...]
    page: str
    audit: Audit | None = None


@dataclass(frozen=True, kw_only=True)
class Row(Search, Cost, Score, Method):
    """One algorithm in one scenario: a method, its score, its cost and its search."""

    @property
    def scenario(self) -> Scenario:
        """Return the data set, model and level."""
        return Scenario.of(self)

    @property
    def group(self) -> Contest:
        """Return what rows must share to be ranked together."""
        return Contest(self.sweeps, self.scenario, self.warm)

    @property
    def sent_bytes(self) -> float:
        """Return the bytes sent up, down and between peers."""
        return self.uploaded_bytes + self.downloaded_bytes + self.peer_bytes


@dataclass(frozen=True)
class Leaderboard:
    """A leaderboard, as `suite.leaderboard()` returns it. Rows are in groups, best first; groups are in order of appearance.

    `metric` and `direction` are those of the rows, joined where rows differ. `differences` has every pair of methods in
    each group. `overall` has, by metric, the comparison over scenarios. `notes` says what could not be compared, `searched`
    how each sweep found its configurations. `interim` has the scenarios that still lack final runs; they have no rows.
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
        groups, best = set[Contest](), list[str]()
        for row in self.rows:
            groups.add(row.group)
            best += [f"{row.algorithm} {row.mean:.4f} on {row.scenario}"] if row.rank == 1 else []
        first = ", ".join(best) or "-"
        return f"Leaderboard of {self.study}: {len(self.rows)} rows, {len(groups)} scenarios; first: {first}"

    def to_pandas(self) -> "pd.DataFrame":
        """Return a row per algorithm and scenario, the table's columns first, with hyperparameters as columns
        `params.lr`, ...
        """
        table = frame(map(asdict, self.rows))
        first = [name for name in FIRST if name in table]
        return table[[*first, *table.columns.drop(first)]]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document of `suite leaderboard --json`."""
        differences = []
        for (sweeps, scenario, warm), pairs in self.differences:
            contest = {"sweeps": sweeps, **scenario.names(), "warm": warm}
            differences += [contest | asdict(pair) for pair in pairs]
        return {**asdict(self), "differences": differences}


@dataclass(frozen=True)
class Curve:
    """The test scores of one final run by evaluation; `replicate` are the split, partition and tuning that it is of."""

    group: Contest
    algorithm: str
    seed: int
    rounds: tuple[int, ...]
    scores: tuple[float, ...]
    sent_bytes: tuple[float, ...]
    replicate: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class Failure:
    """A run that crashed, diverged or has no finite test score, with the end of its error, or what was
    not finite, and where MLflow shows it.
    """

    name: str
    kind: str
    status: str
    error: str
    page: str


@dataclass(frozen=True)
class SweepFacts:
    """The source of a board's numbers: the study as it was run, versions, seeds, fingerprints; and its `setting`:
    rounds, clients, participation, date, duration and budget.
    """

    name: str
    study: str
    study_yaml: str
    facts: Mapping[str, str]
    page: str
    setting: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportData:
    """Everything that a report shows; `server` is where MLflow's pages are. `trials` has the search trials (replicate, number,
    status, val_score) and `tuned` the tuned files, by sweep and entry.
    """

    board: Leaderboard
    curves: tuple[Curve, ...] = ()
    trials: Mapping[tuple[str, str], "pd.DataFrame"] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    sweeps: tuple[SweepFacts, ...] = ()
    tuned: Mapping[tuple[str, str], str] = field(default_factory=dict)
    server: str = "http://127.0.0.1:5000"
