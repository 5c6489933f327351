"""How far a sweep is, as plain data: what the terminal, `suite status` and the first page draw."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trials.run.outcome import Status, TrialKind
from trials.run.scenario import Scenario
from trials.scoring.metrics import TASKS

Curve = Sequence[tuple[int, float]]
"""(round, validation metric) of each evaluation of a trial so far."""


@dataclass(frozen=True)
class EntrySnapshot:
    """An algorithm in a scenario. `method` is its name as pages show it, told apart from those of other files
    (`reports.leaderboard.names`), `name` the short one of that. `planned` trials are all there will be, at most
    `confirms` of them repeat the best few; `ended` counts the
    trials that are over by kind and status, without final runs of a former best; `running` has the curves of those that run; `scores` are the
    validation scores of search trials that are over, in the order in which they were requested (NaN: it did
    not run to its end at full rounds); `recorded` counts the final runs of the best that are in the store.
    """

    entry_id: str
    algorithm: str
    method: str
    scenario: Scenario
    metric: str
    planned: int
    confirms: int
    ended: Mapping[tuple[TrialKind, Status], int]
    running: Mapping[str, Curve]
    scores: Sequence[float]
    recorded: int

    @property
    def name(self) -> str:
        """The short name, which no other algorithm of the sweep has."""
        return self.method.rpartition(":")[2]

    @property
    def sign(self) -> int:
        """1 where more of the metric is better, else -1."""
        return TASKS[self.metric].sign

    @property
    def known(self) -> list[float]:
        """The scores that are numbers."""
        return [score for score in self.scores if score == score]

    @property
    def best(self) -> float | None:
        """The best score so far."""
        return max(self.known, key=lambda score: self.sign * score, default=None)

    @property
    def done(self) -> int:
        """How many trials have ended of those that are planned. Where a sweep grew, more may have confirmed."""
        confirmed = sum(n for (kind, _), n in self.ended.items() if kind == TrialKind.CONFIRM)
        return sum(self.ended.values()) - max(0, confirmed - self.confirms)

    @property
    def over(self) -> bool:
        """Whether all of its trials have ended."""
        return self.done >= self.planned

    @property
    def counts(self) -> Counter[str]:
        """Trials that are over, `search` (those that confirm among them) and `final`, those of each status, and those
        that are `running`.
        """
        found = Counter(running=len(self.running))
        for (kind, status), count in self.ended.items():
            found["search" if kind.counted else kind] += count
            found[status] += count
        return +found


@dataclass(frozen=True)
class Trial:
    """A trial as pages list it: `name` is its algorithm's, `number` its place in its search, `status` a `Status`, `score` its
    last validation score (None: it has none yet, or did not run to its end), `rounds` the last one it reported,
    `reason` why it diverged or failed, `run` its run in MLflow ("": it is not recorded).
    """

    trial_id: str
    entry_id: str
    name: str
    scenario: Scenario
    kind: str
    number: str
    origin: str
    status: str
    score: float | None
    metric: str
    rounds: int | None
    seconds: float | None
    seed: int
    params: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    run: str = ""


@dataclass(frozen=True)
class Snapshot:
    """A sweep. `active`: a process runs it, as far as this machine can see; `asked_to` is `stop`, `cancel` or "".
    `trials` and `seeds` are the search trials and final runs of an
    entry; `attempts_died` started again. `spent` are seconds of trials. `per_second` is the pace of the last
    session in trials (None: not known), `processes` is how many processes run trials, and `shares` the sum of the shares of
    their rounds that running trials have done. `failures` are (trial's id, status, reason).
    """

    name: str
    study: str
    active: bool
    asked_to: str
    sessions: int
    requested: int
    ended: int
    recorded: int
    attempts_died: int
    spent: float
    trials: int
    seeds: int
    per_second: float | None
    processes: int
    shares: float
    entries: Sequence[EntrySnapshot]
    failures: Sequence[tuple[str, str, str]] = ()
    dashboard: str = ""
    experiment: str = ""
    hardware: str = ""

    @property
    def planned(self) -> int:
        """How many trials there will be."""
        return sum(entry.planned for entry in self.entries)

    @property
    def done(self) -> int:
        """How many trials have ended of those that are planned."""
        return sum(entry.done for entry in self.entries)

    @property
    def superseded(self) -> int:
        """How many of those that ended are runs of a former best."""
        return self.ended - self.done

    @property
    def counts(self) -> Counter[str]:
        """The counts of all entries together."""
        return sum((entry.counts for entry in self.entries), Counter())

    @property
    def per_minute(self) -> float | None:
        """The pace in trials per minute."""
        return None if self.per_second is None else round(60 * self.per_second, 1)

    @property
    def seconds_left(self) -> float | None:
        """How long the trials that are left take at the last session's pace; None where it is not known, or
        nothing runs.
        """
        left = self.planned - self.done - self.shares
        if not self.active or not self.per_second or self.done >= self.planned:
            return None
        return round(left / self.per_second, 1)

    @property
    def over(self) -> bool:
        """Whether all trials have ended and are recorded."""
        return self.done >= self.planned and self.recorded >= self.ended

    @property
    def scenarios(self) -> dict[Scenario, list[EntrySnapshot]]:
        """The entries of each scenario, in the order of the study."""
        found: dict[Scenario, list[EntrySnapshot]] = {}
        for entry in self.entries:
            found.setdefault(entry.scenario, []).append(entry)
        return found


def spell(seconds: float) -> str:
    """A time that is left, to two digits or so: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
