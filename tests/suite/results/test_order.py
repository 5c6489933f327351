"""A leaderboard does not depend on the order in which trials happened to end."""

import json

import pytest

from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.results.table import FILE, TrialTable, read, write
from suite.sweeps.tables import open_tables
from tests.support.stores import recorded


def test_a_board_is_the_same_in_whatever_order_its_search_trials_are(
    tmp_path_factory: pytest.TempPathFactory, tmp_path
):
    storage = recorded(tmp_path_factory) / "runs"
    board = json.dumps(read_leaderboard(open_tables(storage), Query("s")).as_dict())
    table = read(storage / "s" / FILE)
    rows = table.whole()
    back = TrialTable(table.facts, rows.take(list(range(len(rows)))[::-1]))
    write(tmp_path / "back.parquet", back)
    again = read_leaderboard(open_tables(storage, files=[tmp_path / "back.parquet"]))
    assert json.dumps(again.as_dict()).replace(" --storage", "") == board.replace(
        f" --storage {storage}", ""
    )
