"""Analyse an edition (a fixed set of studies, docs/edition3.md) from its recorded trials: methods against FedAvg.

python benchmarks/edition.py --output docs/results/edition3.md
"""

import argparse
import itertools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import optimize, stats

import plots
from measuring import ROOT, TABLES
from reports.leaderboard.statistics import corrected, interval
from suite.studies.study import read_study

BASE = "fedavg"
SCENARIO = ["study", "family", "dataset", "model", "heterogeneity"]
UNIT = ["tuning", "partition", "split"]
LEAST_UNITS, LEAST_FAMILIES = 8, 6
"""The fewest units for a claim on a method in a scenario, and the fewest families for a claim over families."""
PRIMARY = 5
"""The number of the papers' methods, whose intervals over families hold jointly."""
OVER = ["algorithm", "families", "scenarios", "ahead", "behind", "gap", "low", "high"]
COSTS = {"rounds": None, "bytes": "bytes", "work": "sample_gradients"}
"""The costs at whose equal amounts methods are compared, with the column of each."""
POWER = 0.8
Studies = Mapping[str, tuple[int, int]]
"""By study: the number of its methods, and that of the final runs of a method in a unit."""
STUDIES = ROOT / "search_spaces" / "studies" / "edition3"
DESIGN = ROOT / "docs" / "edition3.md"


def planned() -> Studies:
    """Return the studies of the edition, with their numbers of methods and final runs."""
    read = [read_study(str(path), {}) for path in sorted(STUDIES.glob("*.yaml"))]
    return {name: (len(study.algorithms), study.seeds) for name, study in read}


def gaps(trials: pd.DataFrame, studies: Studies) -> pd.DataFrame:
    """Return a row per unit and method with its `gap`: its mean test score minus FedAvg's in the same unit, in points. A unit
    is a tuning on one partition and split. It counts if all methods of its study have all final runs there.
    """
    finals = trials[(trials.kind == "final") & trials.study.isin(list(studies))]
    keys = [*SCENARIO, *UNIT]
    means = finals.groupby([*keys, "algorithm"]).test_score.agg(["mean", "size"]).reset_index()
    runs = {name: seeds for name, (_, seeds) in studies.items()}
    means["whole"] = means["size"] == means.study.map(runs)
    methods = {name: count for name, (count, _) in studies.items()}
    there = means[means.whole].groupby(keys).algorithm.transform("size")
    means = means[means.whole].assign(there=there)
    means = means[means.there == means.study.map(methods)]
    base = means[means.algorithm == BASE].set_index(keys)["mean"]
    means = means.join(base.rename("base"), on=keys)
    means["gap"] = 100 * (means["mean"] - means.base)
    return means[means.algorithm != BASE]


def effects(whole: pd.DataFrame, left: Mapping[tuple[str, ...], str] = {}) -> pd.DataFrame:
    """Return a row per scenario and method with its mean gap in points, its interval and its number of units. The intervals
    of a scenario hold jointly. `left` has, by scenario, the reason why `without` leaves it out of means.
    """
    rows = []
    for key, scenario_gaps in whole.groupby(SCENARIO):
        methods = scenario_gaps.algorithm.nunique()
        for algorithm, method_gaps in scenario_gaps.groupby("algorithm"):
            enough = len(method_gaps) >= LEAST_UNITS
            low, high = (
                interval(list(method_gaps.gap), corrected(methods)) if enough else (None, None)
            )
            rows.append(
                {
                    **dict(zip(SCENARIO, key, strict=True)),
                    "algorithm": algorithm,
                    "left": left.get(key, ""),
                    "units": len(method_gaps),
                    "base": 100 * method_gaps.base.mean(),
                    "gap": method_gaps.gap.mean(),
                    "low": low,
                    "high": high,
                }
            )
    return pd.DataFrame(rows)


