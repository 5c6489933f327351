"""How often what a leaderboard says of one scenario is false: the rule of `reports.leaderboard.best`, simulated.

python benchmarks/calibration.py --boards 2000 --output docs/results

A board is `methods` methods by `units` outer units (partitions, or tunings), each with seeds. Spreads
are those measured on digits: 0.016 by tuning, 0.045 by seed, 8 seeds a unit. In each situation all methods are
equal in expectation (the first is the best by less than can be seen), or half of them lie exactly the margin
behind. Counted are boards on which anything said is false: the best is marked as not the best, a tie is claimed of a
method at the margin, a true distance from the best is outside its interval. `power`: how often a method 5 points behind is marked.
"""

import json
from collections.abc import Callable, Sequence
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from measuring import parser, show
from reports.leaderboard.best import behind_best
from reports.leaderboard.replication import Draw, Scores
from reports.leaderboard.statistics import DIFFERS, across

Table = npt.NDArray[np.float64]
TUNING, SEED, SEEDS = 0.016, 0.045, 8
FAILURE, FAILING = 0.3, 0.1
"""What a failed search costs, and the share of searches that fail."""
MARGIN = 0.02
BEHIND = 0.05
"""How far behind the method is whose marks give the power."""
Drawer = Callable[[np.random.Generator, int, int], Table]
"""(generator, methods, units) -> scores (methods, units, SEEDS) whose expectation is 0; NaN where a run is missing."""


def normal(rng: np.random.Generator, methods: int, units: int) -> Table:
    """Equal normal spreads."""
    by_tuning = rng.normal(0, TUNING, (methods, units, 1))
    return by_tuning + rng.normal(0, SEED, (methods, units, SEEDS))


def spreads_differ(rng: np.random.Generator, methods: int, units: int) -> Table:
    """Every other method's spread is 25 times as large."""
    factor = np.where(np.arange(methods) % 2, 25.0, 1.0)
    return normal(rng, methods, units) * factor[:, None, None]


def heavy_tails(rng: np.random.Generator, methods: int, units: int) -> Table:
    """Student's t with three degrees of freedom."""
    by_tuning = TUNING * rng.standard_t(3, (methods, units, 1))
    return by_tuning + SEED * rng.standard_t(3, (methods, units, SEEDS))


def _failing(rng: np.random.Generator, methods: int, units: int, which: npt.NDArray[Any]) -> Table:
    failed = (rng.random((methods, units)) < FAILING) & which[:, None]
    cost = FAILURE * (failed - FAILING * which[:, None])
    return normal(rng, methods, units) - cost[:, :, None]


def rivals_fail(rng: np.random.Generator, methods: int, units: int) -> Table:
    """One search in ten of the others fails, and they are as good as the first in the mean."""
    return _failing(rng, methods, units, np.arange(methods) > 0)


def one_fails(rng: np.random.Generator, methods: int, units: int) -> Table:
    """One search in ten of the first fails, and it is as good as the others in the mean."""
    return _failing(rng, methods, units, np.arange(methods) == 0)


def seeds_missing(rng: np.random.Generator, methods: int, units: int) -> Table:
    """A fifth of the runs is missing."""
    scores = normal(rng, methods, units)
    return np.where(rng.random(scores.shape) < 0.2, np.nan, scores)


def steps(rng: np.random.Generator, methods: int, units: int) -> Table:
    """Scores in steps of 1/540."""
    return np.round(normal(rng, methods, units) * 540) / 540


SITUATIONS: Sequence[Drawer] = (
    *(normal, spreads_differ, heavy_tails, rivals_fail, one_fails, seeds_missing, steps),
)


def board(scores: Table) -> dict[str, Scores]:
    """Scores (methods, units, seeds) as final runs; NaN are none."""
    return {
        f"m{i}": {
            Draw(0, unit, 0, seed): float(score)
            for (unit, seed), score in np.ndenumerate(of)
            if not np.isnan(score)
        }
        for i, of in enumerate(scores)
    }


