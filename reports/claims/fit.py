"""Which readings of a paper explain its baselines' numbers, and what the paper's own method does under them.

A reading is named by its picks, open setting -> candidate. It is fitted on the baselines alone: nothing
here that decides whether it explains them is given a number of the paper's own method.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from reports.claims.metrics import Metric, Runs, measured, metric
from reports.claims.verdicts import (
    NOISY,
    NOT_RUN,
    REPRODUCED,
    AgreementRange,
    Printed,
    VerdictSummary,
    printed,
    standing,
    summary,
)
from trials.common.errors import UserError

Numbers = Mapping[str, Mapping[str, Any]]
"""Printed numbers of a row: metric -> method -> number."""

FAR = 10.0
"""How many tolerances a number counts as off at most; so does a target that was never reached, or that was
and should not have been, and a run that diverged."""

HOLDS, DEPENDS, FAILS, UNEXPLAINED = (
    "holds",
    "depends on the reading",
    "does not hold",
    "baselines unexplained",
)
ANSWERS = (HOLDS, DEPENDS, FAILS, NOISY, UNEXPLAINED, NOT_RUN)

RULES = (
    "A reading is one candidate of each setting that the paper leaves open. All are run with one seed on the "
    "baselines' rows, up to the round after which no printed number could be met any more; the best quarter, "
    "and the default reading, with all seeds.",
    "A reading **explains** the baselines when no printed number of any baseline contradicts it, and "
    "baselines whose printed numbers differ by more than a tolerance differ in that direction. A number "
    "contradicts it when it is farther from the mean over seeds than the tolerance plus half the width of the "
    "mean's 95 % Student-t interval, of which no more than another tolerance counts. Numbers of the paper's own "
    "method take no part in that.",
    "How far a number is off is counted in its tolerances, at most 10, and 10 where not every seed reaches the "
    "target; a printed 'never' counts as the last round plus one.",
    "The paper's own method is then run under every reading that explains the baselines. A claim **holds** "
    "when it is reproduced under all of them, **depends on the reading** when it is reproduced under some and not "
    "under others, **does not hold** when it is reproduced under none, and is **too noisy to say** where verdicts "
    "under some of them are. **Baselines unexplained**: there is no such reading, so nothing is said of the method. "
    "**Not run**: data, metric or experiment cannot be had, or no baseline's number is printed.",
    "What decides: each setting's share of the variance between readings (its Shapley value of R^2, one effect "
    "a candidate). 0: it does not matter, 1: nothing else does; shares add up to at most 1, and the rest is of "
    "combinations. Settings that changed together in all readings cannot be told apart and share one number.",
)


def baselines_numbers(numbers: Numbers, own: Collection[str]) -> dict[str, dict[str, Any]]:
    """The printed numbers that a fit may see: of measured metrics, of baselines, not relative to a method
    of the paper's own.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, column in numbers.items():
        try:
            wanted = metric(name)
        except UserError:
            continue
        if set(wanted.arguments) & set(own):
            continue
        seen = {method: number for method, number in column.items() if method not in own}
        if seen:
            found[name] = seen
    return found


def rounds_needed(numbers: Numbers, planned: int) -> int:
    """After how many rounds of the planned ones a run can no longer meet any of the numbers: only rounds to
    a target end early, two tolerances after the last printed one.
    """
    ends = []
    for name, column in numbers.items():
        wanted = metric(name)
        for claim in map(printed, column.values()):
            if wanted.name != "rounds_to" or claim.value is None:
                return planned
            ends.append(math.ceil(claim.value + 2 * wanted.tolerance(claim.value)))
    return min(planned, max(ends, default=planned))


def off(claim: Printed, wanted: Metric, values: Mapping[int, float], rounds: int) -> float:
    """How many tolerances the mean over seeds is from a printed number, 0 where a bound is kept; `FAR` at
    most, and wherever a seed has none where one is printed.
    """
    found = summary(values, wanted, rounds)
    if found is None:
        return FAR
    if claim.value is None:
        return min(FAR, short_of_never(wanted, found, rounds))
    if found.reached < 1 or not math.isfinite(found.mean):
        return FAR
    gap = found.mean - claim.value
    kept = (claim.relation[0] == "<" and gap <= 0) or (claim.relation[0] == ">" and gap >= 0)
    return 0.0 if kept else min(FAR, abs(gap) / wanted.tolerance(claim.value))


