"""Simulate how often the claims of a leaderboard on one scenario are false, by the rule of `reports.leaderboard.replication`.

python benchmarks/calibration.py --output docs

A board has scores of `methods` methods on `units` outer units (partitions, or tunings) with 8 seeds each. The standard
deviations were measured on digits: 0.016 by tuning, 0.045 by seed. In each situation four cases of true differences are
simulated: all methods are equal in expectation, half of them are exactly the margin behind, they differ by millionths, or
one is far ahead.

A board counts as false if any claim on it is. False claims are that a method is ahead, that a method at the margin is a tie,
and an interval without the true distance to the best. `failing as here` takes as truth the expectation over searches that
fail as often as those of the board. `of configurations` takes the expectation of the configurations that ran. `power` is how
often a method 5 points behind is marked as not the best. With --output DOCS the figures are written to
DOCS/results/calibration.json, and as a page to DOCS/results/calibration.md.
"""

import json
from collections.abc import Callable, Sequence
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from measuring import parser, show
from reports.leaderboard.replication import RANDOM, Draw, Scores, behind_best, differences
from reports.leaderboard.statistics import DIFFERS, DIGITS, LEVEL, friedman_test

Table = npt.NDArray[np.float64]
TUNING, SEED, SEEDS = 0.016, 0.045, 8
FAILURE, FAILING = 0.3, 0.1
"""The loss of score by a failed search, and the share of searches that fail."""
MARGIN = 0.02
BEHIND = 0.05
"""The distance to the best of the method whose marks give the power."""
CHUNK = 500
"""The number of boards that are computed at once."""


class Drawn(NamedTuple):
    """Simulated boards: `scores` (boards, methods, units, seeds), NaN where a run is missing, with expectation 0. `tuned`
    (boards, methods, units) are the expectations of scores given the result of each search, and `failing` (boards, methods)
    those given the number of a method's searches that failed.
    """

    scores: Table
    tuned: Table
    failing: Table


Drawer = Callable[[np.random.Generator, tuple[int, int, int]], Drawn]
"""(generator, (boards, methods, units)) -> boards."""


def _plus_seeds(rng: np.random.Generator, tuned: Table, spread: Table | float = SEED) -> Drawn:
    seeds = rng.normal(size=(*tuned.shape, SEEDS)) * np.asarray(spread)[..., None]
    return Drawn(tuned[..., None] + seeds, tuned, np.zeros(tuned.shape[:2]))


def normal(rng: np.random.Generator, shape: tuple[int, int, int]) -> Drawn:
    """Draw simulated leaderboards of normal scores with equal spreads of all methods."""
    return _plus_seeds(rng, rng.normal(0, TUNING, shape))


def spreads_differ(rng: np.random.Generator, shape: tuple[int, int, int]) -> Drawn:
    """Draw simulated leaderboards on which every other method has a spread 25 times as large."""
    factor = np.where(np.arange(shape[1]) % 2, 25.0, 1.0)[:, None]
    return _plus_seeds(rng, rng.normal(0, TUNING, shape) * factor, SEED * factor)


def heavy_tails(rng: np.random.Generator, shape: tuple[int, int, int]) -> Drawn:
    """Draw simulated leaderboards whose deviations have Student's t distribution with three degrees of freedom."""
    tuned = TUNING * rng.standard_t(3, shape)
    seeds = SEED * rng.standard_t(3, (*shape, SEEDS))
    return Drawn(tuned[..., None] + seeds, tuned, np.zeros(shape[:2]))


def _failing(
    rng: np.random.Generator, shape: tuple[int, int, int], which: npt.NDArray[np.bool_]
) -> Drawn:
    failed = (rng.random(shape) < FAILING) & which[:, None]
    cost = FAILURE * (failed - FAILING * which[:, None])
    return _plus_seeds(rng, rng.normal(0, TUNING, shape) - cost)._replace(failing=-cost.mean(2))


def rivals_fail(rng: np.random.Generator, shape: tuple[int, int, int]) -> Drawn:
    """Draw simulated leaderboards on which one search in ten fails, except those of the first method."""
    return _failing(rng, shape, np.arange(shape[1]) > 0)


