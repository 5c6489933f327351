"""Leaderboards: rows with means, intervals, paired differences and ranks, computed from final runs.

Runs are compared within a group: the runs of one scenario with equal settings, data split and number of search trials.
`reports.leaderboard.statistics` compares algorithms over all groups. Reference methods stand below without a rank, and
take no part in tests.

At equal rounds a run is scored as a whole. At equal steps, bytes or seconds the budget of a group is the smallest cost of any of
its runs. A run is then scored at its last evaluation within that budget. A mean over several evaluations would include
some at which a costly method had hardly begun to train.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from math import inf, isnan, nan
from statistics import fmean, median_low
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.leaderboard.board import Contest, Leaderboard, Row
from reports.leaderboard.replication import (
    Difference,
    Draw,
    Mean,
    behind_best,
    differences,
    intervals,
    mean_of,
    spreads,
    units,
)
from reports.leaderboard.statistics import DIGITS, Across, across
from trials.common.lazy import Lazy
from trials.common.mappings import stated
from trials.datasets import family
from trials.run.spec import Scenario
from trials.scoring.metrics import COUNTED, TASKS, direction, sign

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Lazy("pandas")

Trials = Mapping[tuple[str, str], int]
"""The number of search trials by (sweep, entry id), in one replicate of the search."""
SEARCH = [*Draw._fields[:-1]]
"""The columns that are equal in all final runs of one search's winner: split, partition, tuning."""


class ComparisonTerms(NamedTuple):
    """The conditions under which a sweep tuned and ran its methods in a scenario. Only sweeps with equal conditions are compared.
    `split` is the fingerprint of the partition of the data in the first final run. `settings` are those that all methods
    share, as JSON. `trials` is the largest number of search trials of any method.
    """

    split: str
    settings: str
    trials: int

    def against(self, other: "ComparisonTerms") -> str:
        """Return how these terms differ from another sweep's, such as "rounds 20 against 40"."""
        differences = []
        if self.split != other.split:
            differences.append(f"another split (fingerprint {self.split} against {other.split})")
        mine, theirs = json.loads(self.settings), json.loads(other.settings)
        for key in sorted(mine.keys() | theirs):
            if mine.get(key) != theirs.get(key):
                differences.append(f"{key} {mine.get(key)} against {theirs.get(key)}")
        if self.trials != other.trials:
            differences.append(f"{self.trials} against {other.trials} search trials")
        return ", ".join(differences)


Group = dict[str, "pd.DataFrame"]
"""The comparable final runs of a scenario, by algorithm: a data frame with a row per run."""


def matched(runs: "pd.DataFrame", trials: Trials) -> tuple[list[Group], list[str]]:
    """Return the groups of comparable runs, and notes on what is not compared. Groups are in order of first appearance. A note names
    a sweep that differs from earlier ones, or an algorithm that several comparable sweeps ran. Of such an algorithm only the
    last sweep's runs count.
    """
    groups: list[Group] = []
    notes: list[str] = []
    # Warm-started runs begin from a tuned configuration, so they are not compared with others.
    for key, same in runs.groupby([*Scenario._fields, "warm"], sort=False):
        scenario = Scenario(*map(str, key[:-1]))
        alike: dict[ComparisonTerms, Group] = {}
        first: dict[ComparisonTerms, str] = {}
        for sweep in same["sweep"].unique().tolist():
            finals = same[same["sweep"] == sweep]
            draw = finals.sort_values([*Draw._fields]).iloc[0]
            entries = finals[["sweep", "entry_id"]].itertuples(index=False, name=None)
            most = max(trials.get(entry, 0) for entry in entries)
            terms = ComparisonTerms(draw["partition_fingerprint"], draw["shared"], most)
            if terms not in first:
                for other, earlier in first.items():
                    apart = f"{sweep} is not comparable with {earlier} and stands apart"
                    notes.append(f"{scenario}: {apart}: {terms.against(other)}.")
                first[terms] = sweep
            group = alike.setdefault(terms, {})
            for algorithm in finals["algorithm"].unique().tolist():
                if algorithm in group:
                    before = group[algorithm]["sweep"].iloc[0]
                    twice = f"{algorithm} was tuned in {before} and {sweep}"
                    notes.append(f"{scenario}: {twice}; {sweep} counts.")
                group[algorithm] = finals[finals["algorithm"] == algorithm]
        groups += alike.values()
    return groups, notes