def without(trials: pd.DataFrame, whole: pd.DataFrame) -> dict[tuple[str, ...], str]:
    """Return the scenarios that are left out of means over families, each with the reason. They are scenarios whose best
    method is within two standard errors of chance ("void"), and all models but logistic regression on digits, which are far
    from trained ("apart").
    """
    reasons = {}
    classes = trials.groupby(SCENARIO).classes.first()
    for key, scenario_gaps in whole.groupby(SCENARIO):
        scores = [method["mean"] for _, method in scenario_gaps.groupby("algorithm")]
        scores.append(scenario_gaps.drop_duplicates(UNIT).base)
        best = max(scores, key=np.mean)
        if best.mean() <= 1 / classes[key] + 2 * best.std() / len(best) ** 0.5:
            reasons[key] = f"void: chance is {100 / classes[key]:.1f} %"
        elif key[1] == "digits" and key[3] != "logreg":
            reasons[key] = "apart"
    return reasons


def detectable(row: Mapping[str, float]) -> float:
    """Return the difference in points that an edition shows with a probability of 80 %, given a method's mean gap and interval."""
    freedom = row["families"] - 1
    critical = stats.t.ppf(1 - (1 - corrected(PRIMARY)) / 2, freedom)
    error = (row["high"] - row["low"]) / 2 / critical

    def missed(shift: float) -> float:
        return stats.nct.cdf(critical, freedom, shift) - stats.nct.cdf(-critical, freedom, shift)

    return error * optimize.brentq(lambda shift: missed(shift) - (1 - POWER), 0.1, 9.0)


def _counted(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table.units >= LEAST_UNITS) & (table.left == "")]