def best_fails(rng: np.random.Generator, shape: tuple[int, int, int]) -> Drawn:
    """Draw simulated leaderboards on which one search in ten of the first method fails, and none of the others."""
    return _failing(rng, shape, np.arange(shape[1]) == 0)


def one_rival_fails(rng: np.random.Generator, shape: tuple[int, int, int]) -> Drawn:
    """Draw simulated leaderboards on which one search in ten of the third method fails, and none of the others."""
    return _failing(rng, shape, np.arange(shape[1]) == 2)


def seeds_missing(rng: np.random.Generator, shape: tuple[int, int, int]) -> Drawn:
    """Draw simulated leaderboards of normal scores on which a fifth of the runs is missing."""
    boards = normal(rng, shape)
    lost = rng.random(boards.scores.shape) < 0.2
    return boards._replace(scores=np.where(lost, np.nan, boards.scores))


def one_noisy(rng: np.random.Generator, shape: tuple[int, int, int]) -> Drawn:
    """Draw simulated leaderboards on which one method has a spread 20 times as large."""
    factor = np.where(np.arange(shape[1]) == 1, 20.0, 1.0)[:, None]
    return _plus_seeds(rng, rng.normal(0, TUNING, shape) * factor, SEED * factor)


def near_copies(rng: np.random.Generator, shape: tuple[int, int, int]) -> Drawn:
    """Draw simulated leaderboards on which all methods but the first have nearly the same scores (correlation 0.999 with a common score)."""
    boards, _, units = shape
    copied = rng.normal(0, SEED, (boards, 1, units, SEEDS))
    own = rng.normal(0, SEED, (*shape, SEEDS))
    copies = 0.999 * copied + sqrt(1 - 0.999**2) * own
    scores = np.where(np.arange(shape[1])[:, None, None] == 0, own, copies)
    return Drawn(scores, np.zeros(shape), np.zeros(shape[:2]))


def steps(rng: np.random.Generator, shape: tuple[int, int, int]) -> Drawn:
    """Draw simulated leaderboards of normal scores, rounded to steps of 1/540."""
    boards = normal(rng, shape)
    return boards._replace(scores=np.round(boards.scores * 540) / 540)


NAMES: dict[Drawer, str] = {
    normal: "Equal normal spreads",
    spreads_differ: "Every other method's spread is 25 times as large",
    heavy_tails: "Student's t with three degrees of freedom",
    rivals_fail: "One search in ten of all methods but the best fails",
    best_fails: "One search in ten of the best fails, none of another method",
    one_rival_fails: "One search in ten of one rival fails, none of another method",
    seeds_missing: "A fifth of the runs is missing",
    steps: "Scores in steps of 1/540",
    one_noisy: "One method's spread is 20 times as large",
    near_copies: "All methods but the first are near-copies of one (r = 0.999)",
}
"""The names of situations on the page, by the functions that draw their boards."""
SITUATIONS: Sequence[Drawer] = (*NAMES,)


class Said(NamedTuple):
    """The claims on boards: `ahead[b, i, j]` says whether method j is shown to be ahead of method i. `low` and `high`
    (boards, methods) are the ends of the distance to the best, NaN without a claim; `tie` (boards, methods) says which
    methods tie with the best.
    """

    ahead: npt.NDArray[np.bool_]
    low: Table
    high: Table
    tie: npt.NDArray[np.bool_]


def said(scores: Table, margin: float | None = None) -> Said:
    """Return the leaderboard's claims on each board of `scores` (boards, methods, units, seeds), by the rules of `behind_best`."""
    methods = scores.shape[1]
    here = (~np.isnan(scores)).astype(float).swapaxes(1, 2)  # (boards, units, methods, seeds)
    filled = np.nan_to_num(scores).swapaxes(1, 2)
    shared = here @ here.swapaxes(2, 3)
    sums = filled @ here.swapaxes(2, 3)
    gaps = sums.swapaxes(2, 3) - sums  # [..., i, j]: the lead of j over i, summed over seeds
    known = shared > 0
    gaps = np.where(known, gaps / np.maximum(shared, 1), 0.0)
    n = known.sum(1)
    few = (n < RANDOM).any((1, 2))  # with fewer units the sample is of seeds
    n = np.maximum(n, RANDOM)
    mean = gaps.sum(1) / n
    squares = (np.where(known, gaps - mean[:, None], 0.0) ** 2).sum(1)
    half = halves(squares, n)
    other = ~np.eye(methods, dtype=bool)
    ahead = (mean > half) & other
    rival = other & ~ahead.any(2)[:, None, :]
    low = np.maximum(np.where(other, mean - half, 0.0).max(2), 0.0)
    high = np.where(rival, mean + half, 0.0).max(2)
    tie = ~ahead.any(2) & (high <= (margin or 0.0)) & (margin is not None)
    shown = Said(ahead, low, np.maximum(low, high), tie)
    small = squares.sum((1, 2)) / (n - 1).sum((1, 2)) < 10.0 ** (-2 * DIGITS)
    for i in np.flatnonzero(few | small):
        for array, values in zip(shown, one_by_one(scores[i], margin), strict=True):
            array[i] = values
    return shown


