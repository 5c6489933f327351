"""Leaderboards: final runs in, rows with means, intervals, paired differences and ranks out.

Runs are compared within a group (`reports.leaderboard.leaderboard`), and algorithms over all groups
(`reports.leaderboard.statistics`). References stand below, without a rank, and take no part in tests.

At equal rounds a score is that of the whole run. At equal steps or bytes the group's budget is the
least that any of its runs spent, and a score is that of the last evaluation within it: a mean of
several would reach back to where a costly method had hardly begun.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from math import inf, isnan, nan
from statistics import fmean, median_low
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.leaderboard.board import Leaderboard, Row
from reports.leaderboard.replication import (
    Difference,
    Draw,
    behind_best,
    differences,
    intervals,
    mean_of,
    spreads,
    units,
)
from reports.leaderboard.statistics import DIGITS, Across, across
from trials.datasets import family
from trials.run.spec import Scenario
from trials.scoring.metrics import COUNTED, TASKS, direction, sign

if TYPE_CHECKING:
    import pandas as pd

Trials = Mapping[tuple[str, str], int]
"""Search trials of each (sweep, scenario), in one of its replicates."""


class ComparisonTerms(NamedTuple):
    """On what terms a sweep answered a question; equal terms are comparable."""

    split: str
    settings: str
    trials: int

    def against(self, other: "ComparisonTerms") -> str:
        """Say how other terms differ."""
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


Group = dict[str, list[Any]]
"""The final runs of comparable scenarios by algorithm, each a row with its columns as attributes."""


def matched(runs: "pd.DataFrame", trials: Trials) -> tuple[list[Group], list[str]]:
    """Return comparable runs together, in order of first appearance, and what is to be said about those
    that are not.

    An algorithm that several sweeps answered for on equal terms counts once, with the last of them.
    """
    groups: list[Group] = []
    notes: list[str] = []
    # Warm-started runs are another question.
    for question, asked in runs.groupby([*Scenario._fields, "warm"], sort=False):
        scenario = Scenario(*map(str, question[:-1]))
        alike: dict[ComparisonTerms, Group] = {}
        first: dict[ComparisonTerms, str] = {}
        for sweep in asked["sweep"].unique():
            answers = asked[asked["sweep"] == sweep]
            terms = _terms(answers, trials)
            if terms not in first:
                notes += [
                    f"{scenario}: {sweep} is not comparable with {earlier} and stands apart: {terms.against(other)}."
                    for other, earlier in first.items()
                ]
                first[terms] = sweep
            group = alike.setdefault(terms, {})
            for algorithm in answers["algorithm"].unique():
                own = answers[answers["algorithm"] == algorithm]
                if algorithm in group:
                    before = group[algorithm][0].sweep
                    notes.append(
                        f"{scenario}: {algorithm} was tuned in {before} and {sweep}; {sweep} counts."
                    )
                group[algorithm] = [*own.itertuples(index=False)]
        groups += alike.values()
    return groups, notes


def _terms(answers: "pd.DataFrame", trials: Trials) -> ComparisonTerms:
    """Return the terms of a sweep. The split is that of the first draw: where the partition varies, it varies with the
    seed.
    """
    first = answers.sort_values([*Draw._fields]).iloc[0]
    entries = answers[["sweep", "entry_id"]].itertuples(index=False, name=None)
    most = max(trials.get(entry, 0) for entry in entries)
    return ComparisonTerms(first["partition_fingerprint"], first["shared"], most)


COMPARED = (
    "compared",
    "score",
    "lost",
    "curve",
    "shared",
    "warm",
    "page",
    "own_models",
    "test_samples",
)
"""The columns of final runs beside those of a sweep's table: the metric they are compared by, without `test_`; the score by it, or the
untrained model's where the run is `lost`; its course as (cost so far, score) of each evaluation, round 0 first, where runs are
compared at equal cost; the settings that comparable runs share, as JSON; whether the run was warm-started; the path of its
leaderboard row in MLflow; whether clients' own models are scored; how many test samples there are.
"""


def leaderboard(
    runs: "pd.DataFrame",
    trials: Trials,
    target: float | None,
    at: str = "rounds",
    margin: float | None = None,
) -> Leaderboard:
    """Rank final runs, a row each with the table's columns and `COMPARED`, at equal rounds, steps or bytes; what is shown to differ by
    less than `margin` ties.
    """
    groups, notes = matched(runs, trials)
    ranked = [_rank(group, trials, target, margin) for group in groups]
    metrics = runs["compared"].unique().tolist()
    protocol = "tuned on validation, ranked by fresh seeds on test"
    return Leaderboard(
        study=", ".join(sorted(runs["study"].unique())),
        metric=", ".join(f"test_{name}" for name in metrics),
        direction=", ".join(map(direction, metrics)),
        protocol=protocol if at == "rounds" else f"{protocol}, at equal {at}",
        at=at,
        target=target,
        rows=tuple(row for rows, _ in ranked for row in rows),
        differences=tuple((rows[0].group, pairs) for rows, pairs in ranked),
        overall=_overall([rows for rows, _ in ranked]),
        notes=tuple(notes),
    )


def _overall(groups: Sequence[Sequence[Row]]) -> dict[str, Across]:
    """Return algorithms over families of data sets, by metric; warm-started scenarios apart. Of groups that ask the same
    question on other terms, the one with the most algorithms counts, so that none counts twice.
    """
    compared: dict[str, dict[str, dict[str, dict[str, list[float]]]]] = {}
    for rows in groups:
        better = sign(direction(rows[0].metric))
        families = compared.setdefault(rows[0].compared_as, {})
        scenarios = families.setdefault(family(rows[0].dataset), {})
        ranked = [row for row in rows if row.rank is not None]
        scores = {row.algorithm: [better * mean for mean in row.by_replicate] for row in ranked}
        scenario = str(rows[0].scenario)
        scenarios[scenario] = max(scenarios.get(scenario, {}), scores, key=len)
    tested = {name: across(families) for name, families in compared.items()}
    return {name: result for name, result in tested.items() if result is not None}


def _at_budget(group: Group) -> tuple[Group, float | None]:
    """Return the runs with their scores at the least cost that any of them spent, and that cost.

    Runs that cost nothing (they never send, say) set no budget; those that diverged keep their score.
    """
    ends = [run.curve[-1][0] for runs in group.values() for run in runs if run.curve]
    budget = min((end for end in ends if end > 0), default=None)
    if budget is None:
        return group, None

    def cut(run: Any) -> Any:
        within = [value for cost, value in run.curve if cost <= budget]
        return run._replace(score=within[-1]) if run.curve else run

    return {name: [*map(cut, runs)] for name, runs in group.items()}, budget


def _rank(
    group: Group, trials: Trials, target: float | None, margin: float | None
) -> tuple[list[Row], tuple[Difference, ...]]:
    """Return a group's rows, best first, and all its pairs."""
    group, budget = _at_budget(group)
    better = sign(direction(next(iter(group.values()))[0].compared))
    scores = {name: {_draw(run): run.score for run in runs} for name, runs in group.items()}
    estimates = {name: mean_of(own) for name, own in scores.items()}
    means = {name: estimate.mean for name, estimate in estimates.items()}
    reference = {name: any(run.reference for run in runs) for name, runs in group.items()}
    names = sorted(group, key=lambda name: (reference[name], -better * means[name], name))
    rivals = [name for name in names if not reference[name]]
    pairs = differences({name: scores[name] for name in rivals}, better)
    shown = behind_best(rivals, pairs, margin)
    ranks = {
        name: 1 + sum(round(better * (means[i] - means[name]), DIGITS) > 0 for i in rivals)
        for name in rivals
    }
    between = {name: estimates[name].interval() for name in names}
    between |= intervals({name: estimates[name] for name in rivals})
    sweeps = " + ".join(dict.fromkeys(run.sweep for runs in group.values() for run in runs))
    rows = []
    for name in names:
        runs, behind = group[name], shown.get(name)
        low, high = between[name]
        row = Row(
            **_method(runs, name in ranks),
            **_cost(runs, target),
            **_search(runs, trials),
            sweeps=sweeps,
            budget=budget,
            metric=f"test_{runs[0].compared}",
            rank=ranks.get(name),
            tied=list(ranks.values()).count(ranks.get(name, 0)) > 1,
            mean=means[name],
            ci_low=low,
            ci_high=high,
            over=estimates[name].over,
            units=units(scores[name]),
            seeds=len(runs),
            failed_seeds=sum(run.lost for run in runs),
            spread=spreads(scores[name]),
            by_replicate=tuple(fmean(run.score for run in own) for own in _replicates(runs)),
            behind=better * (means[names[0]] - means[name]),
            behind_low=None if behind is None else behind.low,
            behind_high=None if behind is None else behind.high,
            within_noise=None if behind is None else not behind.beaten_by,
            beaten_by=behind.beaten_by if behind else (),
            equivalent=None if behind is None or margin is None else behind.tie,
            worst_clients=_mean(run.worst_clients for run in runs),
            client_spread=_mean(run.client_spread for run in runs),
            test_samples=min(run.test_samples for run in runs),
        )
        rows.append(row)
    return rows, pairs


