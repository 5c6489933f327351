"""What is shown of each method beside the best of its scenario: what follows from all of its differences. No torch.

Of k methods, the intervals of all k (k - 1) / 2 differences hold together with a probability of 0.95
(`reports.leaderboard.replication.Errors`). Where they do, all of the following is true, whichever method is the best:

- NAME is ahead of a method where the interval of their difference is above 0: then the method is not the best;
- a method is behind the best by at least what the intervals show of any rival;
- the best is among the candidates, of whom nobody is shown to be ahead, so a method is behind it by no more than the
  highest end of its intervals to other candidates.

Marks, intervals, names and ties are consequences of one event, so they cannot contradict each other, and there is one error rate for
all that is said of a scenario. `benchmarks/calibration.py` simulates it: docs/results/calibration.md has the rates.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from reports.leaderboard.replication import Difference


@dataclass(frozen=True)
class Behind:
    """How far a method is behind the best of its scenario, whichever that is: between `low` and `high`.

    `beaten_by` are the rivals that are shown to be ahead; where there are any, the method is shown not to be the
    best. `tie`: whether it may be the best, and is shown to be within the study's margin of it.
    """

    low: float
    high: float
    beaten_by: tuple[str, ...] = ()
    tie: bool = False


def behind_best(
    methods: Collection[str], differences: Iterable[Difference], margin: float | None = None
) -> dict[str, Behind]:
    """Return what is shown of each method by the differences of its scenario. Empty where no error can be estimated, unless
    all runs are equal.
    """
    # By how much a rival is ahead, at least and at most.
    ahead: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in methods}
    equal = []
    for pair in differences:
        equal.append(pair.mean == 0 and pair.tie is True)
        if pair.low is not None and pair.high is not None:
            ahead[pair.second][pair.first] = pair.low, pair.high
            ahead[pair.first][pair.second] = -pair.high, -pair.low
    if not any(ahead.values()):
        return dict.fromkeys(methods, Behind(0.0, 0.0)) if equal and all(equal) else {}
    beaten = {
        name: tuple(rival for rival in methods if rival in ends and ends[rival][0] > 0)
        for name, ends in ahead.items()
    }
    shown = {}
    for name, ends in ahead.items():
        low = max((least for least, _ in ends.values()), default=0.0)
        high = max((most for rival, (_, most) in ends.items() if not beaten[rival]), default=0.0)
        tie = margin is not None and bool(ends) and not beaten[name] and high <= margin
        shown[name] = Behind(max(0.0, low), max(0.0, low, high), beaten[name], tie)
    return shown
