"""Tuned configurations: imported, fetched, refused, chosen among, started from."""

import os
from contextlib import chdir
from unittest.mock import patch

import pytest

from suite.configurations import configuration as tuned
from suite.configurations.library import select_tuned, warm_start
from suite.studies.entries import make_entries
from suite.studies.study import check_study
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from tests.support.commands import document, fault, suite_here
from tests.support.configurations import a_tuned, folder
from tests.support.foreign import little, play


def test_imported_offline_then_shown_and_run(tmp_path):
    """No store, no network: the files are enough."""
    items = [a_tuned(), a_tuned("fedprox", score=0.92), a_tuned(level="labels(2)", score=0.8)]
    kept = suite_here("tuned", "import", folder(tmp_path / "set", *items), cwd=tmp_path)
    assert "imported 3 configurations" in kept.stdout
    assert not (tmp_path / "runs" / "mlflow.db").exists()
    which = ("--dataset", "digits", "--heterogeneity", "labels(2)")
    assert tuned.parse(suite_here("tuned", "show", *which, cwd=tmp_path).stdout, "out") == items[2]
    words = ("run", "--tuned", *which, "--set", "rounds=1", "--no-record", "--json")
    assert document(suite_here(*words, cwd=tmp_path))["params"] == {"lr": 0.1}


def test_from_any_machine_through_mlflow(tmp_path):
    """The tables that a store has, by its address; each is fetched once."""
    uri = f"sqlite:///{tmp_path}/shared.db"
    place = SweepPaths(tmp_path / "there" / "runs", "s", uri)
    with patch.dict(os.environ, XDG_CACHE_HOME=str(tmp_path / "cache")), chdir(tmp_path):
        play(Sweep("s", little(), place))
        here = tmp_path / "here"
        here.mkdir()
        shown = suite_here("tuned", "show", "--tracking-uri", uri, cwd=here).stdout
        board = ("leaderboard", "--tracking-uri", uri, "--json")
        rows = document(suite_here(*board, cwd=here))["rows"]
        assert len(list((tmp_path / "cache").rglob("*.parquet"))) == 1
    (path,) = (place.folder / "tuned").rglob("*.yaml")
    assert tuned.parse(shown, "shown") == tuned.read(path)
    assert [row["algorithm"] for row in rows] == ["fedavg"]


def test_where_a_file_is_bad_nothing_is_imported(tmp_path):
    source = folder(tmp_path / "set", a_tuned())
    (source / "two.yaml").write_text("{}")
    said = fault(suite_here("tuned", "import", source, cwd=tmp_path, code=2))
    assert "two.yaml" in said
    assert "algorithm: is required" in said
    assert not (tmp_path / "runs" / "imported").exists()
    assert "none" in fault(suite_here("tuned", "import", "none", cwd=tmp_path, code=2))


VALIDATED = a_tuned(score=0.9, test=0.1, lr=0.3)
TESTED = a_tuned(score=0.5, test=0.99, lr=0.01)
PERSONAL = VALIDATED.model_copy(
    update={
        "settings": VALIDATED.settings.model_copy(update={"metric": "personal"}),
        "scores": {"val_accuracy_personal": 0.99},
    }
)


@pytest.mark.parametrize("order", [(VALIDATED, TESTED), (TESTED, VALIDATED)])
def test_validation_chooses_and_no_test(tmp_path, order):
    """What is kept and shown; a later one where there are no such scores."""
    assert PERSONAL.loss < VALIDATED.loss
    assert select_tuned([PERSONAL, *order])[0] == VALIDATED, "clients' own scores are no others'"
    kept = [tuned.keep([item], tmp_path) for item in order]
    assert tuned.read(tmp_path / VALIDATED.path) == VALIDATED
    assert (kept[1] == []) == (order[1] == TESTED)
    bare = [TESTED.model_copy(update={"scores": {"test_accuracy": lr}}) for lr in (0.3, 0.1)]
    tuned.keep(bare, tmp_path / "bare")
    assert tuned.read(tmp_path / "bare" / TESTED.path) == bare[1]
    assert tuned.keep(bare, tmp_path) == []


def test_scores_of_different_data_are_not_compared(tmp_path):
    """Each data set and level has its best; a run from the best known, or its file, needs one of them."""
    items = (
        a_tuned("fedavg", score=0.90),
        a_tuned("folb", level="labels(2)", score=0.95),
        a_tuned("fedprox", score=0.92),
    )
    assert [item.algorithm for item in select_tuned(list(items))] == ["fedprox", "fedavg", "folb"]
    suite_here("tuned", "import", folder(tmp_path / "given", *items), cwd=tmp_path)
    for words in (("run", "--tuned", "--no-record"), ("tuned", "show")):
        said = fault(suite_here(*words, cwd=tmp_path, code=2))
        assert "--dataset digits --heterogeneity iid" in said
        assert "--dataset digits --heterogeneity 'labels(2)'" in said
    shown = suite_here("tuned", "show", "--heterogeneity", "iid", "--json", cwd=tmp_path)
    assert document(shown)["algorithm"] == "fedprox"


@pytest.mark.parametrize(
    ("known", "nearest"),
    [
        (["digits mlp iid", "mnist logreg iid", "digits logreg labels(2)"], 2),
        (["mnist logreg labels(2)", "digits mlp labels(2)"], 1),
        (["mnist mlp iid", "mnist logreg labels(2)"], 1),
        (["mnist mlp labels(2)", "mnist mlp iid"], 1),
        (["sine linear iid"], None),
        ([], None),
    ],
)
def test_a_sweep_starts_from_the_nearest_scenario(known, nearest):
    """That of the same data set, else of the same model, else of the same level; none of another task."""
    study = {"algorithms": ["fedavg"], "datasets": ["digits"], "models": ["logreg"]}
    entries = make_entries(check_study({**study, "heterogeneity": ["iid"]}, {}, "s"), "s")
    items = [a_tuned("fedprox", lr=0.9)]
    for number, names in enumerate(known):
        dataset, model, level = names.split()
        items.append(a_tuned(dataset=dataset, model=model, level=level, lr=0.1 + 0.01 * number))
    (warm,) = warm_start(entries, items).values()
    rates = [start.params["lr"] for start in warm]
    assert rates == ([] if nearest is None else [0.1 + 0.01 * nearest])
