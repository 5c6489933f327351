"""Whether synthetic splits of data predict which methods are better on the federation that owns them.

    python benchmarks/natural.py --output docs/results/natural_against_synthetic.md

It reads the random trials of the bank. Nothing is trained.
"""

from collections.abc import Sequence
from math import comb, sqrt
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from measuring import bank_parser, write_page
from suite import bank

METHODS = ("fedavg", "fedprox", "safl", "fedagg", "folb", "fedumf")
"""Those that every natural federation of the bank has at every level; DeFed is outside its setting there."""
NATURAL = "natural"
AGAIN = "natural, other trials"
"""The natural federation against itself: one half of the trials against the other."""


def level(heterogeneity: str) -> str:
    """A level's name in the tables: `labels(1)` of data with two labels stands for `labels(2)`."""
    if heterogeneity.startswith("labels("):
        return "labels"
    return "sizes" if heterogeneity.startswith("iid+sizes(") else heterogeneity


def expected_best(val: Sequence[float], test: Sequence[float], n: int) -> float:
    """The mean over all n of N trials of the test score of the one that validates best (of equal ones the first).

    The trial of rank r (from 0) is the best of C(N - 1 - r, n - 1) of the C(N, n) subsets.
    """
    order = sorted(range(len(val)), key=lambda i: (-val[i], i))
    whole = comb(len(val), n)
    return sum(comb(len(val) - 1 - r, n - 1) / whole * test[i] for r, i in enumerate(order))


def trials_of(path: Path) -> pd.DataFrame:
    """The search trials of natural federations and of the same data split otherwise: of each family as many of
    each method and level, the first ones.
    """
    found = bank.load(path)
    found = found[(found.kind == "search") & found.algorithm.isin(METHODS)]
    found = found[found.study.str.startswith("bank_") & (found.origin != "published")]
    of = found.groupby("family").heterogeneity.agg(set)
    found = found[found.family.isin([f for f, levels in of.items() if {NATURAL, "iid"} <= levels])]
    found = found.assign(
        level=found.heterogeneity.map(level),
        index=found.trial_id.str.rsplit("-s", n=1).str[1].astype(int),
        val=np.where(found.status == "finished", found.val_score, -np.inf),
    )
    counts = found.groupby(["family", "level", "algorithm"]).size().unstack(fill_value=0)
    whole = counts[(counts.reindex(columns=METHODS, fill_value=0) >= 8).all(axis=1)]
    least = whole.min(axis=1).groupby("family").min()
    found = found.set_index(["family", "level"]).loc[whole.index].reset_index()
    found = found.sort_values("index")
    number = found.groupby(["family", "level", "algorithm"]).cumcount()
    return found[number < found.family.map(least)]


def scores(trials: pd.DataFrame, n: int) -> pd.Series:
    """The `expected_best` of n trials of each method."""
    return trials.groupby("algorithm").apply(
        lambda of: expected_best(list(of.val), list(of.test_score), n), include_groups=False
    )