COMPARED = (
    "compared", "score", "lost", "curve", "shared", "warm", "page", "own_models", "test_samples",
)  # fmt: skip
"""The columns that final runs need beside those of a sweep's table.

`compared` is the metric to compare by, without `test_`; `score` is the run's value of it, or the untrained model's if the run
is `lost` (diverged). `curve` has (cost so far, score) of each evaluation from round 0 on, if runs are compared at equal cost.
`shared` are the settings that comparable runs have in common, as JSON; `warm` says whether the run was warm-started. `page`
is the path of its leaderboard row in MLflow; `own_models` says whether the clients' own models are scored.
"""


def leaderboard(
    runs: "pd.DataFrame",
    trials: Trials,
    target: float | None,
    at: str = "rounds",
    margin: float | None = None,
) -> Leaderboard:
    """Return the leaderboard of final runs at equal rounds, steps, bytes or simulated seconds (`at`). `runs` has one row
    per final run, with the columns of a sweep's table and those of `COMPARED`. With a `target` test score, rows also tell after
    how many rounds runs reach the target. A method is marked as equivalent to the best if it is shown to be at most `margin` behind.
    """
    groups, notes = matched(runs, trials)
    ranked: list[list[Row]] = []
    pairs: list[tuple[Contest, tuple[Difference, ...]]] = []
    for group in groups:
        rows, differing = _rank(group, trials, target, margin)
        ranked.append(rows)
        pairs.append((rows[0].group, differing))
    metrics = runs["compared"].unique().tolist()
    protocol = "tuned on validation, ranked by fresh seeds on test"
    return Leaderboard(
        study=", ".join(sorted(runs["study"].unique())),
        metric=", ".join(map("test_{}".format, metrics)),
        direction=", ".join(map(direction, metrics)),
        protocol=protocol if at == "rounds" else f"{protocol}, at equal {at}",
        at=at,
        target=target,
        rows=tuple(chain.from_iterable(ranked)),
        differences=tuple(pairs),
        overall=_overall(ranked),
        notes=tuple(notes),
    )


def _overall(groups: Sequence[Sequence[Row]]) -> dict[str, Across]:
    """Compare the algorithms over families of data sets, for each metric. Warm-started scenarios are compared separately."""
    compared: dict[str, dict[str, dict[str, dict[str, list[float]]]]] = {}
    for rows in groups:
        better = sign(direction(rows[0].metric))
        scores: dict[str, list[float]] = {}
        for row in rows:
            if row.rank is not None:
                scores[row.algorithm] = [better * mean for mean in row.by_replicate]
        name = rows[0].metric + ", warm-started" * rows[0].warm
        families = compared.setdefault(name, {})
        scenarios = families.setdefault(family(rows[0].dataset), {})
        # A scenario counts once, so of several groups with different terms the one with most methods is taken.
        scenario = str(rows[0].scenario)
        scenarios[scenario] = max(scenarios.get(scenario, {}), scores, key=len)
    return stated({name: across(families) for name, families in compared.items()})


def _at_budget(group: Group) -> tuple[Group, float | None]:
    """Return the runs with their scores at the group's budget, and the budget. The budget is the smallest total cost above
    0 of any run. Runs without a curve of cost and score keep their scores. If no run has a cost, as in comparisons at equal
    rounds, return the runs unchanged, and None.
    """
    budget = inf
    for runs in group.values():
        for curve in filter(None, runs["curve"]):
            budget = min(budget, curve[-1][0] or inf)
    if budget == inf:
        return group, None
    cut: Group = {}
    for name, runs in group.items():
        scores = []
        for score, curve in zip(runs["score"], runs["curve"], strict=True):
            within = [value for cost, value in curve if cost <= budget]
            scores.append(within[-1] if curve else score)
        cut[name] = runs.assign(score=scores)
    return cut, budget