def halves(squares: Table, n: npt.NDArray[np.int_]) -> Table:
    """Return half the widths of all pairs' intervals (boards, methods, methods), from sums of squares and numbers of units."""
    k = squares.shape[1]
    upper = np.triu(np.ones((k, k), bool), 1)
    freedoms, total = (n - 1)[:, upper], squares[:, upper].sum(1)
    pooled = (total / freedoms.sum(1))[:, None, None]
    fourth = np.maximum((squares[:, upper] ** 2 / freedoms).sum(1), 1e-300)
    freedom = 2 / k * total**2 / fourth
    freedom = np.maximum(freedom, freedoms.min(1))
    freedom = np.minimum(freedom, 2 / k * freedoms.sum(1))[:, None, None]
    sums = (squares / (n - 1)).sum(2)
    own = np.maximum(0.0, sums - sums.sum(1, keepdims=True) / (2 * (k - 1))) / max(1, k - 2)
    own = own if k > 2 else np.zeros_like(own)
    variance = np.maximum(pooled, own[:, :, None] + own[:, None, :])
    spread = pooled / np.sqrt(freedom) + (variance - pooled) / np.sqrt(n - 1)
    tail = (1 - LEVEL) / (k * (k - 1))
    factor: Table = special.stdtrit((variance / spread) ** 2, 1 - tail)
    return factor * np.sqrt(variance / n)


def one_by_one(scores: Table, margin: float | None = None) -> Said:
    """Return the leaderboard's claims on one board (methods, units, seeds), by calling `behind_best` itself."""
    final = board(scores)
    shown = behind_best(final, differences(final), margin)
    rows = [shown.get(name) for name in final]
    return Said(
        np.array([[bool(row and name in row.beaten_by) for name in final] for row in rows]),
        np.array([row.low if row else np.nan for row in rows]),
        np.array([row.high if row else np.nan for row in rows]),
        np.array([bool(row and row.tie) for row in rows]),
    )


def board(scores: Table) -> dict[str, Scores]:
    """Return scores (methods, units, seeds) as final runs of a scenario; NaN values are left out."""
    runs: dict[str, dict[Draw, float]] = {f"m{i}": {} for i in range(len(scores))}
    for (i, unit, seed), score in np.ndenumerate(scores):
        if not np.isnan(score):
            runs[f"m{i}"][Draw(0, unit, 0, seed)] = float(score)
    return runs


def false_words(drawn: Drawn, gaps: Table) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which boards (boards,) have a false claim, by kind of claim, if methods are `gaps` (methods,) behind the best."""
    shown = said(drawn.scores - gaps[:, None, None], MARGIN)
    strict = _false(shown, np.broadcast_to(-gaps, shown.low.shape))
    return {
        **strict,
        "anything": _any(strict),
        "failing as here": _any(_false(shown, drawn.failing - gaps)),
        "of configurations": _any(_false(shown, drawn.tuned.mean(2) - gaps)),
    }


def _false(shown: Said, true: Table) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which boards (boards,) have a false claim, by kind of claim, if methods have the `true` means (boards, methods).
    Calling a method ahead is false also if both are equal.
    """
    lead = true[:, None, :] - true[:, :, None]
    behind = lead.max(2)
    outside = (shown.low > behind + 1e-12) | (behind > shown.high + 1e-12)
    return {
        "ahead": (shown.ahead & (lead <= 0)).any((1, 2)),
        "false tie": (shown.tie & (behind >= MARGIN)).any(1),
        "interval": outside.any(1),
    }


