"""A leaderboard in MLflow: its rows' names and numbers, and the views that show it."""

import json

from suite.sweeps.recording import title
from suite.tracking.schema.leaderboard_view import curves_page, leaderboard_page, share
from suite.tracking.store import Store
from tests.support.boards import A, B, board_of, runs


def test_a_row_s_name_says_rank_method_score_and_cell():
    first, second = board_of(runs("fedprox", A), runs("fedavg", B)).rows
    assert title(first) == "1 · fedprox 91.0 ± 2.0 · digits logreg iid"
    assert title(second) == "2 · fedavg 90.4 ± 2.1 · digits logreg iid"


def test_each_sweep_of_a_study_has_views_of_its_own(tmp_path):
    store = Store(None, tmp_path)
    experiment = store.experiment("study")
    keys = set()
    for name in ("day", "night", "it's"):
        share(store.client, experiment, name)
        views = store.client.get_experiment(experiment).tags
        for page, kind in ((leaderboard_page, "leaderboard"), (curves_page, "final")):
            key = page(experiment, name).partition("viewStateShareKey=")[2]
            wanted = json.loads(views[f"mlflow.sharedViewState.{key}"])["searchFilter"]
            assert f"tags.`suite.kind` = '{kind}'" in wanted
            assert (f"tags.`suite.sweep` = '{name}'" in wanted) == ("'" not in name)
            keys.add(key)
    assert len(keys) == 6
