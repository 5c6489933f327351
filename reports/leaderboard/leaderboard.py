"""Leaderboards: final runs in, rows with means, intervals, paired differences and ranks out.

Runs are compared within a group (`reports.leaderboard.comparable`), and algorithms over all groups
(`reports.leaderboard.statistics`). References stand below, without a rank, and take no part in tests.

At equal rounds a score is that of the whole run. At equal steps or bytes the group's budget is the
least that any of its runs spent, and a score is that of the last evaluation within it: a mean of
several would reach back to where a costly method had hardly begun.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, median_low
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.frames import drawing, frame
from reports.leaderboard.audit import Audit
from reports.leaderboard.best import behind_best
from reports.leaderboard.budget import Budgets
from reports.leaderboard.comparable import FinalRun, Group, Trials, matched
from reports.leaderboard.interim import Standing
from reports.leaderboard.replication import (
    Difference,
    differences,
    intervals,
    mean_of,
    spreads,
    units,
)
from reports.leaderboard.statistics import DIGITS, Across, across
from trials.datasets import family
from trials.run.scenario import Scenario
from trials.scoring.metrics import COUNTED, direction, sign

if TYPE_CHECKING:
    import pandas as pd

OUTSIDE = "†"
"""Marks a row outside its paper's setting, and the note that says why."""
AWAY = "°"
"""Marks the rank of a row whose scenario is not like its paper's, and the note that says how."""
FIRST = (
    "dataset", "model", "heterogeneity", "rank", "algorithm", "mean", "ci_low", "ci_high", "behind", "within_noise",
    "seeds", "worst_clients", "sample_gradients", "uploaded_bytes", "downloaded_bytes", "trials",
)  # fmt: skip
"""The first columns of a data frame: what the table shows."""
LACKING = "‡"
"""Marks a row whose final runs are not those that its sweep made, and the note that says what mends it."""


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
    those of the tuning that validates best over its final seeds, `selected` is the mean validation score of
    what the searches chose, with which they chose it; `chosen` are the final runs of `params`. `by_replicate`
    are the means of the tunings on each partition and split. `rank` is None for references and where final runs are
    `lacking`; `outside` says of references that are so for their settings what their paper assumes, `away` what the scenario lacks of
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
    selected: float | None = None
    chosen: tuple[str, ...] = ()
    by_replicate: tuple[float, ...] = ()
    beaten_by: tuple[str, ...] = ()
    tied: bool = False
    lacking: str = ""

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
    could not be compared or ranked, `pareto` the fronts of entries that were searched with two objectives
    (`reports.leaderboard.pareto`), `budgets` what fewer trials would have chosen, `searched` how each sweep
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
    pareto: tuple[Any, ...] = ()
    searched: Mapping[str, str] = field(default_factory=dict)
    budgets: tuple[Budgets, ...] = ()
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
        """Its charts, which a notebook shows: intervals (`dots`), ranks (`cd`), scores by level (`heat`), `fronts`; all,
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
        fronts = [front.as_dict() for front in self.pareto]
        curves = [{**asdict(of), "scenario": of.scenario.names()} for of in self.budgets]
        return {**asdict(self), "differences": pairs, "pareto": fronts, "budgets": curves}


def leaderboard(
    runs: Sequence[FinalRun],
    trials: Trials,
    target: float | None,
    at: str = "rounds",
    margin: float | None = None,
) -> Leaderboard:
    """Rank final runs at equal rounds, steps or bytes; what is shown to differ by less than `margin` ties."""
    groups, notes = matched(runs, trials)
    ranked = [_rank(group, trials, target, margin) for group in groups]
    rows = [row for found, _ in ranked for row in found]
    metrics = list(dict.fromkeys(run.metric for run in runs))
    protocol = "tuned on validation, ranked by final runs with fresh seeds on test"
    protocol += "" if at == "rounds" else f", at equal {at}"
    return Leaderboard(
        study=", ".join(sorted({run.study for run in runs})),
        metric=", ".join(f"test_{name}" for name in metrics),
        direction=", ".join(map(direction, metrics)),
        protocol=protocol,
        at=at,
        target=target,
        rows=tuple(rows),
        differences=tuple((found[0].group, pairs) for found, pairs in ranked),
        overall=_overall([found for found, _ in ranked]),
        notes=(*notes, *_marked(rows)),
    )


def _marked(rows: Sequence[Row]) -> list[str]:
    """Why rows have no rank though their algorithm might, or a mark beside it, each reason once."""
    outside = "is outside its paper's setting and not ranked"
    said = [f"{OUTSIDE} {row.algorithm} {outside}: {row.outside}." for row in rows if row.outside]
    away = "is ranked away from its paper's setting"
    said += [f"{AWAY} {row.algorithm} {away}: {row.away}." for row in rows if row.away]
    lacking = [row for row in rows if row.lacking]
    said += [f"{LACKING} {r.scenario}: {r.algorithm} is not ranked: {r.lacking}." for r in lacking]
    return list(dict.fromkeys(said))


def _overall(groups: Sequence[Sequence[Row]]) -> dict[str, Across]:
    """Algorithms over families of data sets, by metric; warm-started scenarios apart. Of groups that ask the same
    question on other terms, the one with the most algorithms counts, so that none counts twice.
    """
    found = {}
    for name in dict.fromkeys(rows[0].compared_as for rows in groups):
        families: dict[str, dict[str, dict[str, list[float]]]] = {}
        for rows in groups:
            if rows[0].compared_as == name:
                better = sign(direction(rows[0].metric))
                of = families.setdefault(family(rows[0].dataset), {})
                scenario = str(rows[0].scenario)
                scores = {
                    row.algorithm: [better * score for score in row.by_replicate]
                    for row in rows
                    if row.rank is not None
                }
                of[scenario] = max(of.get(scenario, {}), scores, key=len)
        compared = across(families)
        if compared is not None:
            found[name] = compared
    return found


def _at_budget(group: Group) -> tuple[Group, float | None]:
    """The runs with their scores at the least cost that any of them spent, and that cost.

    Runs that cost nothing (they never send, say) set no budget; those that diverged keep their score.
    """
    ends = [run.curve[-1][0] for runs in group.values() for run in runs if run.curve]
    budget = min((end for end in ends if end > 0), default=None)
    if budget is None:
        return group, None

    def score(run: FinalRun) -> float:
        within = [value for cost, value in run.curve if cost <= budget]
        return within[-1] if run.curve else run.score

    cut = {name: [replace(run, score=score(run)) for run in runs] for name, runs in group.items()}
    return cut, budget


def _rank(
    group: Group, trials: Trials, target: float | None, margin: float | None
) -> tuple[list[Row], tuple[Difference, ...]]:
    """A group's rows, best first, and all its pairs."""
    group, budget = _at_budget(group)
    first = next(iter(group.values()))[0]
    better = sign(direction(first.metric))
    scores = {name: {run.draw: run.score for run in runs} for name, runs in group.items()}
    estimates = {name: mean_of(found) for name, found in scores.items()}
    means = {name: found.mean for name, found in estimates.items()}
    reference = {name: any(run.unranked for run in runs) for name, runs in group.items()}
    names = sorted(group, key=lambda name: (reference[name], -better * means[name], name))
    rivals = [name for name in names if not reference[name]]
    ranked = {name: scores[name] for name in rivals}
    pairs = differences(ranked, better)
    references = {name: scores[name] for name in names if reference[name]}
    shown = behind_best(ranked, better, margin, references)
    ranks = {
        name: 1 + sum(round(better * (means[i] - means[name]), DIGITS) > 0 for i in rivals)
        for name in rivals
    }
    between = intervals({name: estimates[name] for name in rivals})
    between |= {name: estimates[name].interval() for name in references}
    sweeps = " + ".join(dict.fromkeys(run.sweep for runs in group.values() for run in runs))
    rows = []
    for name in names:
        runs, mean = group[name], means[name]
        chosen = _chosen(runs)
        behind = better * (means[names[0]] - mean)
        of = shown.get(name)
        low, high = between[name]
        rows.append(
            Row(
                **_identity(chosen[0]),
                rank=ranks.get(name),
                tied=list(ranks.values()).count(ranks.get(name, 0)) > 1,
                mean=mean,
                ci_low=low,
                ci_high=high,
                seeds=len(runs),
                failed_seeds=sum(run.diverged for run in runs),
                trials=trials.get((runs[0].sweep, runs[0].entry_id), 0),
                **_to_target(runs, target),
                worst_clients=_mean(run.worst for run in runs),
                client_spread=_mean(run.spread for run in runs),
                **_spent(runs),
                behind=behind,
                behind_low=None if of is None else of.low,
                behind_high=None if of is None else of.high,
                within_noise=not of.beaten_by if of and name in ranked else None,
                beaten_by=of.beaten_by if of else (),
                equivalent=None if of is None or margin is None else of.tie,
                budget=budget,
                outside=next((run.outside for run in runs if run.outside), ""),
                away=next((run.away for run in runs if run.away), "") if name in ranks else "",
                sweeps=sweeps,
                runs=tuple(run.run_id for run in runs),
                over=estimates[name].over,
                units=units(scores[name]),
                tunings=len({run.tuning for run in runs}),
                partitions=len({run.partition for run in runs}),
                spread=spreads(scores[name]),
                selected=_mean(run.selected for run in runs),
                chosen=tuple(run.run_id for run in chosen),
                by_replicate=tuple(fmean(r.score for r in of) for of in _replicates(runs)),
                lacking=runs[0].lacking,
            )
        )
    return rows, pairs