def _method(runs: Sequence[Any], ranked: bool) -> dict[str, Any]:
    return {
        "algorithm": runs[0].algorithm,
        "paper": runs[0].paper,
        **Scenario.of(runs[0]).names(),
        "params": json.loads(_chosen(runs)[0].params),
        "outside": next((run.outside for run in runs if run.outside), ""),
        "away": next((run.away for run in runs if run.away), "") if ranked else "",
        "own_models": any(run.own_models for run in runs),
    }


def _cost(runs: Sequence[Any], target: float | None) -> dict[str, Any]:
    hit = [run for run in runs if not isnan(run.reached_round)]
    median = median_low(inf if isnan(run.reached_round) else run.reached_round for run in runs)
    return {
        **{key: fmean(getattr(run, key) for run in runs) for key in COUNTED},
        "rounds_to_target": _mean(run.reached_round for run in hit),
        "median_rounds_to_target": None if median == inf else median,
        "client_steps_to_target": _mean(run.reached_client_steps for run in hit),
        "bytes_to_target": _mean(run.reached_bytes for run in hit),
        "reached_share": None if target is None else len(hit) / len(runs),
    }


def _search(runs: Sequence[Any], trials: Trials) -> dict[str, Any]:
    chosen = _chosen(runs)
    return {
        **{key: getattr(chosen[0], key) for key in ("sweep", "study", "entry_id", "page", "warm")},
        "trials": trials.get((runs[0].sweep, runs[0].entry_id), 0),
        "tunings": len({run.tuning for run in runs}),
        "partitions": len({run.partition for run in runs}),
        "runs": tuple(run.run_id for run in runs),
        "chosen": tuple(run.run_id for run in chosen),
    }


def _chosen(runs: Sequence[Any]) -> Sequence[Any]:
    """Return the runs of the tuning whose winner validates best over its final seeds: test scores choose nothing."""

    def validated(own: Sequence[Any]) -> float:
        mean = _mean(run.val_score for run in own)
        return -inf if mean is None else TASKS[own[0].metric].sign * mean

    return max(_replicates(runs), key=validated)


def _replicates(runs: Sequence[Any]) -> list[list[Any]]:
    """Return the runs by the search whose winner they repeat."""
    replicates: dict[tuple[int, ...], list[Any]] = {}
    for run in runs:
        replicates.setdefault(_draw(run)[:-1], []).append(run)
    return list(replicates.values())


def _draw(run: Any) -> Draw:
    return Draw(run.split, run.partition, run.tuning, run.seed)


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean, or None where a value is missing or there is none."""
    numbers = [value if value is not None else nan for value in values]
    mean = fmean(numbers) if numbers else nan
    return None if isnan(mean) else mean