def over_families(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row per method with its mean gap over families; the gap of a family is the mean over its scenarios. Only
    scenarios with `LEAST_UNITS` units count. The interval is None below `LEAST_FAMILIES` families.
    """
    rows = []
    for method, group in _counted(table).groupby("algorithm"):
        families = group.groupby("family").gap.mean()
        enough = len(families) >= LEAST_FAMILIES
        low, high = interval(list(families), corrected(PRIMARY)) if enough else (None, None)
        rows.append(
            {
                "algorithm": method,
                "families": len(families),
                "scenarios": len(group),
                "ahead": int((group.low > 0).sum()),
                "behind": int((group.high < 0).sum()),
                "gap": families.mean(),
                "low": low,
                "high": high,
            }
        )
    return pd.DataFrame(rows, columns=OVER)


def halves(table: pd.DataFrame) -> tuple[float, int] | None:
    """Return Kendall's tau-b between the rankings of methods by two halves of the families, and the number of ways to halve
    them. Tau is the mean over all ways. FedAvg's gap is 0; methods that lack a family are left out. None below
    `LEAST_FAMILIES`.
    """
    gap = _counted(table).groupby(["family", "algorithm"]).gap.mean().unstack()
    gap = gap.dropna(axis=1).assign(**{BASE: 0.0})
    if len(gap) < LEAST_FAMILIES:
        return None
    taus = []
    for half in itertools.combinations(gap.index, len(gap) // 2):
        first, second = gap.loc[list(half)].mean(), gap.drop(index=list(half)).mean()
        taus.append(stats.kendalltau(first, second).statistic)
    return float(np.mean(taus)), len(taus)


def at_equal(trials: pd.DataFrame, whole: pd.DataFrame, cost: str | None) -> pd.DataFrame:
    """Return gaps in points at an equal cost, one row per unit and method, for the units of `whole` (from `gaps`).

    In each unit and method, the search trial with the best validation score at the budget counts, with its test score there.
    The budget is the median cost of FedAvg's trials in the scenario. A method may use the share budget / (its own median
    cost) of its rounds. `cost` is a column of costs, None for rounds. Scores between two evaluations are interpolated.
    """
    keys = [*SCENARIO, *UNIT]
    search = trials[trials.kind == "search"].merge(whole[keys].drop_duplicates(), on=keys)
    if search.empty:
        return search
    if cost is None:
        share = pd.Series(1.0, index=search.index)
    else:
        spent = search[search.status == "finished"].groupby([*SCENARIO, "algorithm"])[cost].median()
        share = (spent.xs(BASE, level="algorithm") / spent).clip(upper=1).rename("share")
        share = search.join(share, on=[*SCENARIO, "algorithm"]).share
    curves = search[["evaluations", "val_curve", "test_curve", "rounds"]].assign(share=share)
    scores = list(itertools.starmap(_within, curves.itertuples(index=False, name=None)))
    search = search.assign(val=[val for val, _ in scores], test=[test for _, test in scores])
    chosen = search.loc[search.groupby([*keys, "algorithm"]).val.idxmax()]
    base = chosen[chosen.algorithm == BASE].set_index(keys).test
    chosen = chosen.join(base.rename("base"), on=keys)
    chosen = chosen.assign(gap=100 * (chosen.test - chosen.base))
    return chosen[chosen.algorithm != BASE]


def _within(
    evaluations: np.ndarray, val: np.ndarray, test: np.ndarray, rounds: int, share: float
) -> tuple[float, float]:
    """Return the validation and the test score at a share of the rounds, interpolated linearly between evaluations. For a
    trial that ended before that round they are minus infinity and 0.
    """
    last = share * rounds
    if evaluations[-1] < last - 1e-9:
        return -np.inf, 0.0
    return float(np.interp(last, evaluations, val)), float(np.interp(last, evaluations, test))


def answer(scenarios: pd.DataFrame) -> str:
    """Return a paragraph on what the rows of `effects` show."""
    table = over_families(scenarios)
    wide = table[table.low.notna()]
    if wide.empty:
        return (
            "Too few families are complete to say anything of methods beyond the scenarios below."
        )
    groups = {
        "ahead of FedAvg": wide[wide.low > 0],
        "behind FedAvg": wide[wide.high < 0],
        "not shown to differ from FedAvg": wide[(wide.low <= 0) & (wide.high >= 0)],
    }
    parts = [
        f"{_listed(group.algorithm)} {'is' if len(group) == 1 else 'are'} {says}"
        for says, group in groups.items()
        if len(group)
    ]
    points = [f"{row['algorithm']} {_gap(row)}" for row in wide.to_dict("records")]
    single = [
        f"{r.algorithm} is ahead in {r.ahead} and behind in {r.behind}" for r in wide.itertuples()
    ]
    narrow = [
        f" {r.algorithm} takes part in {r.scenarios} scenarios of {_listed(set(scenarios[scenarios.algorithm == r.algorithm].family))} alone."
        for r in table[table.low.isna()].itertuples()
    ]
    return (
        f"With equal tuning, {'; '.join(parts)} over {wide.families.max()} families of data sets. "
        f"Points of test accuracy against FedAvg, with joint 95 % intervals: {', '.join(points)}. "
        f"Of {wide.scenarios.max()} scenarios, {', '.join(single)}.{''.join(narrow)}"
    )


def _listed(names: Iterable[str]) -> str:
    *most, last = sorted(names)
    return f"{', '.join(most)} and {last}" if most else last


def page(trials: pd.DataFrame, studies: Studies) -> str:
    """Return the page of results in Markdown."""
    whole = gaps(trials, studies)
    left = without(trials, whole)
    table = effects(whole, left)
    done = len(table.groupby(SCENARIO)) if len(table) else 0
    hours = trials[trials.study.isin(list(studies))].seconds.sum() / 3600
    count = int(trials.study.isin(list(studies)).sum())
    head = HEAD.format(done=done, trials=count, hours=f"{hours:.2f}")
    if not done:
        return head + "\nNo unit is complete yet, so nothing is said of any method.\n"
    parts = [head, "## Answer", "", answer(table), ""]
    if over_families(table).low.notna().any():
        parts += [
            "![Methods against FedAvg](edition3.svg)",
            "",
            *_power(table),
            *_costs(trials, whole, left),
        ]
        parts += [*_by_family(table), *_agreement(table)]
    lines = [
        "| study | scenario | units | FedAvg | method | against FedAvg, points | |",
        "|---" * 7 + "|",
    ]
    for row in table.to_dict("records"):
        name = f"`{row['dataset']}` {row['model']} {row['heterogeneity']}"
        shown = row["left"] or (
            ("ahead" if row["low"] > 0 else "behind" if row["high"] < 0 else "not shown to differ")
            if _sure(row)
            else "of these configurations"
        )
        lines.append(
            f"| `{row['study']}` | {name} | {row['units']} | {row['base']:.1f} | {row['algorithm']} | {_gap(row)} | {shown} |"
        )
    return "\n".join([*parts, "## Scenarios", "", *lines, "", *_spent(trials, studies), ""])


def _by_family(table: pd.DataFrame) -> list[str]:
    """Return the page's section of mean gaps, with a row per family of data sets and a column per method."""
    table = _counted(table)
    methods = sorted(table.algorithm.unique())
    lines = [f"| family | scenarios | {' | '.join(methods)} |", "|---" * (len(methods) + 2) + "|"]
    for family, group in table.groupby("family"):
        cells = []
        for method in methods:
            rows = group[group.algorithm == method]
            counts = f"({(rows.low > 0).sum()}, {(rows.high < 0).sum()})"
            cells.append(f"{rows.gap.mean():+.2f} {counts}" if len(rows) else "")
        scenarios = len(group.groupby(SCENARIO))
        lines.append(f"| {family} | {scenarios} | {' | '.join(cells)} |")
    return ["## By family", "", *lines, "", FAMILIES, ""]


