"""A leaderboard with its rows, and what a report shows beside it, as plain data."""

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
"""The text beside the title of every table of an unfinished scenario."""
ABOUT = (
    "Interim: the best validation score of the search so far, from one seed, which favours methods with more "
    "trials. Ranks count once a scenario has all of its final runs."
)


class Ongoing(NamedTuple):
    """The key of interim standings that are ranked together: a sweep and one of its unfinished scenarios."""

    sweep: str
    scenario: Scenario


@dataclass(frozen=True)
class Standing:
    """The interim result of one algorithm in an unfinished scenario. `trials` of its `planned` search trials and `finals`
    of its `seeds` final runs have ended. `best` is the best validation score so far, reached with `params`. `rank` is None
    for algorithms without a score, and for those that are shown as a `reference` only.
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
        """Return the key of the group in which the standing is ranked: its sweep and scenario."""
        return Ongoing(self.sweep, Scenario.of(self))


FIRST = (
    "dataset", "model", "heterogeneity", "rank", "algorithm", "mean", "ci_low", "ci_high", "behind", "within_noise",
    "seeds", "worst_clients", "sample_gradients", "uploaded_bytes", "downloaded_bytes", "trials",
)  # fmt: skip
"""The first columns of `to_pandas`, which are those of the printed table."""


class Contest(NamedTuple):
    """The key of rows that are ranked together: their sweeps (joined by " + "), scenario, and whether they are warm-started."""

    sweeps: str
    scenario: Scenario
    warm: bool


@dataclass(frozen=True, kw_only=True)
class Method:
    """The fields of a row that say which method it is, in which scenario.

    `params` are those of the tuning with the best mean validation score over final seeds. `outside` says which settings break
    the assumptions of the method's paper; such a method is not ranked. `away` says how the scenario differs from the paper's
    experiments. With `own_models` the models that clients keep are scored instead of the server's.
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
    """The fields of a row about its score. `rank` is None if the method is not ranked; `tied` rows share their rank.

    `ci_low` and `ci_high` are the ends of the mean's 95 % interval, taken over the `units` levels of the factor `over`: split,
    partition, tuning or seed. `spread` has the standard deviation by factor, `by_replicate` the mean score of each search's
    winner. `behind` is the distance of the mean from that of the first row. The true distance from the best method is between
    `behind_low` and `behind_high`, with 95 % confidence for all rows jointly. `beaten_by` names the methods that are shown to be
    better. A method that none is shown to beat is `within_noise`, and `equivalent` if it is also shown to be within the study's
    margin of the best (None without a margin). Without a standard error, `behind_low`, `behind_high`, `within_noise` and
    `equivalent` are None. `worst_clients` is the mean score of the worst 10 % of clients, `client_spread` the standard deviation
    over clients, both where `mean` was taken (None if not measured there). `test_samples` is the test set's size, 0 if unknown.
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
    """The fields of a row about its cost, as means over whole final runs. `budget` is the cost at which scores are compared,
    if not at equal rounds. `reached_share` is the share of final runs that reached the target; each `*_to_target` is a mean over
    these runs. Only `median_rounds_to_target` is over all final runs; it is None if more than half of them missed the target.
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
    """The fields of a row about its search. `sweeps` names all sweeps of the group, joined by " + ". `runs` has the ids of all
    final runs, and `chosen` the ids of those with the hyperparameters that the row shows. `page` is the path of the row in
    MLflow. `audit` is None if no search trial is recorded.
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
        """Return the scenario of the row: data set, model and heterogeneity."""
        return Scenario.of(self)

    @property
    def group(self) -> Contest:
        """Return the key of the group in which the row is ranked: sweeps, scenario and warm start."""
        return Contest(self.sweeps, self.scenario, self.warm)

    @property
    def sent_bytes(self) -> float:
        """Return the mean bytes that a final run sends to the server, to clients and between peers."""
        return self.uploaded_bytes + self.downloaded_bytes + self.peer_bytes


@dataclass(frozen=True)
class Leaderboard:
    """A leaderboard, as `suite.leaderboard()` returns it: rows in groups that are ranked together, each with the best first.

    `metric` and `direction` are those of the rows, joined by commas where rows differ. `differences` has all pairs of ranked methods
    of each group; `overall` has, by metric, the comparison over families of data sets. `notes` says what could not be compared,
    `searched` how each sweep found its configurations. `interim` has the scenarios that still lack final runs; they have no rows.
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
        """Return a data frame with a row per algorithm and scenario; hyperparameters are columns such as `params.lr`."""
        table = frame(map(asdict, self.rows))
        first = [name for name in FIRST if name in table]
        return table[[*first, *table.columns.drop(first)]]

    def as_dict(self) -> dict[str, Any]:
        """Return the leaderboard as the dict that `suite leaderboard --json` prints."""
        differences = []
        for (sweeps, scenario, warm), pairs in self.differences:
            contest = {"sweeps": sweeps, **scenario.names(), "warm": warm}
            differences += [contest | asdict(pair) for pair in pairs]
        return {**asdict(self), "differences": differences}


@dataclass(frozen=True)
class Curve:
    """The test scores of one final run at each evaluation; `replicate` is its (split, partition, tuning)."""

    group: Contest
    algorithm: str
    seed: int
    rounds: tuple[int, ...]
    scores: tuple[float, ...]
    sent_bytes: tuple[float, ...]
    replicate: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class Failure:
    """A run that crashed, diverged or has no finite test score. `error` is the end of the error message, or says what was not
    finite; `page` is the path of the run in MLflow.
    """

    name: str
    kind: str
    status: str
    error: str
    page: str


@dataclass(frozen=True)
class SweepFacts:
    """A sweep behind a leaderboard: its study as YAML, and `facts` such as versions, seeds and fingerprints of data. `setting`
    has what the head of a report shows, such as rounds, clients, date and duration.
    """

    name: str
    study: str
    study_yaml: str
    facts: Mapping[str, str]
    page: str
    setting: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportData:
    """Everything that a report shows. `trials` maps (sweep, entry id) to the search trials (columns replicate, number,
    status, val_score), and `tuned` to the text of the tuned configuration. `server` is the address of MLflow's pages.
    """

    board: Leaderboard
    curves: tuple[Curve, ...] = ()
    trials: Mapping[tuple[str, str], "pd.DataFrame"] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    sweeps: tuple[SweepFacts, ...] = ()
    tuned: Mapping[tuple[str, str], str] = field(default_factory=dict)
    server: str = "http://127.0.0.1:5000"
