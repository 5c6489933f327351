"""Recommendations: the exact scenario, else the nearest; imports that are refused."""

import os
from contextlib import chdir
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.configurations import configuration as tuned
from suite.configurations.library import select_tuned
from suite.configurations.nearest import adapt, distance, recommend
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from tests.support.commands import document, fault, suite_here
from tests.support.configurations import a_tuned, folder
from tests.support.foreign import little, play
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


def chosen(*wanted, found=KNOWN, **more):
    best = recommend(found, *wanted, **more).best
    return best.algorithm, best.dataset, best.heterogeneity, best.model


def test_the_exact_cell_and_the_best_there():
    found = recommend(KNOWN, "digits", "iid")
    assert found.distance.total == 0
    assert found.best == KNOWN[1], "references are not recommended"
    assert found.compared == 2
    assert chosen("digits", "iid", algorithm="centralized") == (
        "centralized",
        "digits",
        "iid",
        "logreg",
    )
    assert chosen("digits", "labels(2)")[0] == "fedavg"
    known = [a_tuned("fedagg", score=0.99), a_tuned("fedavg", score=0.9)]
    assert chosen("digits", "iid", found=known)[0] == "fedagg"
    refused = "iid+system(steps=1..5)"
    assert chosen("digits", refused, found=known)[0] == "fedavg", "FedAgg refuses the level"


def test_else_the_nearest():
    assert chosen("digits", "labels(3)") == ("fedavg", "digits", "labels(2)", "logreg")
    assert chosen("digits", "dirichlet(100)") == ("fedprox", "digits", "iid", "logreg")
    assert chosen("fashion_mnist", "iid", model="mlp") == ("fedavg", "mnist", "iid", "mlp")
    assert chosen("mnist", "iid", model="mlp(100,100)") == ("fedavg", "mnist", "iid", "mlp")
    assert chosen("mnist", "iid") == ("fedavg", "mnist", "iid", "mlp"), "any model: the best score"
    found = recommend(KNOWN, "digits", "labels(3)")
    assert found.distance.total > 0
    assert (
        "The nearest scenario: digits · logreg · labels(2), 0.11 away (heterogeneity 0.11)"
        in found.lines()[0]
    )
    assert [_where(t) for _, t in found.others] == [
        *(("digits", "iid"), ("mnist", "iid"), ("mnist", "iid"))
    ]


def _where(item):
    return item.dataset, item.heterogeneity


def test_what_does_not_fit_is_said():
    with pytest.raises(UserError, match="no tuned configuration fits sine"):
        recommend(KNOWN, "sine", "iid")
    with pytest.raises(UserError, match="no tuned configuration of folb"):
        recommend(KNOWN, "digits", "iid", algorithm="folb")
    for wanted, hint in ((("digit", "iid"), "digits"), (("digits", "lables(2)"), "labels")):
        with pytest.raises(UserError, match=hint):
            recommend(KNOWN, *wanted)


LEVELS = st.sampled_from(["iid", "labels(1)", "labels(2)", "dirichlet(0.3)", "iid+dropout(0.1)"])
ITEMS = st.builds(
    a_tuned,
    st.sampled_from(["fedavg", "fedprox"]),
    st.sampled_from(["digits", "mnist", "cifar10"]),
    LEVELS,
    st.sampled_from(["logreg", "mlp", "lenet5"]),
    st.floats(0, 1),
)


@given(st.lists(ITEMS, min_size=1, max_size=8), LEVELS, st.sampled_from(["logreg", "mlp"]))
def test_nothing_known_is_nearer_nor_as_near_and_better(found, level, model):
    got = recommend(found, "mnist", level, model=model)
    wanted = Scenario("mnist", model, level)
    away = [distance(wanted, item.scenario).total for item in found]
    assert got.distance.total == min(away)
    at_least = [
        t.scores["val_accuracy"] for t, d in zip(found, away, strict=True) if d == min(away)
    ]
    assert got.best.scores["val_accuracy"] == max(at_least)
    assert (got.distance.total == 0) == any(
        _where(t) == ("mnist", level) and t.model == model for t in found
    )
    again = recommend(found[::-1], "mnist", level, model=model)
    assert (again.distance, again.best.loss) == (got.distance, got.best.loss)


