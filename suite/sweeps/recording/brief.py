"""What is recorded of the course of a search trial: they are many, and few are ever looked at."""

from collections.abc import Collection, Sequence

from trials.scoring.metrics import COUNTED

LAST_ONLY = ("val_loss", "test_loss", "train_loss", *COUNTED)
"""What is recorded once, as it was at the end: losses, and counters that are not 0."""
History = Sequence[dict[str, float]]


def curve(history: History, metric: str) -> list[dict[str, float]]:
    """The ranked metric of each evaluation, on validation and on test data."""
    named = ("round", f"val_{metric}", f"test_{metric}")
    return [{name: entry[name] for name in named if name in entry} for entry in history]


def end(history: History, always: Collection[str]) -> list[dict[str, float]]:
    """What is recorded of the last evaluation besides, and whatever it is, the counters `always` wanted."""
    if not history:
        return []
    last = history[-1]
    found = {name: last[name] for name in LAST_ONLY if name in last}
    kept = {name: value for name, value in found.items() if value or name in always}
    return [{"round": last["round"], **kept}]
