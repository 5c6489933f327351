"""The primary analysis of an edition, from what the bank holds of it: methods against FedAvg (docs/edition3.md).

python benchmarks/edition.py --output docs/results/edition3.md
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from reports.leaderboard.statistics import corrected, interval
from suite import bank
from suite.studies.study import read_study

BASE = "fedavg"
SCENARIO = ["study", "family", "dataset", "model", "heterogeneity"]
UNIT = ["tuning", "partition", "split"]
LEAST_UNITS, LEAST_FAMILIES = 8, 6
"""Fewer units say nothing of methods, and fewer families nothing of all of them."""
Studies = Mapping[str, tuple[int, int]]
"""How many methods and final runs of each a study has, by its name."""
STUDIES = Path(__file__).parents[1] / "search_spaces" / "studies" / "edition3"


def planned() -> Studies:
    """Those of the edition."""
    read = [read_study(str(path), {}) for path in sorted(STUDIES.glob("*.yaml"))]
    return {name: (len(study.algorithms), study.seeds) for name, study in read}


def gaps(trials: pd.DataFrame, studies: Studies) -> pd.DataFrame:
    """The mean test score of each method's final runs less that of FedAvg in the same unit: a row a unit and method.

    A unit counts when every method of its scenario has all final runs of its study there.
    """
    finals = trials[(trials.kind == "final") & trials.study.isin(list(studies))]
    keys = [*SCENARIO, *UNIT]
    of = finals.groupby([*keys, "algorithm"]).test_score.agg(["mean", "size"]).reset_index()
    of["whole"] = of["size"] == of.study.map({name: seeds for name, (_, seeds) in studies.items()})
    methods = {name: count for name, (count, _) in studies.items()}
    there = of[of.whole].groupby(keys).algorithm.transform("size")
    of = of[of.whole].assign(there=there)
    of = of[of.there == of.study.map(methods)]
    base = of[of.algorithm == BASE].set_index(keys)["mean"]
    of = of.join(base.rename("base"), on=keys)
    of["gap"] = 100 * (of["mean"] - of.base)
    return of[of.algorithm != BASE]


def effects(found: pd.DataFrame) -> pd.DataFrame:
    """Each scenario's and method's mean gap in points, its interval, and the units that it is from."""
    rows = []
    for key, of in found.groupby(SCENARIO):
        methods = of.algorithm.nunique()
        for algorithm, one in of.groupby("algorithm"):
            enough = len(one) >= LEAST_UNITS
            low, high = interval(list(one.gap), corrected(methods)) if enough else (None, None)
            rows.append(
                {
                    **dict(zip(SCENARIO, key, strict=True)),
                    "algorithm": algorithm,
                    "units": len(one),
                    "base": 100 * one.base.mean(),
                    "gap": one.gap.mean(),
                    "low": low,
                    "high": high,
                }
            )
    return pd.DataFrame(rows)


def answer(table: pd.DataFrame) -> list[str]:
    """What is shown of each method over families, in words."""
    lines = []
    methods = sorted(table.algorithm.unique())
    for method in methods:
        of = table[(table.algorithm == method) & (table.units >= LEAST_UNITS)]
        families = of.groupby("family").gap.mean()
        ahead, behind = (of.low > 0).sum(), (of.high < 0).sum()
        text = (
            f"- {method}: ahead of FedAvg in {ahead}, behind it in {behind} of {len(of)} scenarios"
        )
        if len(families) >= LEAST_FAMILIES:
            low, high = interval(list(families), corrected(5))
            text += f"; over {len(families)} families {families.mean():+.2f} points [{low:.2f}, {high:.2f}]"
        lines.append(f"{text}.")
    return lines


def page(trials: pd.DataFrame, studies: Studies) -> str:
    """The page, in Markdown."""
    table = effects(gaps(trials, studies))
    done = len(table.groupby(SCENARIO)) if len(table) else 0
    hours = trials[trials.study.isin(list(studies))].seconds.sum() / 3600
    count = int(trials.study.isin(list(studies)).sum())
    head = HEAD.format(done=done, trials=count, hours=f"{hours:.2f}")
    if not done:
        return head + "\nNo unit is complete yet, so nothing is said of any method.\n"
    lines = ["| scenario | units | FedAvg | method | against FedAvg, points | |", "|---" * 6 + "|"]
    for row in table.to_dict("records"):
        name = f"`{row['dataset']}` {row['model']} {row['heterogeneity']}"
        sure = row["low"] is not None and row["low"] == row["low"]
        text = f"{row['gap']:+.2f}" + (f" [{row['low']:.2f}, {row['high']:.2f}]" if sure else "")
        shown = (
            ("ahead" if row["low"] > 0 else "behind" if row["high"] < 0 else "not shown to differ")
            if sure
            else "of these configurations"
        )
        lines.append(
            f"| {name} | {row['units']} | {row['base']:.1f} | {row['algorithm']} | {text} | {shown} |"
        )
    families = table[table.units >= LEAST_UNITS].family.nunique()
    note = (
        ""
        if families >= LEAST_FAMILIES
        else f"\nUnits of {families} families are complete: too few to say anything of methods beyond these scenarios.\n"
    )
    return "\n".join(
        [head, "## Answer so far", "", *answer(table), note, "## Scenarios", "", *lines, ""]
    )


HEAD = """# The third edition: what came out so far

```
make board HOURS=2.5                                              # goes on, and writes this page
python benchmarks/edition.py --output docs/results/edition3.md    # writes it from the tables that are there
```

[The design](../edition3.md) was written before. Complete units are there of {done} scenarios; {trials} trials in {hours} hours of one core.
"""


def main() -> None:
    """Entry point."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--bank", type=Path, default=Path("search_spaces/bank"))
    asked.add_argument("--output", type=Path)
    args = asked.parse_args()
    text = page(bank.load(args.bank), planned())
    if args.output:
        args.output.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
