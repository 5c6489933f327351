"""What early stopping would have cost a sweep that stopped nothing, and spared it.

    python benchmarks/stopping.py --name quickstart-ranges --orders 20

The recorded curves of an entry's trials are played again under each scheduler, in shuffled orders, as a sweep
runs them: `LAG` trials at once, each for as long as it has rounds; what stops makes room for the next. Of one
play

    share  = rounds that were run / rounds of all trials,
    regret = best final validation score of all trials - best of those that were not stopped,

and beside it the regret of stopping nothing, but spending as much: the best of the first trials of the same
order whose rounds add up to no more than the share, and of the first at least. A scheduler that earns its
place has the smaller regret. The order is all that is drawn, so a play is a function of records and seed.
"""

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

import numpy as np
import optuna
from optuna import pruners

from measuring import parser, show
from reports.leaderboard.statistics import interval
from suite.search.schedulers import REDUCTION, SCHEDULERS
from suite.search.schedulers import Scheduler as Ours
from suite.studies.entries import make_entries
from suite.studies.entry import Entry
from suite.studies.samplers import LAG
from suite.studies.study import Study
from suite.sweeps.journal.paths import SweepPaths
from trials.common import randomness
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialKind
from trials.run.result import TrialResult
from trials.scoring.metrics import Direction, Task, score

BAND = (0.05, 0.95)
"""The quantiles over orders between which a band lies."""


@dataclass(frozen=True)
class Curve:
    """A recorded trial: the scores that schedulers are shown by round, at how many rounds it ended by itself,
    and its final validation score; None where it diverged or failed.
    """

    scores: Mapping[int, float]
    rounds: int
    value: float | None


class Stopper(Protocol):
    """A scheduler as it is played."""

    def stops(self, index: int, round_index: int, value: float) -> bool:
        """Whether trial `index`, which scored `value`, ends here."""

    def ended(self, index: int, value: float | None) -> None:
        """Take note that a trial ran to its end."""


class OfSuite:
    """A scheduler of the suite."""

    def __init__(self, scheduler: Ours) -> None:
        self.scheduler = scheduler

    def stops(self, index: int, round_index: int, value: float) -> bool:
        """As the scheduler decides."""
        return self.scheduler.stops(index, str(index), round_index, value)

    def ended(self, index: int, value: float | None) -> None:
        """Nothing that it learns from."""


class OfOptuna:
    """A pruner of Optuna, asked at the same rounds."""

    def __init__(self, pruner: pruners.BasePruner, direction: Direction) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # HyperBand partitions its brackets by the study's name.
        self.study = optuna.create_study(
            study_name="stopping",
            direction=direction,
            pruner=pruner,
            sampler=optuna.samplers.RandomSampler(seed=0),
        )
        self.trials: dict[int, optuna.Trial] = {}

    def stops(self, index: int, round_index: int, value: float) -> bool:
        """Whether the pruner would have the trial pruned."""
        trial = self._of(index)
        trial.report(value, round_index)
        if pruned := trial.should_prune():
            self.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        return pruned

    def ended(self, index: int, value: float | None) -> None:
        """The trial is complete, or failed."""
        if value is None:
            self.study.tell(self._of(index), state=optuna.trial.TrialState.FAIL)
        else:
            self.study.tell(self._of(index), value)

    def _of(self, index: int) -> optuna.Trial:
        if index not in self.trials:
            self.trials[index] = self.study.ask()
        return self.trials[index]


def _pruner(make: Callable[[int, int], pruners.BasePruner]) -> Callable[[Entry], Stopper]:
    """How an entry is played under a pruner, made from its first stop and its rounds."""
    return lambda e: OfOptuna(make(e.stops[0], e.settings.rounds), e.task.direction)


STOPPERS: dict[str, Callable[[Entry], Stopper]] = {
    name: lambda entry, make=make: OfSuite(make(entry))
    for name, make in SCHEDULERS.items()
    if make is not None
} | {
    "optuna halving": _pruner(
        lambda first, rounds: pruners.SuccessiveHalvingPruner(first, REDUCTION)
    ),
    "optuna hyperband": _pruner(
        lambda first, rounds: pruners.HyperbandPruner(first, rounds, REDUCTION)
    ),
    "optuna median": _pruner(lambda first, rounds: pruners.MedianPruner()),
}
"""The schedulers that are played: the suite's, and Optuna's pruners with its defaults, halving by thirds."""


@dataclass(frozen=True)
class Play:
    """How one order went: the share of the rounds that was run, the regret, and that of as many rounds
    without stopping.
    """

    share: float
    regret: float
    plain: float


def stopping(storage: Path, name: str, orders: int) -> dict[str, Any]:
    """Each scheduler on each search of a finished sweep, over `orders` shuffled orders, and over all searches.

    Raises `UserError` where there is no such sweep, or where it stopped trials itself, is not over, or has
    nothing to stop.
    """
    found: list[dict[str, Any]] = []
    for entry, label, curves in _searches(storage, name):
        for stopper, make in STOPPERS.items():
            plays = []
            for order in range(orders):
                draws = randomness.bits("order", int(entry.id, 16), order, np.arange(len(curves)))
                shuffled = [curves[i] for i in np.argsort(draws, kind="stable")]
                plays.append(play(shuffled, entry, make(entry)))
            found.append({"search": label, **entry.about(), "scheduler": stopper, **_over(plays)})
    if not found:
        raise UserError(
            f"--name {name}: no trial of it finished that could have been stopped before"
        )
    return {"sweep": name, "orders": orders, "searches": found, "schedulers": _summed(found)}


