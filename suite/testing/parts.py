"""What every data set, heterogeneity level and sampler owes. Each check returns what it saw, in words."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from suite.search.proposer import Observation, Proposer
from suite.studies.samplers import SAMPLERS, Sampler, first_modelled
from suite.studies.space import Space
from suite.testing.wrong import WrongError
from trials import algorithms, datasets, heterogeneity
from trials.common.errors import UserError
from trials.datasets.base import Dataset, OnDemand
from trials.datasets.own.function import broken_rules
from trials.run.outcome import Status
from trials.scoring.metrics import Direction
from trials.settings import Settings

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


def check_sampler(name: str) -> str:
    """Raise `WrongError` where a sampler suggests otherwise when its search is done again or goes on after a stop,
    or learns from results earlier than it says, or never although it says so.
    """
    sampler = SAMPLERS.parse(name)
    first = first_modelled(sampler, 1)
    trials = 8 if first is None else first + 4
    made = _search(sampler, trials)
    if _search(sampler, trials) != made:
        raise WrongError(
            "equal seeds and results give other suggestions: make() is a function of its seed"
        )
    if _search(sampler, trials, trials // 2) != made:
        raise WrongError(
            "a search that goes on after a stop suggests otherwise: it needs `notes = True`"
        )
    for score in _OTHERS:
        other = _search(sampler, trials, score=score)
        pairs = enumerate(zip(made, other, strict=True), 1)
        differs = [number for number, (a, b) in pairs if a != b]
        if differs and (first is None or differs[0] < first):
            raise WrongError(
                f"results shape trial {differs[0]}, and by `startup` {first or 'none'}"
            )
        if differs:
            break
    if first is not None and not differs:
        raise WrongError(f"results shape none of {trials} trials, and by `startup` trial {first}")
    return "learns nothing" if first is None else f"models from trial {first} on, one at a time"


Score = Callable[[int, float], float]
"""Of a trial's number and learning rate."""


def _near(index: int, rate: float) -> float:
    return -abs(rate - 0.1)


_OTHERS: tuple[Score, ...] = (
    lambda index, rate: index * 7 % 5,
    lambda index, rate: -rate,
    lambda index, rate: rate,
)


def _search(
    sampler: Sampler,
    trials: int,
    stop: int | None = None,
    score: Score = _near,
) -> list[dict[str, Any]]:
    """The suggestions of a search over two ranges, one after the other. After `stop` trials it is begun anew from
    its journal.
    """
    space = Space.build("fedprox", algorithms.resolve("fedprox"), Settings(), {}, ())
    both: tuple[Direction, ...] = ("maximize", "minimize")
    directions = both if sampler.second else both[:1]

    def begun() -> Proposer:
        return Proposer(sampler, space, [], directions, (1,))

    def tell(to: Proposer, index: int, params: dict[str, Any]) -> None:
        values = (score(index, params["lr"]), params["lr"])[: len(directions)]
        to.tell(index, Observation(Status.FINISHED, values, {}, {}))

    found: list[dict[str, Any]] = []
    proposer = begun()
    for index in range(trials):
        if index == stop:
            before, proposer = proposer.made, begun()
            for at, one in enumerate(before):
                proposer.restore(at, one)
                tell(proposer, at, one.params)
        made = proposer.propose(index)
        tell(proposer, index, made.params)
        found.append(made.params)
    return found
