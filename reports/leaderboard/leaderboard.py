"""Leaderboards: final runs in, rows with means, intervals, paired differences and ranks out.

Runs are compared within a group (`reports.leaderboard.comparable`), and algorithms over all groups
(`reports.leaderboard.statistics`). References stand below, without a rank, and take no part in tests.

At equal rounds a score is that of the whole run. At equal steps or bytes the group's budget is the
least that any of its runs spent, and a score is that of the last evaluation within it: a mean of
several would reach back to where a costly method had hardly begun.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median_low
from typing import Any

from reports.leaderboard.best import behind_best
from reports.leaderboard.board import Leaderboard, Row
from reports.leaderboard.comparable import FinalRun, Group, Trials, matched
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
from trials.scoring.metrics import COUNTED, direction, sign


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
        notes=tuple(notes),
    )


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
    reference = {name: any(run.reference for run in runs) for name, runs in group.items()}
    names = sorted(group, key=lambda name: (reference[name], -better * means[name], name))
    rivals = [name for name in names if not reference[name]]
    ranked = {name: scores[name] for name in rivals}
    pairs = differences(ranked, better)
    shown = behind_best(rivals, pairs, margin)
    ranks = {
        name: 1 + sum(round(better * (means[i] - means[name]), DIGITS) > 0 for i in rivals)
        for name in rivals
    }
    between = intervals({name: estimates[name] for name in rivals})
    between |= {name: estimates[name].interval() for name in names if reference[name]}
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
                within_noise=None if of is None else not of.beaten_by,
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
                chosen=tuple(run.run_id for run in chosen),
                by_replicate=tuple(fmean(r.score for r in of) for of in _replicates(runs)),
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
