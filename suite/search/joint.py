"""One value for a configuration that several entries share."""

from collections.abc import Sequence


def jointly(scores: Sequence[Sequence[float | None]], by: str) -> list[float]:
    """One value per trial, more is better, from each entry's scores of all trials (more is better;
    None: the trial diverged there).

    rank: minus the mean over the entries of the trial's rank, 1 the best, ties sharing their mean rank,
    the diverged ones last. score: the mean over the entries of (s - worst) / (best - worst), worst and
    best of those that did not diverge; 0 where it diverged, 1 where all are equal.
    """
    columns = [_ranks(entry) if by == "rank" else _scaled(entry) for entry in scores]
    return [sum(values) / len(columns) for values in zip(*columns, strict=True)]


def _ranks(entry: Sequence[float | None]) -> list[float]:
    from scipy.stats import rankdata  # takes every start half a second

    return [-float(r) for r in rankdata([-_or_worst(s) for s in entry])]


def _scaled(entry: Sequence[float | None]) -> list[float]:
    sound = [s for s in entry if s is not None]
    worst, best = (min(sound), max(sound)) if sound else (0.0, 0.0)
    span = best - worst
    return [0.0 if s is None else (s - worst) / span if span else 1.0 for s in entry]


def _or_worst(score: float | None) -> float:
    return float("-inf") if score is None else score