@dataclass(frozen=True)
class Explained:
    """A baseline's number under a reading: measured mean (None: not all of them reached the target, or they
    diverged) over `seeds`, `reached` of which have a number, how far it is off, and whether that reproduces it. `in_order`: whether it stands as printed to the baselines
    that are printed farther away than a tolerance. `spread`: the standard deviation over seeds.
    """

    method: str
    metric: str
    published: str
    measured: float | None
    seeds: int
    reached: int
    off: float
    reproduced: bool
    in_order: bool
    spread: float | None

    @property
    def explained(self) -> bool:
        """Whether nothing of the number is left to be explained."""
        return self.reproduced and self.in_order


def explain(numbers: Numbers, runs: Runs, rounds: int) -> list[Explained]:
    """Each baseline's number (`baselines_numbers`) beside what runs of at most `rounds` rounds give."""
    found = []
    for name, column in numbers.items():
        wanted = metric(name)
        claims = {method: printed(number) for method, number in column.items()}
        means = {m: _mean(measured(wanted, m, runs), wanted, rounds) for m in claims}
        for method, claim in claims.items():
            values = measured(wanted, method, runs)
            shown = summary(values, wanted, rounds)
            sound = shown is not None and shown.reached == 1 and math.isfinite(shown.mean)
            found.append(
                Explained(
                    method,
                    name,
                    str(claim),
                    shown.mean if shown is not None and sound else None,
                    len(values),
                    sum(map(math.isfinite, values.values())),
                    off(claim, wanted, values, rounds),
                    shown is not None and near(claim, wanted, shown, rounds),
                    in_order(method, _apart(method, claims, wanted), means),
                    _spread([v for v in values.values() if math.isfinite(v)]),
                )
            )
    return found


def near(claim: Printed, wanted: Metric, found: VerdictSummary, rounds: int) -> bool:
    """Whether a mean does not contradict a printed number: noise up to the tolerance is allowed for. A bound is
    kept by the whole interval.
    """
    if claim.value is None:
        return short_of_never(wanted, found, rounds) <= 1
    if claim.relation in ("=", "~"):
        tolerance = wanted.tolerance(claim.value)
        return found.reached == 1 and abs(claim.value - found.mean) <= tolerance + min(
            found.half, tolerance
        )
    agrees = AgreementRange.of(claim.relation, claim.value, 0.0)
    return found.reached in (0, 1) and agrees.holds(
        found.mean - found.half, found.mean + found.half
    )


def short_of_never(wanted: Metric, found: VerdictSummary, rounds: int) -> float:
    """How many tolerances the mean is short of a printed "never within the rounds", which counts as the last
    round plus one, as a seed does that never got there; infinite where it is no number of rounds.
    """
    if found.reached == 0:
        return 0.0
    if wanted.kind.unit != "rounds":
        return math.inf
    return (rounds + 1.0 - found.mean) / wanted.tolerance(rounds + 1.0)


def in_order(method: str, numbers: Mapping[str, Printed], means: Mapping[str, float]) -> bool:
    """Whether a method's mean is above or below each other's as printed, where both numbers are exact and differ."""
    mine = numbers[method]
    return all(
        (standing(mine, other) > 0) == (means[method] > means[name])
        and means[method] != means[name]
        for name, other in numbers.items()
        if name != method
        and {mine.relation, other.relation} <= {"=", "~"}
        and standing(mine, other) != 0
        and {method, name} <= means.keys()
    )


def _mean(values: Mapping[int, float], wanted: Metric, rounds: int) -> float:
    """Infinite where a seed is, or nothing was measured."""
    found = summary(values, wanted, rounds)
    return found.mean if found is not None and found.reached == 1 else math.inf


def _apart(method: str, claims: Mapping[str, Printed], wanted: Metric) -> dict[str, Printed]:
    """The method's number and those that are farther from it than a tolerance of the larger."""

    def far(other: Printed) -> bool:
        mine = claims[method].value
        if mine is None or other.value is None:
            return True
        return abs(other.value - mine) > wanted.tolerance(max(abs(other.value), abs(mine)))

    return {name: claim for name, claim in claims.items() if name == method or far(claim)}


def _spread(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = fmean(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))


def misfit(found: Iterable[Explained]) -> float:
    """The mean over a reading's numbers of how far they are off, in tolerances."""
    return fmean(one.off for one in found)


