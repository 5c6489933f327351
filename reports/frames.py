"""Results for Python: records as a pandas data frame, and what a notebook shows of a leaderboard."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def frame(records: Iterable[Mapping[str, Any]]) -> "pd.DataFrame":
    """A row a record. A mapping in a record becomes columns `params.lr`, `params.mu`, ...; what not
    all records have is NaN where it is missing.
    """
    import pandas as pd  # half a second, for those who ask for a table

    return pd.json_normalize([dict(record) for record in records], max_level=1)


def drawing() -> Any:
    """What draws tables and charts for notebooks. It stands above all that it draws, so it is found by its name."""
    return import_module("reports.page.notebook")
