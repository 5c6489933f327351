"""How often a store is asked for the courses of its runs: by metrics, not by runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from suite.results.leaderboards import read_leaderboard
from suite.results.query import EVERYTHING, Query
from suite.results.report import read as read_report
from suite.tracking.reader import Reader
from suite.tracking.store import open_existing
from tests.support.stores import recorded
from trials.common.errors import UserError


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory)


@pytest.mark.parametrize(
    "read",
    [
        lambda store: read_leaderboard(store, Query(at="bytes")),
        lambda store: read_report(store, EVERYTHING, ""),
    ],
    ids=["leaderboard --at bytes", "report"],
)
def test_no_run_is_asked_for_alone(
    there: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Reader], Any]
) -> None:
    together: list[str] = []
    many = SqlAlchemyStore.get_metric_history_bulk

    def alone(*_: Any, **__: Any) -> None:
        raise AssertionError("one run was asked for alone")

    def counted(self: Any, run_ids: list[str], key: str, most: int) -> Any:
        together.append(key)
        return many(self, run_ids, key, most)

    monkeypatch.setattr(SqlAlchemyStore, "get_metric_history", alone)
    monkeypatch.setattr(SqlAlchemyStore, "get_metric_history_bulk", counted)
    read(open_existing(None, there / "runs"))
    assert together, "there was something to ask"


def test_a_run_is_found_by_how_its_id_begins(there: Path) -> None:
    store = open_existing(None, there / "runs")
    ids = [run.run_id for run in store.find()]
    assert {store.get(run_id).run_id for run_id in ids} == set(ids)
    alone = next(run_id for run_id in ids if sum(one[:6] == run_id[:6] for one in ids) == 1)
    assert store.get(alone[:6]).run_id == alone
    several = "more than one run begins with"
    shared = next(first for first in "0123456789abcdef" if sum(i[0] == first for i in ids) > 1)
    with pytest.raises(UserError, match=f"^{several} '{shared}' in sqlite:.*: give more of it$"):
        store.get(shared)
    for nothing in ("x", "", "%", f"{alone[:6]}%", "' OR '1' = '1"):
        with pytest.raises(UserError, match=f"^there is no run {nothing!r} in sqlite:"):
            store.get(nothing)