def effects(outcomes: Sequence[tuple[Mapping[str, int], float]]) -> dict[str, float]:
    """What each open setting explains of the outcomes' variance, whatever readings there are: its Shapley
    value of R^2(S), the share that a sum of one effect a candidate explains for the settings S (Lindeman,
    Merenda and Gold). Where all combinations are there that is Var(E[y | candidate]) / Var(y).

    Shares are at least 0 and add up to the R^2 of all settings; what is left of 1 is of combinations.
    Settings that changed together in all readings are one, `A together with B`. Largest first; empty
    where the outcomes are all equal.
    """
    y = np.array([value for _, value in outcomes])
    if len({value for _, value in outcomes}) < 2:
        return {}
    factors = _factors([picks for picks, _ in outcomes])
    explained: dict[tuple[str, ...], float] = {}
    for size in range(len(factors) + 1):
        for subset in itertools.combinations(factors, size):
            explained[subset] = _r_squared([factors[name] for name in subset], y)
    found = dict.fromkeys(factors, 0.0)
    for subset, share in explained.items():
        for name in subset:
            before = tuple(other for other in subset if other != name)
            orders = len(factors) * math.comb(len(factors) - 1, len(before))
            found[name] += (share - explained[before]) / orders
    shares = {
        name: max(0.0, share) for name, share in found.items()
    }  # less the rounding of equal ones
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _factors(readings: Sequence[Mapping[str, int]]) -> dict[str, tuple[int, ...]]:
    """Each setting's candidate by reading, numbered as they come; settings that divide the readings alike
    are one.
    """
    names: dict[tuple[int, ...], list[str]] = {}
    for name in readings[0]:
        places: dict[int, int] = {}
        column = tuple(places.setdefault(picks[name], len(places)) for picks in readings)
        names.setdefault(column, []).append(name)
    found = {}
    for column, alike in names.items():
        if any(column):
            found[" together with ".join(alike)] = column
        else:  # they never changed
            found |= dict.fromkeys(alike, column)
    return found


def _r_squared(columns: Sequence[tuple[int, ...]], y: "np.ndarray[Any, Any]") -> float:
    """The share of y's variance that least squares explains by one number a candidate of each column."""
    ones = [np.array(column) == place for column in columns for place in sorted(set(column))]
    design = np.stack([np.ones(len(y)), *ones], axis=1)
    rest = y - design @ np.linalg.lstsq(design, y)[0]
    return 1 - float(rest @ rest) / float(np.square(y - y.mean()).sum())


@dataclass(frozen=True)
class Answer:
    """What is to be said of a claim: one of `ANSWERS`, under how many of the readings that explain the
    baselines it was reproduced, and what decides where it depends on them.
    """

    verdict: str
    holds_under: list[int]
    of: int
    decided_by: dict[str, float]


def answer(
    judged: Mapping[int, str], picks: Mapping[int, Mapping[str, int]], unknown: Answer
) -> Answer:
    """The answer on a claim from its verdict under each reading that explains the baselines, by number;
    `unknown` where there is none.
    """
    ran = {number: verdict for number, verdict in judged.items() if verdict != NOT_RUN}
    holds = [number for number, verdict in ran.items() if verdict == REPRODUCED]
    noisy = [number for number, verdict in ran.items() if verdict == NOISY]
    if not judged:
        return unknown
    if not ran:
        return Answer(NOT_RUN, [], 0, {})
    if holds and len(holds) + len(noisy) < len(ran):
        word = DEPENDS
    else:
        word = NOISY if noisy else HOLDS if holds else FAILS
    outcomes = [(picks[number], float(number in holds)) for number in ran]
    return Answer(word, holds, len(ran), effects(outcomes) if word == DEPENDS else {})


def held_out(
    explaining: Mapping[str, Sequence[Mapping[str, Any]]], names: Collection[str], row: str
) -> tuple[int, int] | None:
    """Whether a row's baselines are explained by what explains the other rows' baselines: of the readings
    that explain every other row that is explained at all, as far as the settings are open in all of them
    and here (`names`), their count, and how many of them explain this row too. None where there is
    nothing to compare. `explaining`: each row's readings that explain it, as values by name.
    """
    others = [found for name, found in explaining.items() if name != row and found]
    shared = set(names)
    for found in others:
        shared &= found[0].keys()
    if not others or not shared:
        return None
    common = set.intersection(*(_projected(found, shared) for found in others))
    return len(common), len(common & _projected(explaining[row], shared))


def _projected(found: Sequence[Mapping[str, Any]], names: set[str]) -> set[tuple[str, ...]]:
    return {tuple(f"{name}={values[name]}" for name in sorted(names)) for values in found}