def _chosen(runs: Sequence[FinalRun]) -> Sequence[FinalRun]:
    """The runs of the tuning whose winner validates best over its final seeds: test scores choose nothing."""
    tunings = _replicates(runs)
    if len(tunings) == 1:
        return runs

    def validated(found: Sequence[FinalRun]) -> float:
        mean = _mean(run.validated for run in found)
        return float("-inf") if mean is None else mean

    return max(tunings, key=validated)


def _replicates(runs: Sequence[FinalRun]) -> list[list[FinalRun]]:
    """The runs by the search whose winner they repeat."""
    found: dict[tuple[int, ...], list[FinalRun]] = {}
    for run in runs:
        found.setdefault(run.replicate, []).append(run)
    return list(found.values())


def _identity(run: FinalRun) -> dict[str, Any]:
    same = ("algorithm", "paper", "sweep", "study", "entry_id", "page", "warm")
    found = {key: getattr(run, key) for key in same} | run.scenario.names()
    return {**found, "metric": f"test_{run.metric}", "params": dict(run.params)}


def _spent(runs: Sequence[FinalRun]) -> dict[str, Any]:
    return {key: fmean(run.spent[key] for run in runs) for key in COUNTED}


def _to_target(runs: Sequence[FinalRun], target: float | None) -> dict[str, Any]:
    rounds = [run.reached.get("reached_round", float("inf")) for run in runs]
    hit = [run.reached for run in runs if run.reached]
    median = median_low(rounds) if hit else float("inf")
    return {
        "rounds_to_target": _mean(of["reached_round"] for of in hit),
        "median_rounds_to_target": None if median == float("inf") else median,
        "client_steps_to_target": _mean(of["reached_client_steps"] for of in hit),
        "bytes_to_target": _mean(of["reached_bytes"] for of in hit),
        "reached_share": None if target is None else len(hit) / len(runs),
    }


def _mean(values: Any) -> float | None:
    """The mean, or None where a value is missing or there is none."""
    found = list(values)
    return None if not found or None in found else fmean(found)
