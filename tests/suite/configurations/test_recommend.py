"""Tuned files of others: imported, recommended, run, fetched; imports that are refused."""

import os
from contextlib import chdir
from unittest.mock import patch

import pytest

from suite.configurations import configuration as tuned
from suite.configurations.library import select_tuned
from suite.configurations.nearest import recommend
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from tests.support.commands import document, fault, suite_here
from tests.support.configurations import a_tuned, folder
from tests.support.foreign import little, play

KNOWN = [
    a_tuned(score=0.90),
    a_tuned("fedprox", score=0.92),
    a_tuned("centralized", score=0.99),
    a_tuned(level="labels(2)", score=0.80),
    a_tuned("fedprox", level="labels(2)", score=0.70),
    a_tuned(dataset="mnist", score=0.91),
    a_tuned(dataset="mnist", model="mlp", score=0.97),
]


def test_imported_offline_then_recommended_and_run(tmp_path):
    """No store, no network: the files are enough."""
    source = folder(tmp_path / "set", *KNOWN[:5])
    kept = suite_here("tuned", "import", source, cwd=tmp_path)
    assert "imported 5 configurations" in kept.stdout
    assert not (tmp_path / "runs" / "mlflow.db").exists()
    asked = ("--dataset", "digits", "--heterogeneity", "labels(2)")
    found = document(suite_here("tuned", "recommend", *asked, "--json", cwd=tmp_path))
    assert found["distance"] == 0
    assert found["configuration"] == KNOWN[3].model_dump(mode="json")
    other = ("--dataset", "digits", "--heterogeneity", "labels(4)")
    near = suite_here("tuned", "recommend", *other, cwd=tmp_path)
    assert tuned.parse(near.stdout, "out") == KNOWN[3]
    assert "0.30 away" in near.stderr
    options = (
        "run",
        "--tuned",
        *asked,
        "--model",
        "logreg",
        "--algorithm",
        "fedavg",
        "--no-record",
    )
    ran = document(suite_here(*options, "--set", "rounds=1", "--json", cwd=tmp_path))
    assert ran["params"] == {"lr": 0.1}


def test_from_any_machine_through_mlflow(tmp_path):
    """The tables that a store has, by its address; each is fetched once."""
    uri = f"sqlite:///{tmp_path}/shared.db"
    place = SweepPaths(tmp_path / "there" / "runs", "s", uri)
    with patch.dict(os.environ, XDG_CACHE_HOME=str(tmp_path / "cache")), chdir(tmp_path):
        play(Sweep("s", little(), place))
        here = tmp_path / "here"
        here.mkdir()
        asked = ("--dataset", "digits", "--heterogeneity", "iid", "--tracking-uri", uri)
        found = document(suite_here("tuned", "recommend", *asked, "--json", cwd=here))
        board = ("leaderboard", "--tracking-uri", uri, "--json")
        rows = document(suite_here(*board, cwd=here))["rows"]
        assert len(list((tmp_path / "cache").rglob("*.parquet"))) == 1
    (path,) = (place.folder / "tuned").rglob("*.yaml")
    assert found["configuration"] == tuned.read(path).model_dump(mode="json")
    assert [row["algorithm"] for row in rows] == ["fedavg"]


def test_every_bad_file_is_named_and_nothing_is_imported(tmp_path):
    source = folder(tmp_path / "set", KNOWN[1])
    for name in ("one.yaml", "two.yaml"):
        (source / name).write_text("{}")
    said = fault(suite_here("tuned", "import", source, cwd=tmp_path, code=2))
    for name in ("one.yaml", "two.yaml", "algorithm: is required"):
        assert name in said
    assert not (tmp_path / "runs" / "imported").exists()
    (tmp_path / "empty").mkdir()
    for name in ("empty", "none"):
        assert name in fault(suite_here("tuned", "import", name, cwd=tmp_path, code=2))


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
    """What is kept, recommended, shown, run, exported and transferred; a later one where there are no such scores."""
    assert recommend(order, "digits", "iid")[1] == VALIDATED
    assert PERSONAL.loss < VALIDATED.loss
    assert select_tuned([PERSONAL, *order])[0] == VALIDATED, "clients' own scores are no others'"
    skipped = [reason for item in order for reason in tuned.keep([item], tmp_path)[1]]
    assert tuned.read(tmp_path / VALIDATED.path) == VALIDATED
    better = "the one that is there scores better on validation and stays"
    assert skipped == [f"{TESTED.path}: {better}"] * (order[1] == TESTED)
    bare = [TESTED.model_copy(update={"scores": {"test_accuracy": lr}}) for lr in (0.3, 0.1)]
    tuned.keep(bare, tmp_path / "bare")
    assert tuned.read(tmp_path / "bare" / TESTED.path) == bare[1]
    assert len(tuned.keep(bare, tmp_path)[1]) == 2


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
        assert "--dataset digits --heterogeneity iid\n" in said
        assert "--dataset digits --heterogeneity 'labels(2)'" in said
    shown = suite_here("tuned", "show", "--heterogeneity", "iid", "--json", cwd=tmp_path)
    assert document(shown)["algorithm"] == "fedprox"
