"""How near two scenarios are; what is recommended for one; tuned files of others: imported, run, fetched, refused."""

import os
from contextlib import chdir
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.configurations import configuration as tuned
from suite.configurations.library import distance, recommend, select_tuned, skew
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from tests.support.commands import document, fault, suite_here
from tests.support.configurations import a_tuned, folder
from tests.support.foreign import little, play
from trials import heterogeneity
from trials.common.errors import UserError
from trials.run.spec import Scenario

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
    which = (*asked, "--model", "logreg", "--algorithm", "fedavg", "--set", "rounds=1")
    ran = document(suite_here("run", "--tuned", *which, "--no-record", "--json", cwd=tmp_path))
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


def test_where_a_file_is_bad_nothing_is_imported(tmp_path):
    source = folder(tmp_path / "set", KNOWN[1])
    (source / "two.yaml").write_text("{}")
    said = fault(suite_here("tuned", "import", source, cwd=tmp_path, code=2))
    assert "two.yaml" in said
    assert "algorithm: is required" in said
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
    """What is kept, recommended and shown; a later one where there are no such scores."""
    assert recommend(order, "digits", "iid")[1] == VALIDATED
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
        assert "--dataset digits --heterogeneity iid\n" in said
        assert "--dataset digits --heterogeneity 'labels(2)'" in said
    shown = suite_here("tuned", "show", "--heterogeneity", "iid", "--json", cwd=tmp_path)
    assert document(shown)["algorithm"] == "fedprox"


GROUPS = heterogeneity.parse("groups").name
"""Half of the clients hold five labels, half of them one."""
GAUSSIAN = "gaussian(labels={},mean=600,std=10)"
BY_HAND = f"""
mnist logreg iid | mnist logreg iid | 0 0 0
mnist logreg iid | fashion_mnist linear iid | 0.5 1 0
synthetic(0,0) logreg natural | synthetic(1,1) logreg natural | 0.5 0 0
mnist mlp iid | cifar10 mlp(100,100) iid | 1 0.5 0
mnist logreg labels(2) | mnist logreg labels(5) | 0 0 0.4
mnist logreg shards(2) | mnist logreg shards(2,strict) | 0 0 0.1
mnist logreg {GAUSSIAN.format(7)} | mnist logreg {GAUSSIAN.format("1..7")} | 0 0 0.4
mnist logreg {GROUPS} | mnist logreg iid | 0 0 0.8
mnist logreg {GROUPS} | mnist logreg natural | 0 0 0.6
mnist logreg labels(2) | mnist logreg shards(2) | 0 0 0.1
mnist logreg iid | mnist logreg iid+system(steps=1..20) | 0 0 0.1
sine linear iid | mnist linear iid | inf 0 0
npz:/a/b.npz logreg iid | npz:/a/c.npz logreg iid | 1 0 0
"""
"""Two scenarios, and how far apart data sets, models and levels are; `labels=1..7` is four labels in the mean."""


@pytest.mark.parametrize("line", BY_HAND.strip().splitlines())
def test_distances_by_hand(line):
    a, b, parts = (column.split() for column in line.split(" | "))
    assert distance(Scenario(*a), Scenario(*b)) == pytest.approx(sum(map(float, parts)))


@pytest.mark.parametrize("a", [0.05, 0.3, 0.6, 1.0, 10.0])
def test_skew_of_a_dirichlet_is_the_mean_total_variation(a):
    """Against the definition, by simulation: 20,000 clients, so within 0.005."""
    shares = np.random.default_rng(0).dirichlet(np.full(10, a), 20_000)
    measured = 0.5 * np.abs(shares - 0.1).sum(1).mean()
    assert skew(f"dirichlet({a:g})") == pytest.approx(measured, abs=0.005)
    assert skew(f"dirichlet_by_class({a:g})") == skew(f"dirichlet({a:g})")


SCENARIOS = st.sampled_from(
    [
        Scenario(*side.split())
        for line in BY_HAND.splitlines()
        for side in line.split(" | ")[:2]
        if line
    ]
)


@given(SCENARIOS, SCENARIOS, SCENARIOS)
def test_it_is_a_distance(a, b, c):
    assert distance(a, a) == 0
    assert 0 <= distance(a, b) == distance(b, a)
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-9


@pytest.mark.parametrize(
    ("wanted", "more", "best"),
    [
        (("digits", "iid"), {}, 1),  # references are not recommended
        (("digits", "iid"), {"algorithm": "centralized"}, 2),
        (("digits", "labels(2)"), {}, 3),
        (("digits", "labels(3)"), {}, 3),
        (("digits", "dirichlet(100)"), {}, 1),
        (("fashion_mnist", "iid"), {"model": "mlp"}, 6),
        (("mnist", "iid"), {"model": "mlp(100,100)"}, 6),
        (("mnist", "iid"), {}, 6),  # any model: the best score
    ],
)
def test_the_best_of_the_nearest_scenario_is_recommended(wanted, more, best):
    assert recommend(KNOWN, *wanted, **more)[1] == KNOWN[best]


def test_what_refuses_a_level_is_not_recommended_for_it():
    known = [a_tuned("fedagg", score=0.99), a_tuned("fedavg", score=0.9)]
    assert recommend(known, "digits", "iid") == (0, known[0])
    assert recommend(known, "digits", "iid+system(steps=1..5)")[1] == known[1]


def test_what_does_not_fit_is_said():
    for wanted, more, hint in (
        (("sine", "iid"), {}, "sine"),
        (("digits", "iid"), {"algorithm": "folb"}, "folb"),
        (("digit", "iid"), {}, "digits"),
        (("digits", "lables(2)"), {}, "labels"),
    ):
        with pytest.raises(UserError, match=hint):
            recommend(KNOWN, *wanted, **more)
