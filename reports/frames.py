"""Records as a pandas data frame: the one way in which results become tables for Python."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def frame(records: Iterable[Mapping[str, Any]]) -> "pd.DataFrame":
    """A row a record. A mapping in a record becomes columns `params.lr`, `params.mu`, ...; what not
    all records have is NaN where it is missing.
    """
    import pandas as pd  # half a second, for those who ask for a table

    return pd.json_normalize([dict(record) for record in records], max_level=1)
