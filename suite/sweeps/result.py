"""What came out of a sweep."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.leaderboard.board import Leaderboard
from reports.table import frame
from suite.configurations.library import TunedList, select_tuned, tuned_in
from suite.results.leaderboards import Query
from suite.results.tables import Tables

if TYPE_CHECKING:
    import pandas as pd

    from reports.page.notebook import Plot


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


@dataclass(frozen=True)
class Result:
    """What came out of a sweep. `ending` is how it ended before its work was done: interrupted, stopped or
    cancelled, else ""; then `leaderboard` is None.
    """

    summary: Summary
    leaderboard: Leaderboard | None
    ending: str
    tables: Tables

    def __repr__(self) -> str:
        did = self.summary
        ended = f"; {self.ending}" if self.ending else ""
        return (
            f"Sweep {did.name} of {did.study}: {did.trials_finished} search trials finished, {did.trials_pruned} "
            f"pruned, {did.final_runs} final runs, {did.seconds:.0f} s{ended}\n{self.leaderboard or 'no leaderboard'}"
        )

    def _repr_html_(self) -> str | None:
        from reports.page.notebook import board_html

        return board_html(self.leaderboard) if self.leaderboard else None

    def plot(self, *kinds: str) -> "Plot":
        """The charts of its report, which a notebook shows: `dots`, `rounds`, `bytes`, `ranks` and
        `budget`; all, or those kinds.
        """
        from reports.page.notebook import board_plot
        from suite.results.report import read

        return board_plot(read(self.tables, Query(self.summary.name), ""), kinds)

    @property
    def tuned(self) -> TunedList:
        """The best configuration of each entry, ordered as `select_tuned` does."""
        return select_tuned(tuned_in(self.tables.of(self.summary.name).tables))

    def to_pandas(self) -> "pd.DataFrame":
        """Return the leaderboard's rows; none where the sweep did not end."""
        return self.leaderboard.to_pandas() if self.leaderboard else frame([])