def _any(wrong: dict[str, npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    any_wrong: npt.NDArray[np.bool_] = np.logical_or.reduce(list(wrong.values()))
    return any_wrong


def chunks(boards: int) -> list[int]:
    """Return the sizes of the chunks in which `boards` boards are computed."""
    return [min(CHUNK, boards - done) for done in range(0, boards, CHUNK)]


def truths(methods: int) -> list[Table]:
    """Return four arrays (methods,), one for each simulated truth: how far each method is behind the best."""
    number = np.arange(methods)
    return [
        np.zeros(methods),  # all equal
        np.where(number % 2, MARGIN, 0.0),  # half of them at the margin
        1e-6 * number,
        np.where(number > 0, 5 * BEHIND, 0.0),  # one clear winner
    ]


def rates(draw: Drawer, methods: int, units: int, boards: int) -> dict[str, Any]:
    """Return by kind of claim the percentage of boards with a false claim, the largest one over all `truths`."""
    rng = np.random.default_rng([methods, units, SITUATIONS.index(draw)])
    worst: dict[str, float] = {}
    for gaps in truths(methods):
        counts: dict[str, int] = {}
        for many in chunks(boards):
            for word, wrong in false_words(draw(rng, (many, methods, units)), gaps).items():
                counts[word] = counts.get(word, 0) + int(wrong.sum())
        for word, count in counts.items():
            worst[word] = max(worst.get(word, 0.0), 100 * count / boards)
    return {"situation": NAMES[draw], "methods": methods, "units": units, **worst}


def power(methods: int, units: int, boards: int) -> dict[str, Any]:
    """Return in percent how often a method `BEHIND` the others is marked as not the best, with normal scores."""
    rng = np.random.default_rng([methods, units, 99])
    gaps = np.where(np.arange(methods) == 1, BEHIND, 0.0)[:, None, None]
    hits = sum(
        int(said(normal(rng, (many, methods, units)).scores - gaps).ahead[:, 1].any(1).sum())
        for many in chunks(boards)
    )
    return {"methods": methods, "units": units, "power": 100 * hits / boards}


FAMILIES = (1, 1, 1, 1, 1, 1, 1, 4)
"""The number of data sets of each family: seven families of one data set, and one of four."""


def family_scores(
    rng: np.random.Generator, correlation: float, methods: int, boards: int
) -> list[Table]:
    """Return the scores (boards, data sets, methods) of each family; those of its data sets have this `correlation`."""
    scores = []
    for size in FAMILIES:
        common = rng.normal(size=(boards, 1, methods))
        own = rng.normal(size=(boards, size, methods))
        scores.append(sqrt(correlation) * common + sqrt(1 - correlation) * own)
    return scores


def friedman(correlation: float, methods: int, boards: int) -> dict[str, Any]:
    """Return in percent how often Friedman's test calls equal methods different. The rows of the test are the average ranks
    in families, as in the leaderboard, or the ranks in single data sets.
    """
    rng = np.random.default_rng([methods, int(100 * correlation)])
    scores = family_scores(rng, correlation, methods, boards)
    ranks = [stats.rankdata(-family, axis=-1) for family in scores]
    rows = {
        "family": np.stack([-family.mean(1).round(DIGITS) for family in ranks], 1),
        "data set": np.concatenate([-family for family in ranks], 1),
    }
    shares = {
        f"false by {unit}": 100
        * sum(friedman_test(table)[4] == DIFFERS for table in tables)
        / boards
        for unit, tables in rows.items()
    }
    return {"correlation": correlation, "methods": methods, **shares}


HEAD = """# How often leaderboards claim something false

```
python benchmarks/calibration.py --output docs     # writes this page
```

A board is a simulated leaderboard of one scenario, with 3 to 10 searches of each method (tunings, partitions or splits). We
simulate four cases of true differences: methods are equal, half of them are {margin:.0f} points behind, they differ by
millionths, or one is far ahead. Each case is simulated with {methods} methods, on {boards:,} boards each. The table shows the
largest percentage of boards with a false claim, among these cases and numbers of methods.

A [leaderboard](../leaderboards.md#compare-methods-in-a-scenario) makes claims about *methods*, or only about the
*configurations* that ran. Claims about methods assume that new searches would end with poor configurations as often as those
that ran. Without this assumption, up to {strict:.1f} % of boards would claim something false about methods, since rare failures
may not occur in a few searches. A simulated failure lowers a search's score by {failure:.0f} points.

"""
POWER = """
We also simulated a method that is {behind:.0f} points behind, with normal scores (standard deviation: {tuning:.1f} points between searches, {seed:.1f} between seeds). With {units} searches of each method, this method is shown to be worse on at least {power} % of boards.
"""
FRIEDMAN = """
## Tests over data sets

The table shows how often Friedman's test calls equal methods different: the largest percentage in simulations with {methods}
methods. Of eight families of data sets, one has four correlated data sets. Leaderboards test by families.

"""


def page(document: dict[str, Any]) -> str:
    """Return the Markdown page of the simulated error rates, each the worst over the numbers of methods."""
    rows, methods = document["false"], sorted({row["methods"] for row in document["false"]})
    units = sorted({row["units"] for row in rows})
    head = HEAD.format(
        boards=document["boards"],
        methods=_listed(methods),
        margin=100 * MARGIN,
        failure=100 * FAILURE,
        strict=max(row["anything"] for row in rows),
    )
    heads = ["situation", *(f"{claim}, {n} searches" for claim in CLAIMS for n in units)]
    lines = [
        [situation, *(_worst(rows, situation, word, n) for word in CLAIMS.values() for n in units)]
        for situation in dict.fromkeys(row["situation"] for row in rows)
    ]
    least = {n: min(row["power"] for row in document["power"] if row["units"] == n) for n in units}
    shown = _listed([f"{share:.1f}" for share in least.values()])
    power = POWER.format(
        behind=100 * BEHIND,
        power=shown,
        units=_listed(units),
        tuning=100 * TUNING,
        seed=100 * SEED,
    )
    shares = ("family", "data set")
    friedman_lines = []
    for correlation in dict.fromkeys(row["correlation"] for row in document["friedman"]):
        alike = [row for row in document["friedman"] if row["correlation"] == correlation]
        worst = [f"{max(row[f'false by {share}'] for row in alike):.1f}" for share in shares]
        friedman_lines.append([f"{correlation:g}", *worst])
    parts = [head, _markdown(heads, lines), power, FRIEDMAN.format(methods=_listed(methods))]
    friedman_heads = ["correlation", "by families", "by data sets"]
    return "".join(parts) + _markdown(friedman_heads, friedman_lines)


CLAIMS = {"methods": "failing as here", "configurations": "of configurations"}
"""The claims of leaderboards, by their heads in the table, and the keys of the figures."""


def _worst(rows: list[dict[str, Any]], situation: str, word: str, units: int) -> str:
    shares = [row[word] for row in rows if (row["situation"], row["units"]) == (situation, units)]
    return f"{max(shares):.1f}"


def _listed(values: Sequence[object]) -> str:
    return f"{', '.join(map(str, values[:-1]))} and {values[-1]}"


def _markdown(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    """Simulate, print and write, as the command line says."""
    cli = parser(__doc__)
    cli.add_argument("--boards", type=int, default=4000)
    cli.add_argument("--methods", type=int, nargs="+", default=[3, 7, 18])
    cli.add_argument("--units", type=int, nargs="+", default=[3, 5, 8, 10])
    cli.add_argument("--output", type=Path, help="the folder of the docs")
    args = cli.parse_args()
    designs = [(methods, units) for methods in args.methods for units in args.units]
    document = {
        "boards": args.boards,
        "monte carlo error": round(100 * sqrt(0.05 * 0.95 / args.boards), 2),
        "false": [rates(draw, *d, args.boards) for d in designs for draw in SITUATIONS],
        "power": [power(*d, args.boards) for d in designs],
        "friedman": [
            friedman(correlation, methods, args.boards)
            for methods in args.methods
            for correlation in (0.0, 0.3, 0.5, 0.8)
        ],
    }
    if args.output:
        path = args.output / "results" / "calibration.json"
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(page(document), encoding="utf-8")
    show(document, args.json)


if __name__ == "__main__":
    main()
