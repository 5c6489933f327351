"""How far a sweep is, as plain data: what the terminal, `suite status` and the live page draw."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trials.run.outcome import Status, TrialKind
from trials.run.scenario import Scenario
from trials.scoring.metrics import TASKS

Curve = Sequence[tuple[int, float]]
"""(round, validation metric) of each evaluation of a trial so far."""


@dataclass(frozen=True)
class EntrySnapshot:
    """An algorithm in a scenario. `method` is its name as pages show it, told apart from those of other files
    (`reports.leaderboard.names`), `name` the short one of that. `ended` counts the
    trials that are over by kind and status, `running` has the curves of those that run; `scores` are the
    validation scores of search trials that are over, in the order in which they were requested (NaN: it did
    not run to its end at full rounds); `recorded` counts the final runs of the best that are in the store.
    """

    entry_id: str
    algorithm: str
    method: str
    scenario: Scenario
    metric: str
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
class Snapshot:
    """A sweep. `active`: a process runs it, as far as this machine can see; `asked_to` is `stop`, `cancel` or "".
    `planned` trials are all there will be, `trials` and `seeds` the search trials and final runs of an
    entry; `superseded` are final runs of a former best, among the `ended`; `attempts_died` started again.
    `spent` are seconds of trials. `per_minute` is the pace of the last session, `seconds_left` what is left at
    it (None: not known, or nothing runs). `failures` are (trial, status, reason).
    """

    name: str
    study: str
    active: bool
    asked_to: str
    sessions: int
    planned: int
    requested: int
    ended: int
    superseded: int
    recorded: int
    attempts_died: int
    spent: float
    trials: int
    seeds: int
    per_minute: float | None
    seconds_left: float | None
    entries: Sequence[EntrySnapshot]
    failures: Sequence[tuple[str, str, str]] = ()
    dashboard: str = ""
    experiment: str = ""

    @property
    def done(self) -> int:
        """How many trials have ended of those that are planned."""
        return self.ended - self.superseded

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