def _searches(storage: Path, name: str) -> Iterator[tuple[Entry, str, list[Curve]]]:
    """The searches of a sweep in which something finished and could be stopped, with their trials' curves in the order asked."""
    state = SweepPaths(storage, name).state()
    if state.begun is None:
        raise UserError(f"--name {name}: there is no such sweep in {storage}")
    study = Study.model_validate(state.begun.study)
    if study.scheduler != "none":
        raise UserError(f"--name {name}: ran under {study.scheduler}; whole curves need none")
    asks = [ask for ask in state.requests if ask.kind == TrialKind.SEARCH]
    if missing := sum(ask.trial_id not in state.ended for ask in asks):
        raise UserError(f"--name {name}: {missing} of its search trials have not ended")
    for entry in make_entries(study, f"sweep {name}"):
        searches = dict.fromkeys(ask.search for ask in asks if ask.entry_id == entry.id)
        for search in searches if entry.stops else ():
            of = [ask for ask in asks if ask.search == search]
            label = " · ".join(filter(None, (entry.name, of[0].replicate)))
            curves = [curve(entry, state.ended[ask.trial_id]) for ask in of]
            if any(one.value is not None for one in curves):
                yield entry, label, curves


def curve(entry: Entry, outcome: TrialResult) -> Curve:
    """The curve of a recorded trial, from its history: one that nobody stops reports less often than it is
    evaluated. What was not finite, and the last round of one that ended by itself, is shown to no scheduler.
    """
    history, metric, last = outcome.history, f"val_{entry.task.metric}", outcome.last_round
    scores = {int(one["round"]): score(history[: i + 1], metric) for i, one in enumerate(history)}
    shown = {
        r: scores[r] for r in entry.stops if r < last and math.isfinite(scores.get(r, math.nan))
    }
    whole = last == entry.settings.rounds and outcome.status == Status.FINISHED
    return Curve(shown, last, outcome.value if whole else None)


def play(curves: Sequence[Curve], entry: Entry, stopper: Stopper) -> Play:
    """One order of an entry's trials under a scheduler, `LAG` at once."""
    total = sum(one.rounds for one in curves)
    spent, kept = 0, []
    waiting = iter(range(len(curves)))
    # When something happens, to which trial, and the round that it is at then.
    events: list[tuple[int, int, int]] = []

    def go_on(now: int, index: int, since: int) -> None:
        rounds = [r for r in sorted(curves[index].scores) if r > since] + [curves[index].rounds]
        heapq.heappush(events, (now + rounds[0] - since, index, rounds[0]))

    for index in (i for _, i in zip(range(LAG), waiting, strict=False)):
        go_on(0, index, 0)
    while events:
        now, index, at = heapq.heappop(events)
        one = curves[index]
        if at < one.rounds and not stopper.stops(index, at, one.scores[at]):
            go_on(now, index, at)
            continue
        if at == one.rounds:
            stopper.ended(index, one.value)
            kept.append(one)
        spent += at
        if (following := next(waiting, None)) is not None:
            go_on(now, following, 0)
    best, under, plain = (_best(of, entry.task) for of in (curves, kept, _first(curves, spent)))
    return Play(spent / total, best - under, best - plain)


def _first(curves: Sequence[Curve], rounds: int) -> list[Curve]:
    """The first trials whose rounds add up to no more than so many; the first at least."""
    sums = np.cumsum([one.rounds for one in curves])
    return list(curves[: max(1, int((sums <= rounds).sum()))])


def _best(curves: Sequence[Curve], task: Task) -> float:
    """The best final score, more is better; the task's worst where no trial has one."""
    found = (task.sign * one.value for one in curves if one.value is not None)
    return max(found, default=task.sign * task.worst)


def _over(plays: Sequence[Play]) -> dict[str, Any]:
    """Means and bands over orders."""
    found: dict[str, Any] = {}
    for name in ("share", "regret", "plain"):
        values = [getattr(one, name) for one in plays]
        low, high = np.quantile(values, BAND)
        found[name] = fmean(values)
        found |= {f"{name}_low": float(low), f"{name}_high": float(high)}
    return found


def _summed(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each scheduler over all searches: means, what it gains over as many rounds without stopping, with
    Student's interval over searches, and the search in which it cost most.
    """
    rows = []
    for stopper in STOPPERS:
        of = [one for one in found if one["scheduler"] == stopper]
        means = {key: fmean(one[key] for one in of) for key in ("share", "regret", "plain")}
        low, high = interval([one["plain"] - one["regret"] for one in of])
        gain = {"gain": means["plain"] - means["regret"], "gain_low": low, "gain_high": high}
        worst = max(of, key=lambda one: one["regret"])
        cost = {"worst": worst["regret"], "worst_search": worst["search"]}
        rows.append({"scheduler": stopper, **means, **gain, **cost, "searches": len(of)})
    return rows


def main() -> None:
    """Entry point."""
    args = parser(__doc__)
    args.add_argument("--name", required=True, help="a finished sweep that stopped no trial")
    args.add_argument("--orders", type=int, default=20, help="shuffled orders of each search")
    args.add_argument("--storage", type=Path, default=Path("runs"))
    asked = args.parse_args()
    show(stopping(asked.storage, asked.name, asked.orders), asked.json)


if __name__ == "__main__":
    main()
