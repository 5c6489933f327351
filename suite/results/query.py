"""Which final runs are asked for, and by what they are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from suite.results.table import PLAIN
from suite.results.tables import records
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
"""What `--metric` may ask for, and the curve that has it (`suite.results.table.CURVES`): the mean of the last three evaluations; the
best over rounds; of the final model the worst 10 % of clients, the standard deviation over clients, the mean over clients of each one's
own score, the same once they fine-tuned it, and the mean over clients that took no part in training; loss and top-5 accuracy, again
means of the last three.
"""
AT_THE_END = ("worst_clients", "client_spread", "personal", "fine_tuned", "unseen")
"""Asked of the final model only."""
NONE_YET = "there are no final runs yet: finish the sweep with --resume"


@dataclass(frozen=True)
class Query:
    """Which final runs, compared by what. `where` has values of columns, as texts; `sweep` and `studies` may be given too. Unless
    `interim`, scenarios whose final runs are not all there are compared by those that are. Raises `UserError` for a metric or a cost
    that there is none of.
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
                f"metric {self.metric} is recorded of the final model only, so it cannot be compared "
                f"at equal {self.at}"
            )

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with the values `where`; raises `UserError` for a column that there is none of."""
        for name in self.where:
            if name not in PLAIN:
                raise unknown("column", name, PLAIN)
        asked = [self.asks_for(row) for row in records(frame[[*self.where]])]
        return frame.loc[asked] if self.where else frame

    def asks_for(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row has the values `where`, as far as it has the columns; a third party's algorithm goes by its short name
        too.
        """
        return all(
            is_named(row[key], value) if key == "algorithm" else _text(row[key]) == value
            for key, value in self.where.items()
            if key in row
        )


EVERYTHING = Query()


def why_none(finals: pd.DataFrame, query: Query) -> UserError:
    """Return why there are none of these final runs that are asked for, in words."""
    if finals.empty:
        return UserError(NONE_YET)
    for key, value in query.where.items():
        found = {_text(each) for each in finals[key].dropna()}
        if value not in found:
            return unknown(f"{key} among the final runs", value, found)
    return UserError("no final run has all of these values")


def _text(value: Any) -> str:
    """Return a value as a person writes it."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if value is True or value is False else str(value)
