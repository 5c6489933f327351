"""A leaderboard does not depend on the order in which trials happened to be recorded."""

import json
from dataclasses import replace

import pytest

from suite.results.leaderboards import read_leaderboard
from suite.results.query import Held, Query
from suite.tracking.store import open_existing
from tests.support.stores import recorded


def test_a_board_is_the_same_in_whatever_order_its_search_trials_were_recorded(
    tmp_path_factory, monkeypatch: pytest.MonkeyPatch
):
    store = open_existing(None, recorded(tmp_path_factory) / "runs")
    query = Query("s")
    board = json.dumps(read_leaderboard(store, query).as_dict())
    held = Held.of(store, query)
    assert len(held.searches) > 1
    back = {key: trials[::-1] for key, trials in reversed(list(held.searches.items()))}
    monkeypatch.setattr(Held, "of", lambda store, query: replace(held, searches=back))
    assert json.dumps(read_leaderboard(store, query).as_dict()) == board
