"""What came out of a sweep."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.frames import frame
from reports.leaderboard.leaderboard import Leaderboard
from suite.configurations.library import TunedList, select_tuned, tuned_in
from suite.results.query import Query
from suite.tracking.store import Store
from trials.run.outcome import Status
from trials.run.result import TrialResult

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Summary:
    """What a sweep did, in counts; the JSON document of `suite sweep`. `storage` is its own folder."""

    study: str
    name: str
    entries: int
    trials_finished: int
    trials_pruned: int
    trials_diverged: int
    trials_failed: int
    final_runs: int
    final_runs_diverged: int
    seconds: float
    tracking_uri: str
    experiment_id: str
    storage: str


def counts(searches: Sequence[TrialResult], finals: Sequence[TrialResult]) -> dict[str, int]:
    """How the trials of the searches and the final runs ended, as fields of a `Summary`."""
    search = Counter(outcome.status for outcome in searches)
    final = Counter(outcome.status for outcome in finals)
    return {
        "trials_finished": search[Status.FINISHED],
        "trials_pruned": search[Status.PRUNED],
        "trials_diverged": search[Status.DIVERGED],
        "trials_failed": search[Status.FAILED] + final[Status.FAILED],
        "final_runs": len(finals),
        "final_runs_diverged": final[Status.DIVERGED],
    }


@dataclass(frozen=True)
class Result:
    """What came out of a sweep. `ending` is how it ended before its work was done: interrupted, stopped or
    cancelled, else ""; then `leaderboard` is None.
    """

    summary: Summary
    leaderboard: Leaderboard | None
    ending: str
    store: Store

    @property
    def tuned(self) -> TunedList:
        """The best configuration of each entry, ordered as `select_tuned` does."""
        return select_tuned(tuned_in(self.store, Query(self.summary.name)))

    def to_pandas(self) -> "pd.DataFrame":
        """The leaderboard's rows; none where the sweep did not end."""
        return self.leaderboard.to_pandas() if self.leaderboard else frame([])
