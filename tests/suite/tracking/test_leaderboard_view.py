"""A leaderboard in MLflow: its rows' names and numbers, and the views that show it."""

import json

from suite.sweeps.recording import title
from suite.tracking.schema.leaderboard_view import curves_page, leaderboard_page
from suite.tracking.store import Store
from tests.support.boards import A, B, board_of, runs


def test_a_row_s_name_says_rank_method_score_and_cell():
    first, second = board_of(runs("fedprox", A), runs("fedavg", B)).rows
    assert title(first) == "1 · fedprox 91.0 ± 2.0 · digits logreg iid"
    assert title(second) == "2 · fedavg 90.4 ± 2.1 · digits logreg iid"


def test_two_sweeps_of_a_study_have_views_of_their_own(tmp_path):
    store = Store(None, tmp_path)
    experiment = store.experiment("study")
    names = ("day", "night", "it's")
    for name in names:
        store.share(experiment, name)
    pages = {name: leaderboard_page(experiment, name) for name in names}
    views = store.client.get_experiment(experiment).tags
    for name, address in pages.items():
        key = address.partition("viewStateShareKey=")[2]
        shown = views[f"mlflow.sharedViewState.{key}"]
        assert ("tags.`suite.sweep` = " in shown) == (name != "it's"), "a quote cannot be asked for"
        assert "tags.`suite.kind` = 'leaderboard'" in shown
        curves = curves_page(experiment, name).partition("viewStateShareKey=")[2]
        view = json.loads(views[f"mlflow.sharedViewState.{curves}"])
        assert "tags.`suite.kind` = 'final'" in view["searchFilter"]
        assert [key["groupByData"] for key in view["groupBy"]["groupByKeys"]] == ["suite.algorithm"]
    assert "`tags.suite.kind = 'leaderboard'`" in views["mlflow.note.content"]
    assert len(set(pages.values())) == 3
