"""How often a verdict of `suite reproduce` is false, and how often one is reached: the rules simulated.

python benchmarks/verdict_errors.py --papers 4000

Scores over seeds are normal. Spreads are given in tolerances, since a verdict depends on nothing else. `until said`: seeds
are added once, as `--until-said 30` does.
"""

from collections import Counter
from math import ceil, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from measuring import parser, show
from reports.claims.metrics import metric
from reports.claims.verdicts import (
    FAILED,
    NOISY,
    REPRODUCED,
    Verdict,
    compare,
    judge,
    order_of,
    printed,
)

ACCURACY = metric("test_accuracy")
"""Its tolerance is 1 point."""
PRINTED = 90.0
MOST = 30
"""The budget of seeds of `until said`."""
RIVALS = 4
"""Other methods of a row, each printed lower."""


def number(scores: npt.NDArray[np.float64]) -> Verdict:
    """The verdict on the printed number by these scores."""
    return judge(printed(PRINTED), ACCURACY, dict(enumerate(map(float, scores))), 100)


def number_until_said(rng: np.random.Generator, mean: float, spread: float, seeds: int) -> Verdict:
    """The same, with seeds added once where they are needed."""
    scores = rng.normal(mean, spread, MOST)
    first = number(scores[:seeds])
    needed = first.seeds_needed
    if needed is None or needed > MOST:
        return first
    return number(scores[: min(MOST, ceil(1.5 * needed))])


def statement(scores: npt.NDArray[np.float64]) -> Verdict:
    """The verdict on "better than the other" by these paired differences."""
    zero = dict.fromkeys(range(len(scores)), 0.0)
    return compare(ACCURACY, ">", dict(enumerate(map(float, scores))), zero, 100)[0]


def reversed_order(rng: np.random.Generator, spread: float, seeds: int) -> bool:
    """Whether a method is said to stand the other way round than printed, where all of a row are equal."""
    names = ["own", *(f"rival{i}" for i in range(RIVALS))]
    numbers = {name: printed(PRINTED - i) for i, name in enumerate(names)}
    values = {name: dict(enumerate(rng.normal(PRINTED, spread, seeds).tolist())) for name in names}
    return bool(order_of("own", numbers, values, 100).reversed_to)


def rates(spread: float, seeds: int, papers: int) -> dict[str, Any]:
    """Percent of simulated papers. On the edge of the tolerance both words would be false for a mean a hair beyond."""
    rng = np.random.default_rng([seeds, int(100 * spread)])
    edge = Counter(number(rng.normal(PRINTED + 1, spread, seeds)).verdict for _ in range(papers))
    later = Counter(
        number_until_said(rng, PRINTED + 1, spread, seeds).verdict for _ in range(papers)
    )
    exact = Counter(number(rng.normal(PRINTED, spread, seeds)).verdict for _ in range(papers))
    said = Counter(number_until_said(rng, PRINTED, spread, seeds).verdict for _ in range(papers))
    equal = Counter(statement(rng.normal(0, spread, seeds)).verdict for _ in range(papers))
    turned = sum(reversed_order(rng, spread, seeds) for _ in range(papers))
    share = 100 / papers
    return {
        "spread": spread,
        "seeds": seeds,
        "false reproduced": share * edge[REPRODUCED],
        "false not reproduced": share * edge[FAILED],
        "false, until said": share * max(later[REPRODUCED], later[FAILED]),
        "false statement": share * max(equal[REPRODUCED], equal[FAILED]),
        "false order": share * turned,
        "said of an exact number": share * (papers - exact[NOISY]),
        "the same, until said": share * (papers - said[NOISY]),
    }


def main() -> None:
    """The command."""
    made = parser(__doc__)
    made.add_argument("--papers", type=int, default=4000)
    made.add_argument("--spreads", type=float, nargs="+", default=[0.1, 0.3, 0.5, 1.0, 2.0])
    made.add_argument("--seeds", type=int, nargs="+", default=[3, 5, 10])
    given = made.parse_args()
    found = {
        "papers": given.papers,
        "monte carlo error": round(100 * sqrt(0.025 * 0.975 / given.papers), 2),
        "rates": [rates(s, n, given.papers) for s in given.spreads for n in given.seeds],
    }
    show(found, given.json)


if __name__ == "__main__":
    main()