def test_imported_offline_then_recommended_and_run(tmp_path):
    """No store, no network: the files are enough."""
    source = folder(tmp_path / "set", *KNOWN[:5])
    kept = document(suite_here("tuned", "import", source, "--json", cwd=tmp_path))
    assert len(kept) == 5
    assert not (tmp_path / "runs" / "mlflow.db").exists()
    asked = ("--dataset", "digits", "--heterogeneity", "labels(2)")
    found = document(suite_here("tuned", "recommend", *asked, "--json", cwd=tmp_path))
    assert found["exact"] is True
    assert found["configuration"]["algorithm"] == "fedavg"
    assert found["evidence"]["scores"]["test_accuracy"] == 0.8
    assert found["evidence"]["algorithms_tuned_on_that_scenario"] == 2
    near = suite_here(
        "tuned", "recommend", "--dataset", "digits", "--heterogeneity", "labels(4)", cwd=tmp_path
    )
    assert tuned.parse(near.stdout, "out").heterogeneity == "labels(4)"
    assert near.stderr == (
        "reading the records\n"
        "The nearest scenario: digits · logreg · labels(2), 0.21 away (heterogeneity 0.21); fedavg validates "
        "best of 2 algorithms tuned there.\n"
        "Evidence: test_accuracy 0.8 over 1 final seeds (16 trials).\n"
        "Tuned under: rounds 5, clients 10, participation 0.5, batch_size 32, local_epochs 1. Other "
        "settings may want another learning rate.\n"
        "Adapted: heterogeneity labels(2) -> labels(4); its scores, those of digits · logreg · labels(2), "
        "are left out.\n"
        "Else: fedprox on digits · logreg · iid, 0.65 away (heterogeneity 0.65).\n"
    )

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


def test_a_configuration_is_adapted_to_the_cell_and_says_how():
    best = a_tuned(score=0.9)
    place = Scenario("mnist", "mlp", "labels(2)")
    made, changes = adapt(best, place, 40)
    assert made.scenario == place
    # Five of ten clients took part in a round, so five of forty do.
    settings = made.settings
    assert (settings.clients, settings.participation) == (40, 0.125)
    assert settings.model_copy(update={"clients": 10, "participation": 0.5}) == best.settings
    assert made.params == best.params
    assert made.scores == {}
    assert made.provenance == {"adapted_from": "digits · logreg · iid"}
    assert changes == (
        "dataset digits -> mnist",
        "model logreg -> mlp",
        "heterogeneity iid -> labels(2)",
        "clients 10 -> 40",
        "participation 0.5 -> 0.125",
        "its scores, those of digits · logreg · iid, are left out",
    )
    assert adapt(best, best.scenario) == (best, ())
    for clients in (60, 30_000, 3_000_000):
        settings = adapt(best, best.scenario, clients)[0].settings
        assert settings.participation * clients == pytest.approx(5, rel=1e-5)
    assert adapt(best, best.scenario._replace(heterogeneity="natural"))[1][1] == (
        "clients 10 -> as many as there are"
    )


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


def test_every_bad_file_is_named(tmp_path):
    source = folder(tmp_path / "set", KNOWN[1])
    for name in ("one.yaml", "two.yaml"):
        (source / name).write_text("{}")
    done = suite_here("tuned", "import", source, cwd=tmp_path, code=2)
    keys = ("algorithm", "dataset", "model", "heterogeneity")
    needed = "".join(f"\n  {key}: is required" for key in keys)
    assert fault(done) == "2 of 3 files cannot be imported; nothing was" + "".join(
        f"\n{source}/{name}.yaml: 4 faults, nothing was started{needed}" for name in ("one", "two")
    )
    assert not (tmp_path / "runs" / "imported").exists()
    (tmp_path / "empty").mkdir()
    for name, said in (
        ("empty", "there is no *.yaml below empty"),
        ("none", "cannot read configuration none: it does not exist"),
    ):
        assert fault(suite_here("tuned", "import", name, cwd=tmp_path, code=2)) == said


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
    assert recommend(order, "digits", "iid").best == VALIDATED
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
        assert fault(suite_here(*words, cwd=tmp_path, code=2)) == (
            "what matches was tuned on several data sets or levels, whose scores cannot be compared: "
            "name one of\n"
            "  --dataset digits --heterogeneity iid\n"
            "  --dataset digits --heterogeneity 'labels(2)'"
        )
    shown = suite_here("tuned", "show", "--heterogeneity", "iid", "--json", cwd=tmp_path)
    assert document(shown)["algorithm"] == "fedprox"