def _power(table: pd.DataFrame) -> list[str]:
    """Return the paragraph on the differences that could have been shown, and on the scenarios that are left out."""
    means = over_families(table)
    wide = means[means.low.notna()].to_dict("records")
    least = ", ".join(f"{row['algorithm']} {detectable(row):.1f}" for row in wide)
    void = table[table.left.str.startswith("void")].drop_duplicates(SCENARIO)
    voids = [
        f"`{row.dataset}` {row.model} {row.heterogeneity} ({row.left})" for row in void.itertuples()
    ]
    planned = over_families(table.assign(left=""))
    all_in = ", ".join(
        f"{row['algorithm']} {_gap(row)}" for row in planned.to_dict("records") if _sure(row)
    )
    return [
        POWERED.format(least=least, voids=_listed(voids) if voids else "none", all_in=all_in),
        "",
    ]


def _costs(
    trials: pd.DataFrame, whole: pd.DataFrame, left: Mapping[tuple[str, ...], str]
) -> list[str]:
    views = {
        name: over_families(effects(at_equal(trials, whole, cost), left)).set_index("algorithm")
        for name, cost in COSTS.items()
    }
    methods = [m for m, row in views["rounds"].iterrows() if row.low == row.low]
    rows = [
        f"| {m} | {' | '.join(_gap(view.loc[m].to_dict()) for view in views.values())} |"
        for m in methods
    ]
    heads = " | ".join(f"equal {name}" for name in views)
    return [
        "## At equal cost", "",
        f"| method | {heads} |", "|---" * (len(views) + 1) + "|", *rows, "", COST_NOTE, "",
    ]  # fmt: skip


def _agreement(table: pd.DataFrame) -> list[str]:
    agreement = halves(table)
    if agreement is None:
        return []
    return [
        "## Halves of the families",
        "",
        HALVES.format(tau=f"{agreement[0]:.2f}", ways=agreement[1]),
        "",
    ]