def false_words(scores: Table, gaps: Table) -> dict[str, bool]:
    """What is false in what is said of scores (methods, units, seeds) whose true distances from the best are
    `gaps` (methods,).
    """
    shown = behind_best(board(scores), margin=MARGIN)
    found = [(shown[f"m{i}"], gap) for i, gap in enumerate(gaps) if f"m{i}" in shown]
    wrong = {
        "best out": "m0" in shown and bool(shown["m0"].beaten_by),
        "false tie": any(of.tie and gap >= MARGIN for of, gap in found),
        "interval": any(not of.low - 1e-12 <= gap <= of.high + 1e-12 for of, gap in found),
    }
    return {**wrong, "anything": any(wrong.values())}


def rates(draw: Drawer, methods: int, units: int, boards: int) -> dict[str, Any]:
    """Shares of boards with something false, in percent; the worse of all equal and half at the margin."""
    rng = np.random.default_rng([methods, units, SITUATIONS.index(draw)])
    worst: dict[str, float] = {}
    for behind in (0.0, MARGIN):
        gaps = np.where(np.arange(methods) % 2, behind, 0.0)
        counts = dict.fromkeys(("best out", "false tie", "interval", "anything"), 0)
        for _ in range(boards):
            for word, is_false in false_words(
                draw(rng, methods, units) - gaps[:, None, None], gaps
            ).items():
                counts[word] += is_false
        for word, count in counts.items():
            worst[word] = max(worst.get(word, 0.0), 100 * count / boards)
    error = 100 * sqrt(0.05 * 0.95 / boards)
    about = (draw.__doc__ or "").strip().rstrip(".")
    return {
        "situation": about,
        "methods": methods,
        "units": units,
        **worst,
        "monte carlo error": error,
    }


def power(methods: int, units: int, boards: int) -> dict[str, Any]:
    """How often a method `BEHIND` the others is marked as not the best, of normal scores, in percent."""
    rng = np.random.default_rng([methods, units, 99])
    hits = 0
    for _ in range(boards):
        scores = normal(rng, methods, units)
        scores[1] -= BEHIND
        hits += bool(behind_best(board(scores))["m1"].beaten_by)
    return {"methods": methods, "units": units, "power": 100 * hits / boards}


FAMILIES = (1, 1, 1, 4)
"""Data sets of each family, as on the shipped board."""


def friedman(correlation: float, methods: int, boards: int) -> dict[str, Any]:
    """How often Friedman's test says that equal methods differ, where the scores of a family's data sets have this
    `correlation`, in percent: with a row a family, as the leaderboard has it, and with a row a data set.
    """
    rng = np.random.default_rng([methods, int(100 * correlation)])
    hits = {"family": 0, "data set": 0}
    for _ in range(boards):
        families: dict[str, dict[str, dict[str, list[float]]]] = {}
        for f, size in enumerate(FAMILIES):
            common = rng.normal(size=methods)
            own = rng.normal(size=(size, methods))
            scores = sqrt(correlation) * common + sqrt(1 - correlation) * own
            families[f"f{f}"] = {
                f"s{i}": {f"m{k}": [float(v)] for k, v in enumerate(row)}
                for i, row in enumerate(scores)
            }
        alone = {f"{f}{s}": {s: of} for f, found in families.items() for s, of in found.items()}
        for unit, rows in (("family", families), ("data set", alone)):
            compared = across(rows)
            hits[unit] += compared is not None and compared.friedman_verdict == DIFFERS
    shares = {f"false by {unit}": 100 * count / boards for unit, count in hits.items()}
    return {"correlation": correlation, "methods": methods, **shares}


def main() -> None:
    """The command."""
    made = parser(__doc__)
    made.add_argument("--boards", type=int, default=1000)
    made.add_argument("--methods", type=int, nargs="+", default=[7, 18])
    made.add_argument("--units", type=int, nargs="+", default=[3, 5, 8, 10])
    made.add_argument("--output", type=Path, help="a folder for calibration.json")
    given = made.parse_args()
    designs = [(methods, units) for methods in given.methods for units in given.units]
    found = {
        "boards": given.boards,
        "false": [rates(draw, *d, given.boards) for d in designs for draw in SITUATIONS],
        "power": [power(*d, given.boards) for d in designs],
        "friedman": [
            friedman(correlation, methods, given.boards)
            for methods in given.methods
            for correlation in (0.0, 0.3, 0.5, 0.8)
        ],
    }
    if given.output:
        (given.output / "calibration.json").write_text(json.dumps(found, indent=1) + "\n")
    show(found, given.json)


if __name__ == "__main__":
    main()