def predictions(trials: pd.DataFrame) -> pd.DataFrame:
    """Kendall's tau-b between the scores of methods at each level and on the natural federation, families in rows."""
    found: dict[str, dict[str, float]] = {}
    for family, of in trials.groupby("family"):
        count = of.groupby(["level", "algorithm"]).size().min()
        natural = of[of.level == NATURAL]
        ranks = {name: scores(part, count // 2) for name, part in of.groupby("level")}
        even, odd = (natural[natural["index"] % 2 == k] for k in (0, 1))
        pairs = {name: (ranks[NATURAL], one) for name, one in ranks.items() if name != NATURAL}
        pairs[AGAIN] = scores(even, count // 4), scores(odd, count // 4)
        found[str(family)] = {
            name: float(stats.kendalltau(*pair).statistic) for name, pair in pairs.items()
        }
    return pd.DataFrame.from_dict(found, orient="index")


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean of families' values and half of its 95 % interval (Student's t over families)."""
    n = len(values)
    half = stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / sqrt(n) if n > 1 else np.inf
    return float(np.mean(values)), float(half)


def page(trials: pd.DataFrame) -> str:
    """The page, in Markdown."""
    taus = predictions(trials)
    order = ["iid", "sizes", "dirichlet(0.5)", "dirichlet(0.1)", "labels", AGAIN]
    columns = [name for name in order if name in taus]
    lines = [
        f"| federation | trials of a method | {' | '.join(columns)} |",
        "|---" * (len(columns) + 2) + "|",
    ]
    for family, row in taus.iterrows():
        count = trials[trials.family == family].groupby(["level", "algorithm"]).size().min()
        cells = [f"{row[name]:.2f}" if np.isfinite(row[name]) else "" for name in columns]
        lines.append(f"| `{family}` | {count} | {' | '.join(cells)} |")
    means = {name: interval(list(taus[name].dropna())) for name in columns}
    lines.append(
        "| mean, 95 % interval over federations | | "
        + " | ".join(f"{m:.2f} ± {h:.2f}" for m, h in means.values())
        + " |"
    )
    differences = []
    for name in [c for c in columns if c not in ("iid", AGAIN)]:
        both = taus[["iid", name]].dropna()
        mean, half = interval(list(both[name] - both["iid"]))
        sure = (
            "more"
            if mean > half
            else "less"
            if -mean > half
            else "not shown to predict more or less"
        )
        differences.append(f"- `{name}` against `iid`: {mean:+.2f} ± {half:.2f}, {sure}.")
    used = trials.groupby(["family", "level", "algorithm"]).size()
    best = []
    for family, of in trials.groupby("family"):
        count = of.groupby(["level", "algorithm"]).size().min()
        first = {name: scores(part, count // 2) for name, part in of.groupby("level")}
        shown = [
            f"{first[n].idxmax()} {100 * first[n].max():.1f}" if n in first else ""
            for n in [NATURAL, *columns[:-1]]
        ]
        spread = 100 * (first[NATURAL].max() - first[NATURAL].min())
        best.append(f"| `{family}` | {' | '.join(shown)} | {spread:.1f} |")
    return TEMPLATE.format(
        count=len(taus),
        trials=int(used.sum()),
        methods=", ".join(METHODS),
        taus="\n".join(lines),
        differences="\n".join(differences),
        levels=" | ".join([NATURAL, *columns[:-1]]),
        rules="|---" * (len(columns) + 2) + "|",
        best="\n".join(best),
        widest=f"{max(half for _, half in means.values()):.2f}",
    )


TEMPLATE = """# Natural federations against synthetic splits

```
python benchmarks/natural.py --output docs/results/natural_against_synthetic.md
```

writes this page from the [bank](../bank.md). The question: a paper compares methods on data that it splits itself, by `iid`, by
`dirichlet(0.1)`, or by labels. Would the methods rank alike on the federation that owns the data?

{count} federations, each with its samples where they were born (`natural`), and the same samples split otherwise among as many
clients. {trials} random trials of {methods}; each method has as many trials at each level. Its score is the expected test
score of the configuration that validates best among half of its trials. Kendall's tau-b compares the scores of the methods at a level with
those on the natural federation: 1 is the same ranking, 0 none in common.

{taus}

The last column compares the natural federation with itself: the methods ranked by every second trial, against the others. It
shows how much of a low tau is luck of the search; half as many trials rank less surely than the other columns do.

Does a skewed level predict the natural ranking better than `iid` does? Differences of tau, paired by federation:

{differences}

**How sure this is.** {count} federations are few, and methods are close, as the last table says: the widest interval above is ± {widest}. Each level is one draw of the partition. `labels` is
`labels(1)` for data with two labels (`heart_disease`, `adult`), where `labels(2)` would give all clients both; it is `labels(2)` for the
others, and `sizes` is `iid+sizes(lognormal(0.7))`. Planned and not run: `news20` at other levels than `natural`, where a trial takes 0.6 seconds and the
rarest label has too few samples for `labels(2)`. `suite bank fill search_spaces/studies/bank/*.yaml --output search_spaces/bank` goes on.

## Which method leads

The leader and its score in percent, and how far apart the first and the last method are on the natural federation, in points.

| federation | {levels} | spread |
{rules}
{best}
"""


def main() -> None:
    """Entry point."""
    args = bank_parser(__doc__).parse_args()
    write_page(page(trials_of(args.bank)), args.output)


if __name__ == "__main__":
    main()