def _spent(trials: pd.DataFrame, studies: Studies) -> list[str]:
    """Return the section on each study's time, and on the expected hours of studies that did not run."""
    by_study = (
        trials[trials.study.isin(list(studies))]
        .groupby("study")
        .seconds.agg(["size", "mean", "sum"])
    )
    lines = ["| study | trials | seconds a trial | hours |", "|---" * 4 + "|"]
    lines += [
        f"| `{name}` | {row['size']:.0f} | {row['mean']:.3f} | {row['sum'] / 3600:.3f} |"
        for name, row in by_study.iterrows()
    ]
    planned = dict(
        re.findall(r"^\| `(e3_\w+)` .*\| ([^|]*?) ?\|$", DESIGN.read_text(), re.MULTILINE)
    )
    left = [
        f"`{name}` ({f'{planned[name]} hours' if planned[name] else 'not measured'})"
        for name in studies
        if name not in by_study.index
    ]
    rest = [f"Planned and not run, with the hours that the design expects: {', '.join(left)}."]
    return ["## What it took", "", SPENT, "", *lines, "", *(rest if left else []), "", VERIFIED]


def _sure(row: Mapping[str, float | None]) -> bool:
    return row["low"] is not None and row["low"] == row["low"]


def _gap(row: Mapping[str, float | None]) -> str:
    """Return a gap as text, with its interval if it has one."""
    return f"{row['gap']:+.2f}" + (f" [{row['low']:.2f}, {row['high']:.2f}]" if _sure(row) else "")


HEAD = """# The third edition: what came out

```
python benchmarks/edition.py --output docs/results/edition3.md    # writes this page from the tables
```

[The design](../edition3.md) was written before the runs, except where it says otherwise. Units are complete in {done} scenarios,
with {trials} trials in {hours} hours of one core.
"""

POWERED = """Methods that are *not shown to differ* may differ. In four of five such editions, differences of these sizes
would be shown, in points: {least}. A scenario is void if its best method is within two standard errors of chance. Void scenarios: {voids}.
The nearest is `news20` (FedAvg 5.7 %, the best 7.4 %, chance 5 %). Perceptrons on digits are left out: after 30 rounds of one epoch they are far
from trained (FedAvg 48 to 83 %). These two rules were made after the runs. With all scenarios,
results are {all_in}."""
COST_NOTE = """In this table a method's score in a unit is the test score of one search trial: the one with the best validation score when the
budget ends. Both scores are interpolated between evaluations. The budget is what FedAvg spends in all its rounds: bytes
in both directions, or samples whose gradient is taken. Intervals are over families."""
SPENT = "Seconds and hours are of one core (AMD EPYC, one thread, beside other work)."
FAMILIES = """A cell is the mean difference over a family's scenarios, in points. Brackets have the numbers of scenarios in which the method
is shown to be ahead, and behind. These counts are of single scenarios, whose units share their test samples except under `natural`."""
VERIFIED = """## Verified

With version 0.2, random trials of 16 studies, 20 of each, were run again. Scores, curves, work and bytes of all 320 trials were
identical to the table."""
HALVES = """The families can be halved in {ways} ways. Each half ranks the methods (FedAvg with 0) by their mean difference. Kendall's tau
between the two rankings is **{tau}** on average (1: the same ranking)."""


def main() -> None:
    """Write or print the page, and draw its figure."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--output", type=Path, help="the page to write; default: print it")
    output = parser.parse_args().output
    trials, studies = pd.read_parquet(TABLES), planned()
    text = page(trials, studies)
    if output is None:
        print(text)
        return
    output.write_text(text)
    whole = gaps(trials, studies)
    left = without(trials, whole)
    table = effects(whole, left)
    if over_families(table).low.notna().any():
        at_bytes = over_families(effects(at_equal(trials, whole, "bytes"), left))
        means = [
            over_families(table).assign(kind="equal rounds"),
            at_bytes.assign(kind="equal bytes"),
        ]
        plots.edition(_counted(table), pd.concat(means), output.with_suffix(".svg"))


if __name__ == "__main__":
    main()
