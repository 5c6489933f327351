"""What every data set and heterogeneity level owes. Each check returns what it saw, in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from suite.testing.comparing import WrongError, demand
from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.datasets.base import Dataset, OnDemand
from trials.datasets.own import broken_rules

LABELS, SAMPLES = 10, 2000
"""Of the labels that a level is checked on."""


def check_dataset(name: str, root: str | None = None) -> str:
    """Raise `WrongError` where what a data set loads is not what `Dataset` promises, or is not the same again."""
    family, spelled = datasets.parse(name), datasets.canonical(name)
    again = datasets.canonical(spelled)
    demand(again == spelled, f"{spelled} is read as {again}: are its fields its arguments?")
    first, second = (family.load(0, None, root) for _ in range(2))
    for rule in broken_rules(first):
        raise WrongError(rule)
    task = first.task.metric
    demand(first.task == family.task, f"is a {task} task, and its class says {family.task.metric}")
    for part in ("y", "test", "client", "x"):
        equal = _equal(_array(first, part), _array(second, part))
        demand(equal, f"{part} differs when it is loaded again with the same seed")
    owners = () if first.client is None else np.unique(first.client[~first.test])
    born = f", born on {len(owners)} clients" if len(owners) else ""
    tests = int(first.test.sum())
    return f"{len(first.y):,} samples of shape {first.shape}, {tests:,} to test{born}"


def _array(dataset: Dataset, part: str) -> Any:
    value = getattr(dataset, part)
    return value.take(np.arange(min(100, len(dataset.y)))) if isinstance(value, OnDemand) else value


def _equal(a: Any, b: Any) -> bool:
    return (a is None and b is None) or np.array_equal(a, b)


def check_partition(text: str, clients: Sequence[int] = (5, 12)) -> str:
    """Raise `WrongError` where a level, a partition with or without modifiers, does not give every client samples
    of its own, or gives others when it is asked again.
    """
    level = heterogeneity.parse(text)
    again = heterogeneity.parse(level.name).name
    demand(again == level.name, f"{level.name} is read as {again}: are its fields its arguments?")
    partition, y = level.partition, np.random.default_rng(0).integers(0, LABELS, SAMPLES)
    for n in clients:
        owner, before = np.arange(SAMPLES) % n, y.copy()
        parts, second = (partition.assign(y, n, owner, np.random.default_rng(1)) for _ in range(2))
        demand(np.array_equal(y, before), "assign changes the labels that it is given")
        whole = len(parts) == n and all(len(ids) for ids in parts)
        demand(whole, f"{n} clients get {len(parts)} parts: one array each, none empty")
        ids = np.concatenate(parts)
        indices = ids.dtype.kind in "iu" and 0 <= ids.min() <= ids.max() < SAMPLES
        demand(indices, f"assign gives {ids.dtype}, not indices into the labels")
        once = partition.overlap or len(np.unique(ids)) == len(ids)
        demand(once, "a sample is given twice: say `overlap = True` where that is meant")
        equal = all(map(_equal, parts, second))
        demand(equal, "equal generators give other parts: what is random is drawn from `rng` alone")
        _check_modifiers(level, n)
    try:
        partition.assign(y[:2], 5, np.arange(2), np.random.default_rng(1))
    except UserError:
        pass  # as it should be
    except Exception as error:
        rule = f"two samples for five clients: raise a UserError, not {error!r}"
        raise WrongError(rule) from error
    skew = partition.skew(LABELS)
    demand(skew is None or 0 <= skew <= 1, f"skew is {skew}, and a total variation is from 0 to 1")
    seen = "of the data" if skew is None else f"{skew:.2f}"
    return f"{', '.join(map(str, clients))} clients, skew {seen}"


def _check_modifiers(level: heterogeneity.Heterogeneity, n: int) -> None:
    """Raise `WrongError` where what a level says of n devices makes no sense, or is otherwise when asked again."""
    everyone, rule = np.arange(n), "use trials.common.randomness, or the generator that is given"
    unseen, *again = [level.unseen(n, np.random.default_rng(1)) for _ in range(2)]
    demand(_equal(unseen, *again), f"unseen gives others when asked again: {rule}")
    some = set(unseen.tolist()) < set(range(n))
    demand(some, "unseen gives some of the clients, not all")
    for number in range(3):
        steps, *again = [
            level.local_steps(np.full(n, 5), np.full(n, 4), everyone, number, 0) for _ in range(2)
        ]
        answers, *answered = [level.answering(everyone, number, 0) for _ in range(2)]
        same = _equal(steps, *again) and _equal(answers, *answered)
        demand(same, f"a modifier draws otherwise when asked again: {rule}")
        counts = steps.shape == (n,) and steps.dtype.kind in "iu" and steps.min() >= 1
        demand(counts, "local_steps gives each client a whole number of steps, at least 1")
        heard = len(answers) > 0 and set(answers) <= set(everyone)
        demand(heard, "answering gives some of the clients that it is given, at least one")
