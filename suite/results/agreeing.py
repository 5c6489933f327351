"""Final runs whose score is what their own course gives; others do not count."""

from collections.abc import Sequence

from suite.tracking.reader import Reader, Together
from suite.tracking.record import Record
from trials.scoring.metrics import score

ROUNDING = 1e-9
"""What a number may differ by when it is computed again, relative to itself or to 1."""


def agreeing(store: Reader, finals: Sequence[Record]) -> list[Record]:
    """Final runs without those that contradict themselves, which are said. Where each course is a question
    of its own, as to a server, nobody looks.
    """
    if not store.many_at_once:
        return list(finals)
    together = Together(store, finals)
    apart = [run for run in finals if run.finished and contradiction(together, run)]
    store.pass_over((run, "metric test_score contradicts its course") for run in apart)
    return [run for run in finals if run not in apart] if apart else list(finals)


def contradiction(store: Reader, run: Record) -> str:
    """How the score of a final run is not what its course gives, in words; "" where it is, or where no course
    was recorded.
    """
    metric = f"test_{run.tags.metric}"
    curve = store.curve(run, [metric])
    if not curve:
        return ""
    recorded, now = run.metrics["test_score"], score(curve, metric, run.lost(metric))
    if abs(recorded - now) <= ROUNDING * max(1.0, abs(now)):
        return ""
    return f"its score is {recorded!r}, and {now!r} by its course"
