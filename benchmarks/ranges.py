"""Whether the best of many random trials lie inside of the ranges that a study searches.

    python benchmarks/ranges.py --study quickstart --trials 256

Ends with 1 where an end cuts them off.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from measuring import listed, parser, show
from reports.leaderboard.audit import EDGE, Edge, edges
from suite.execution.resources import Resources
from suite.studies.entries import make_entries
from suite.studies.entry import Entry
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.request import SweepRequest
from trials.common.errors import UserError
from trials.common.lazy import Lazy
from trials.engine import schedule
from trials.run.outcome import Status, TrialKind
from trials.run.result import TrialResult

stats = Lazy("scipy.stats")

BEST = 0.1
"""The share of the trials that is looked at, the best by validation."""
LEVEL = 0.05
"""A crowd at an end has at most this probability among uniform draws."""


@dataclass(frozen=True)
class Crowd:
    """Where the values of one hyperparameter lie in the best tenth of an entry's trials: the shares of them
    within 5 % of the low and of the high end of the range, on its scale; the winner's value, and the end that
    it is at ("" inside). `cut` says that something may have been missed beyond that end: values there have a
    meaning, and more of the best tenth are there than uniform draws would be (binomial test, 5 %).
    """

    name: str
    winner: float
    low: float
    high: float
    end: str
    cut: bool


def ranges(
    storage: Path, study: str, trials: int, changes: Mapping[str, Any], data_root: str | None
) -> dict[str, Any]:
    """Random trials of every entry of a study, in its own ranges, as the sweep `<study>-ranges`, which goes on
    where it was cut off; and where the best of them lie.

    Raises `UserError` when the sweep was ended before all were done.
    """
    paths = SweepPaths(storage, f"{Path(study).stem}-ranges", data_root=data_root)
    plain = {"sampler": "random", "scheduler": "none", "confirm": None, "seeds": 1}
    plain |= {"tunings": 1, "partitions": 1, "splits": 1}
    whole = {**changes, **plain, "trials": trials}
    request = SweepRequest(study, paths, whole, resume=paths.begun)
    if ending := request.run(Resources()).ending:
        raise UserError(f"{ending} before all trials were done; run the command again")
    name, content = request.read()
    state = paths.state()
    tried: dict[str, list[tuple[dict[str, Any], TrialResult]]] = {}
    for ask in state.requests:
        if ask.kind == TrialKind.SEARCH:
            tried.setdefault(ask.entry_id, []).append((ask.params, state.ended[ask.trial_id]))
    found, cut = [], []
    for entry in make_entries(content, f"study {name}"):
        crowds = crowded(entry, tried[entry.id])
        found += [{"entry": entry.name, **vars(crowd)} for crowd in crowds]
        cut += [f"{entry.name}: {crowd.name}" for crowd in crowds if crowd.cut]
    return {"study": name, "trials": trials, "crowds": found, "cut": cut}


def crowded(entry: Entry, tried: Sequence[tuple[Mapping[str, Any], TrialResult]]) -> list[Crowd]:
    """Where the best tenth of an entry's trials that finished lie, by hyperparameter."""
    finished = [
        (entry.task.sign * outcome.value, params)
        for params, outcome in tried
        if outcome.status == Status.FINISHED and outcome.value is not None
    ]
    best = sorted(finished, key=lambda one: -one[0])[: ceil(BEST * len(tried))]
    if not best:
        return []
    winner, of = best[0][1], entry.space.searched
    at = {edge.name: edge for edge in edges(winner, of)}
    found = []
    for name, spec in of.items():
        if spec.choices is None and name in winner:
            shares = [spec.share(schedule.last(p[name])) for _, p in best if name in p]
            low = sum(share <= EDGE for share in shares) / len(shares)
            high = sum(share >= 1 - EDGE for share in shares) / len(shares)
            edge, value = at.get(name), float(schedule.last(winner[name]))
            end = edge.end if edge else ""
            cut = edge is not None and _cut(edge, {"low": low, "high": high}[end], len(shares))
            found.append(Crowd(name, value, low, high, end, cut))
    return found


def _cut(edge: Edge, share: float, count: int) -> bool:
    """Whether so large a share of so many values at an open end is no chance of uniform draws."""
    chance = stats.binom.sf(round(share * count) - 1, count, EDGE)
    return not edge.closed and bool(chance <= LEVEL)


def main() -> None:
    """Entry point."""
    args = parser(__doc__)
    args.add_argument("--study", default="quickstart", help="the study whose ranges are checked")
    args.add_argument("--trials", type=int, default=256, help="random trials of every entry")
    for part in ("algorithms", "datasets", "heterogeneity"):
        args.add_argument(f"--{part}", type=listed, help="with commas between")
    args.add_argument("--storage", type=Path, default=Path("runs"))
    args.add_argument("--data-root")
    asked = args.parse_args()
    parts = {key: getattr(asked, key) for key in ("algorithms", "datasets", "heterogeneity")}
    changes = {key: names for key, names in parts.items() if names is not None}
    found = ranges(asked.storage, asked.study, asked.trials, changes, asked.data_root)
    show(found, asked.json)
    sys.exit(bool(found["cut"]))


if __name__ == "__main__":
    main()
