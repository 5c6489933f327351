"""A scenario tuned many times, and what the intervals of few tunings hold of that.

python benchmarks/replication.py --tunings 16 --board 5
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from measuring import listed, parser, show
from reports.leaderboard.board import Row
from reports.leaderboard.replication import Scores, intervals, mean_of, spreads
from suite.execution.resources import Resources
from suite.results.final_runs import final_run
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.request import SweepRequest
from suite.sweeps.sweep import Result
from suite.tracking.schema.tags import RunKind
from suite.tracking.store import Store
from trials.common.errors import UserError

CELL = {"datasets": ["digits"], "heterogeneity": ["iid"]}
"""The scenario of the study `leaderboard_images` that is replicated."""


def replication(
    storage: Path, tunings: int, board: int, algorithms: list[str] | None
) -> dict[str, Any]:
    """Tune every method of the scenario `tunings` times, and ask of all boards of `board` of these tunings how
    often a method's interval holds its mean over all of them; beside it, of the intervals over the final
    seeds of a single tuning. A run that was cut off goes on.
    """
    if not 3 <= board <= tunings:
        raise UserError(f"--board {board}: must be between 3 and --tunings {tunings}")
    paths = SweepPaths(storage, "replication")
    changes: dict[str, Any] = {**CELL, "tunings": tunings}
    if algorithms:
        changes["algorithms"] = algorithms
    request = SweepRequest("leaderboard_images", paths, changes, resume=paths.begun)
    result = request.run(Resources())
    if result.leaderboard is None:
        raise UserError(f"{result.ending} before all tunings were done; run the command again")
    scores = {row.algorithm: _scores(result, row) for row in result.leaderboard.rows}
    held = _held(scores, combinations(range(tunings), board))
    rows = [_row(row, scores[row.algorithm], held) for row in result.leaderboard.rows]
    ranked = [row for row in rows if row["rank"] is not None]
    return {
        "entry_id": str(result.leaderboard.rows[0].scenario),
        "tunings": tunings,
        "board": board,
        "methods": rows,
        "covered": fmean(row["covered"] for row in ranked),
        "covered_by_seeds": fmean(row["covered_by_seeds"] for row in ranked),
    }


def _scores(result: Result, row: Row) -> Scores:
    store: Store = result.store
    found = store.find(kind=RunKind.FINAL, sweep=row.sweep, entry_id=row.entry_id)
    finals = [final_run(store, run, "score", None, "rounds") for run in found if run.finished]
    return {run.draw: run.score for run in finals}


def _held(scores: dict[str, Scores], boards: Iterable[Sequence[int]]) -> dict[str, float]:
    """The share of boards of some tunings on which a method's interval holds its mean over all."""
    hits: dict[str, list[bool]] = {name: [] for name in scores}
    truth = {name: mean_of(found).mean for name, found in scores.items()}
    for tunings in boards:
        cell = {name: mean_of(_of(found, tunings)) for name, found in scores.items()}
        for name, (low, high) in intervals(cell).items():
            hits[name].append(_holds(low, high, truth[name], cell[name].mean))
    return {name: fmean(of) for name, of in hits.items()}


def _row(row: Row, scores: Scores, held: dict[str, float]) -> dict[str, Any]:
    """A method's mean and spreads, and the shares of intervals that hold the mean."""
    spread, truth = spreads(scores), mean_of(scores).mean
    alone = [mean_of(_of(scores, (level,))) for level in sorted({d.tuning for d in scores})]
    return {
        "algorithm": row.algorithm,
        "rank": row.rank,
        "mean": truth,
        "by_tuning": spread.get("tuning"),
        "by_seed": spread.get("seed"),
        "covered": held[row.algorithm],
        "covered_by_seeds": fmean(_holds(*one.interval(), truth, one.mean) for one in alone),
    }


def _of(scores: Scores, tunings: Sequence[int]) -> Scores:
    return {draw: score for draw, score in scores.items() if draw.tuning in tunings}


def _holds(low: float | None, high: float | None, truth: float, mean: float) -> bool:
    """Whether an interval holds the truth; one that has no width, whether its mean is that."""
    return mean == truth if low is None or high is None else low <= truth <= high


def main() -> None:
    """Entry point."""
    args = parser(__doc__)
    args.add_argument("--tunings", type=int, default=16, help="how often every method is tuned")
    args.add_argument("--board", type=int, default=5, help="tunings of a board that is asked")
    args.add_argument("--algorithms", type=listed, help="with commas between; default: 17")
    args.add_argument("--storage", type=Path, default=Path("runs"))
    asked = args.parse_args()
    show(replication(asked.storage, asked.tunings, asked.board, asked.algorithms), asked.json)


if __name__ == "__main__":
    main()
