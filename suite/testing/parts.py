"""What every data set and heterogeneity level owes. Each check returns what it saw, in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from suite.testing.wrong import WrongError
from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.datasets.base import Dataset, OnDemand
from trials.datasets.own import broken_rules

LABELS, SAMPLES = 10, 2000
"""Of the labels that a level is checked on."""


def check_dataset(name: str, root: str | None = None) -> str:
    """Raise `WrongError` where what a data set loads is not what `Dataset` promises, or is not the same again."""
    family, spelled = datasets.parse(name), datasets.canonical(name)
    if datasets.canonical(spelled) != spelled:
        raise WrongError(
            f"{spelled} is read as {datasets.canonical(spelled)}: are its fields its arguments?"
        )
    made, again = (family.load(0, None, root) for _ in range(2))
    for rule in broken_rules(made):
        raise WrongError(rule)
    if made.task != family.task:
        raise WrongError(
            f"it is a {made.task.metric} task, and its class says {family.task.metric}"
        )
    for part in ("y", "test", "client", "x"):
        if not _equal(*(_array(one, part) for one in (made, again))):
            raise WrongError(f"{part} differs when it is loaded again with the same seed")
    born = (
        ""
        if made.client is None
        else f", born on {len(np.unique(made.client[~made.test]))} clients"
    )
    return f"{len(made.y):,} samples of shape {made.shape}, {int(made.test.sum()):,} to test{born}"


def _array(made: Dataset, part: str) -> Any:
    value = getattr(made, part)
    return value.take(np.arange(min(100, len(made.y)))) if isinstance(value, OnDemand) else value


def _equal(a: Any, b: Any) -> bool:
    return (a is None and b is None) or np.array_equal(a, b)


def check_partition(level: str, clients: Sequence[int] = (5, 12)) -> str:
    """Raise `WrongError` where a level, a partition with or without modifiers, does not give every client samples
    of its own, or gives others when it is asked again.
    """
    found = heterogeneity.parse(level)
    if heterogeneity.parse(found.name).name != found.name:
        raise WrongError(f"{found.name} is read as another: are its fields its arguments?")
    partition, y = found.partition, np.random.default_rng(0).integers(0, LABELS, SAMPLES)
    for n in clients:
        owner, before = np.arange(SAMPLES) % n, y.copy()
        parts, again = (partition.assign(y, n, owner, np.random.default_rng(1)) for _ in range(2))
        if not np.array_equal(y, before):
            raise WrongError("assign changes the labels that it is given")
        if len(parts) != n or not all(len(ids) for ids in parts):
            raise WrongError(
                f"{n} clients get {len(parts)} parts, {sum(map(len, parts) if parts else [])} samples: one array each, none empty"
            )
        ids = np.concatenate(parts)
        if ids.dtype.kind not in "iu" or not 0 <= ids.min() <= ids.max() < SAMPLES:
            raise WrongError(
                f"assign gives {ids.dtype} of {ids.min()}..{ids.max()}, not indices into the labels"
            )
        if not partition.overlap and len(np.unique(ids)) < len(ids):
            raise WrongError("a sample is given twice: say `overlap = True` where that is meant")
        if not all(map(_equal, parts, again)):
            raise WrongError(
                "equal generators give other parts: what is random is drawn from `rng` alone"
            )
        kept = [found.unseen(n, np.random.default_rng(1)) for _ in range(2)]
        if not _equal(*kept) or len(set(kept[0].tolist()) - set(range(n))) or len(kept[0]) == n:
            raise WrongError(
                "unseen gives some of the clients, not all, the same for equal generators"
            )
        everyone, per_epoch = np.arange(n), np.full(n, 4)
        for number in range(3):
            steps = [
                found.local_steps(np.full(n, 5), per_epoch, everyone, number, 0) for _ in range(2)
            ]
            answers = [found.answering(everyone, number, 0) for _ in range(2)]
            if not (_equal(*steps) and _equal(*answers)):
                raise WrongError(
                    "a modifier draws otherwise when asked again: use trials.common.randomness"
                )
            if steps[0].shape != (n,) or steps[0].dtype.kind not in "iu" or steps[0].min() < 1:
                raise WrongError(
                    "local_steps gives each client a whole number of steps, at least 1"
                )
            if not len(answers[0]) or not set(answers[0]) <= set(everyone):
                raise WrongError(
                    "answering gives some of the clients that it is given, at least one"
                )
    try:
        partition.assign(y[:2], 5, np.arange(2), np.random.default_rng(1))
    except UserError:
        pass  # as it should be
    except Exception as error:
        raise WrongError(
            f"two samples for five clients: raise a UserError, not {error!r}"
        ) from error
    skew = partition.skew(LABELS)
    if skew is not None and not 0 <= skew <= 1:
        raise WrongError(f"skew is {skew}, and a total variation is from 0 to 1")
    return f"{', '.join(map(str, clients))} clients, skew {'of the data' if skew is None else f'{skew:.2f}'}"