def _rank(
    group: Group, trials: Trials, target: float | None, margin: float | None
) -> tuple[list[Row], tuple[Difference, ...]]:
    """Return a group's rows, and the differences between all pairs of ranked methods. The best row comes first, and unranked rows come last."""
    group, budget = _at_budget(group)
    first = next(iter(group.values())).iloc[0]
    better = sign(direction(first["compared"]))
    scores: dict[str, dict[Draw, float]] = {}
    estimates, means, rivals = dict[str, Mean](), dict[str, float](), list[str]()
    for name, runs in group.items():
        draws = map(Draw._make, runs[[*Draw._fields]].itertuples(index=False))
        scores[name] = dict(zip(draws, runs["score"], strict=True))
        estimates[name] = mean_of(scores[name])
        means[name] = estimates[name].mean
        if not runs["reference"].any():
            rivals.append(name)
    names = sorted(group, key=lambda name: (name not in rivals, -better * means[name], name))
    rivals = names[: len(rivals)]
    pairs = differences({name: scores[name] for name in rivals}, better)
    shown = behind_best(rivals, pairs, margin)
    ranks: dict[str, int] = {}
    for name in rivals:
        gaps = (round(better * (means[rival] - means[name]), DIGITS) > 0 for rival in rivals)
        ranks[name] = 1 + sum(gaps)
    between = {name: estimate.interval() for name, estimate in estimates.items()}
    # References are not ranked, so they take no part in the pooled error.
    between |= intervals({name: estimates[name] for name in rivals})
    sweeps = " + ".join(pd.concat(group.values())["sweep"].unique())
    rows = []
    for name in names:
        runs, behind = group[name], shown.get(name)
        low, high = between[name]
        row = Row(
            **_facts(runs, trials),
            **_cost(runs, target),
            away=next(filter(None, runs["away"]), "") if name in ranks else "",
            sweeps=sweeps,
            budget=budget,
            metric=f"test_{first['compared']}",
            rank=ranks.get(name),
            tied=list(ranks.values()).count(ranks.get(name, 0)) > 1,
            mean=means[name],
            ci_low=low,
            ci_high=high,
            over=estimates[name].over,
            units=units(scores[name]),
            seeds=len(runs),
            failed_seeds=int(runs["lost"].sum()),
            spread=spreads(scores[name]),
            by_replicate=tuple(fmean(own) for _, own in runs.groupby(SEARCH, sort=False)["score"]),
            behind=better * (means[names[0]] - means[name]),
            behind_low=None if behind is None else behind.low,
            behind_high=None if behind is None else behind.high,
            within_noise=None if behind is None else not behind.beaten_by,
            beaten_by=behind.beaten_by if behind else (),
            equivalent=None if behind is None or margin is None else behind.tie,
            worst_clients=_mean(runs["worst_clients"]),
            client_spread=_mean(runs["client_spread"]),
            test_samples=int(runs["test_samples"].min()),
        )
        rows.append(row)
    return rows, pairs


def _facts(runs: "pd.DataFrame", trials: Trials) -> dict[str, Any]:
    """Return the fields of a leaderboard row that identify its method and search."""

    def validated(replicate: "pd.DataFrame") -> float:
        mean = _mean(replicate["val_score"])
        return -inf if mean is None else TASKS[replicate["metric"].iloc[0]].sign * mean

    # Test scores must choose nothing: the row shows the winner with the best mean validation score.
    chosen = max((own for _, own in runs.groupby(SEARCH, sort=False)), key=validated)
    run: Any = next(chosen.itertuples(index=False))
    copied = ("algorithm", "paper", "sweep", "study", "entry_id", "page", "warm")
    return {
        **{key: getattr(run, key) for key in (*copied, *Scenario._fields)},
        "params": json.loads(run.params),
        "outside": next(filter(None, runs["outside"]), ""),
        "own_models": bool(runs["own_models"].any()),
        "trials": trials.get((run.sweep, run.entry_id), 0),
        "tunings": runs["tuning"].nunique(),
        "partitions": runs["partition"].nunique(),
        "runs": tuple(runs["run_id"]),
        "chosen": tuple(chosen["run_id"]),
    }


def _cost(runs: "pd.DataFrame", target: float | None) -> dict[str, Any]:
    hit = runs[runs["reached_round"].notna()]
    # A run that never reached the target is later than all others; of an even number of runs the lower middle counts.
    median = median_low(runs["reached_round"].fillna(inf))
    return {
        **{key: fmean(runs[key]) for key in COUNTED},
        "rounds_to_target": _mean(hit["reached_round"]),
        "median_rounds_to_target": None if median == inf else median,
        "client_steps_to_target": _mean(hit["reached_client_steps"]),
        "bytes_to_target": _mean(hit["reached_bytes"]),
        "reached_share": None if target is None else len(hit) / len(runs),
    }


def _mean(values: "pd.Series[float]") -> float | None:
    """Return the mean, or None if there are no values or one is missing."""
    mean = fmean(values.astype(float)) if len(values) else nan
    return None if isnan(mean) else mean
