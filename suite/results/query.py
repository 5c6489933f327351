"""Which final runs are asked for, and by what they are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from suite.results.table import PLAIN
from trials.algorithms import is_named
from trials.common.errors import UserError, unknown
from trials.scoring.metrics import COSTS

if TYPE_CHECKING:
    import pandas as pd

METRIC = {
    "score": "test",
    "best": "test",
    "worst_clients": "test_worst10",
    "client_spread": "test_spread",
    "personal": "test_personal",
    "fine_tuned": "test_fine_tuned",
    "unseen": "test_unseen",
    "loss": "test_loss",
    "top5": "test_top5_accuracy",
}
"""What `--metric` may ask for (docs/leaderboards.md), and the curve that has it."""
AT_THE_END = ("worst_clients", "client_spread", "personal", "fine_tuned", "unseen")
"""Asked of the final model only."""
NONE_YET = "there are no final runs yet: finish the sweep with --resume"


@dataclass(frozen=True)
class Query:
    """Which final runs, compared by what. `where` has values of columns, as texts; `sweep` (or the name of a study) and `studies` may be
    given too. Unless `interim`, scenarios whose final runs are not all there are compared by those that are. Raises `UserError`
    for a metric or a cost that there is none of.
    """

    sweep: str | None = None
    studies: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    metric: str = "score"
    target: float | None = None
    at: str = "rounds"
    interim: bool = True

    def __post_init__(self) -> None:
        for kind, name, known in (("metric", self.metric, METRIC), ("cost", self.at, COSTS)):
            if name not in known:
                raise unknown(kind, name, known)
        if self.at != "rounds" and self.metric in AT_THE_END:
            raise UserError(
                f"metric {self.metric} is recorded of the final model only, so it cannot be compared at equal {self.at}"
            )

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with the values `where`, as far as there are such columns; an algorithm of a third party goes by its short
        name too. Raises `UserError` for what is no column of a table.
        """
        for name, value in self.where.items():
            if name not in PLAIN:
                raise unknown("column", name, PLAIN)
            if name in frame:
                same = is_named if name == "algorithm" else _is_written
                frame = frame.loc[[same(cell, value) for cell in frame[name]]]
        return frame


def _is_written(cell: Any, text: str) -> bool:
    """Return whether a value is written so by a person."""
    whole = int(cell) if isinstance(cell, float) and cell.is_integer() else cell
    return text in (str(whole), str(whole).lower())
