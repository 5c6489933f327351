"""`suite advise`: what data are like, what is raced on them, and the answer."""

import json
import shlex

import numpy as np
import pytest

from suite.advice import advice, race
from suite.execution.cluster import Resources
from suite.partition_statistics import describe
from tests.support.commands import document, suite_here
from tests.support.configurations import a_tuned, folder
from trials.common.errors import UserError


def question(dataset="digits", level=None, model=None, clients=10, minutes=1.0):
    return race.Question(dataset, level, model, clients, minutes)


def data_file(path, clients=None):
    """120 samples of two Gaussian classes, 40 of them tests; perhaps with an owner each."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    x = (rng.normal(size=(120, 3)) + 2 * y[:, None]).astype(np.float32)
    born = {} if clients is None else {"client_train": np.arange(80) % clients}
    np.savez(path, x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:], **born)
    return f"npz:{path}"


def test_the_skew_is_the_mean_total_variation_to_all_clients_together():
    data = describe("digits", "labels(1)", 10, 0, None)
    overall = data.counts.sum(0) / data.counts.sum()
    by_hand = np.mean([1 - overall[row.argmax()] for row in data.counts])  # one label a client
    assert (data.counts > 0).sum(1).tolist() == [1] * 10
    assert race.label_skew(data) == pytest.approx(by_hand, abs=1e-12)
    assert race.label_skew(describe("digits", "iid", 10, 0, None)) < 0.2


def test_the_methods_are_those_of_the_nearest_cells_best_first_beside_fedavg():
    known = [
        a_tuned("feddyn", level="labels(2)", score=0.8),
        a_tuned("scaffold", level="labels(2)", score=0.9),
        a_tuned("centralized", level="labels(2)", score=0.99),
        a_tuned("defed", level="labels(2)", score=0.99),
        a_tuned("fedprox", level="iid", score=0.95),
        a_tuned("fedadam", dataset="mnist", level="iid", score=0.95),
    ]
    plan = race.make_race(question(level="labels(3)"), known, None)
    # References and methods outside their paper's setting (DeFed wants everyone awake) are none to advise.
    assert plan.study.algorithms == ["fedavg", "scaffold", "feddyn", "fedprox"]
    assert plan.near is not None
    assert str(plan.near[1].scenario) == "digits · logreg · labels(2)"
    assert plan.study.warm_start == "nearest"
    assert (plan.study.settings.rounds, plan.study.settings.clients) == (5, 10)


def test_data_that_nobody_has_tuned_get_the_methods_that_are_always_raced(tmp_path):
    plan = race.make_race(question(data_file(tmp_path / "my.npz"), clients=8), [], None)
    assert plan.study.algorithms == list(race.METHODS)
    assert plan.study.warm_start is None
    assert plan.near is None
    assert (plan.scenario.model, plan.scenario.heterogeneity) == ("logreg", "dirichlet(0.3)")


def test_natural_owners_are_taken_and_the_skew_they_have_is_what_is_compared(tmp_path):
    known = [a_tuned(level="labels(1)", score=0.9), a_tuned("fedprox", level="iid", score=0.8)]
    owned = data_file(tmp_path / "owned.npz", clients=8)
    plan = race.make_race(question(owned, clients=None), known, None)
    assert plan.scenario.heterogeneity == "natural"
    assert plan.study.settings.clients is None
    assert plan.near is not None
    assert plan.near[1].heterogeneity == "iid"


def test_what_nobody_says_of_a_regression_can_be_dealt_and_fitted():
    plan = race.make_race(question("sine"), [], None)
    assert (plan.scenario.model, plan.scenario.heterogeneity) == ("linear", "iid")


def test_a_model_is_known_by_any_spelling():
    known = [a_tuned(model="mlp(20,20)"), a_tuned(level="labels(2)", model="mlp(20,20)")]
    plan = race.make_race(question(level="iid", model="mlp(20, 20)"), known, None)
    assert plan.near is not None
    assert plan.near[0].total == 0


def test_what_cannot_be_raced_is_not_started_from(tmp_path):
    """A reference, and a method whose file is gone."""
    gone = a_tuned(f"{tmp_path}/gone.py:Gone", score=0.97)
    unvalidated = a_tuned("fedprox", level="labels(2)")
    settings = unvalidated.settings.model_copy(update={"val_fraction": 0.0})
    known = [a_tuned("centralized", score=0.99), gone]
    known.append(unvalidated.model_copy(update={"settings": settings}))
    plan = race.make_race(question(level="iid"), known, None)
    assert plan.study.algorithms == ["fedavg", "fedprox"]
    assert plan.near is not None
    assert plan.near[1].algorithm == "fedprox"
    assert plan.study.settings.val_fraction == 0.1, "what is raced is chosen by validation"
    assert race.make_race(question(level="iid"), known[:2], None).near is None


def test_a_time_that_is_too_short_is_refused_with_one_that_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(race, "local_slots", lambda resources: 1)
    monkeypatch.setattr(
        race.Estimates, "entry", lambda self, entry, calibrate: {"seconds": 90.0, "trials": 10}
    )
    plan = race.make_race(
        question(), [], None
    )  # 4 methods, 10 s each with what a trial takes besides
    with pytest.raises(UserError) as refused:
        race.within(plan, 30.0, Resources(), None)
    # 7 runs of each of them, 5 of 50 rounds, in three quarters of the time, and the start.
    minutes = ((40 * 7 * 5 / 50) / 0.75 + 25) / 60
    assert str(refused.value) == (
        f"the time is too short for these data: give at least --minutes {minutes:.2g}"
    )
    enough = race.within(plan, 25 + 40 * 13 / 0.75, Resources(), None)
    assert (enough.study.trials, enough.study.settings.rounds, enough.cut) == (10, 50, "")
    less = race.within(plan, 25 + 40 * 7 / 0.75 / 2, Resources(), None)
    assert (less.study.trials, less.study.settings.rounds) == (4, 25)
    assert less.cut == " Rounds are 25, not 50, to fit the time."


def test_advice_from_the_data_to_the_command_that_uses_it(tmp_path, monkeypatch):
    data_file(tmp_path / "my.npz")
    monkeypatch.setattr(race, "METHODS", ("fedavg", "fedprox"))
    monkeypatch.setattr(race, "MOST", race.LEAST)
    folder(tmp_path / "set", a_tuned(score=0.9), a_tuned("fedprox", score=0.8, level="labels(2)"))
    suite_here("tuned", "import", "set", cwd=tmp_path)
    asked = (
        "--dataset",
        "npz:my.npz",
        "--clients",
        4,
        "--minutes",
        30,
        "--set",
        "max_concurrent=1",
    )
    done = suite_here("advise", *asked, "--json", cwd=tmp_path)
    found = document(done)
    best, rows = found["recommended"], found["leaderboard"]["rows"]
    assert best == {**best, **rows[0]}
    assert {row["algorithm"] for row in rows} == {"fedavg", "fedprox"}
    assert found["samples"] == {"min": 18, "median": 18, "mean": 18, "max": 18}
    assert found["started_from"]["dataset"] == "digits"
    values = " ".join(f"{k}={v:.3g}" for k, v in sorted(best["params"].items()))
    text = found["text"]
    assert text.startswith(
        f"Use {best['algorithm']} with {values}. On npz:{tmp_path}/my.npz partitioned "
    )
    for part in (
        f"it reaches a test accuracy of {best['mean']:.4f}",
        f"95 % interval {best['ci_low']:.4f} to {best['ci_high']:.4f} over 3 fresh seeds",
        f"The worst 10 % of clients get {best['worst_clients']:.4f}.",
        "by 4 search trials of each of 2 methods, started from the nearest tuned scenario, digits · logreg",
    ):
        assert part in text
    assert found["command"][:5] == ["suite", "run", "--tuned", "--algorithm", best["algorithm"]]
    ran = json.loads(suite_here(*found["command"][1:], "--json", cwd=tmp_path).stdout)
    assert ran["params"] == best["params"]
    assert (tmp_path / "model/model.json").exists(), shlex.join(found["command"])
    mends = {f["command"] for row in rows for f in row["audit"]["findings"]}
    assert mends
    for mend in mends:
        assert "runs/advice.yaml" in mend
        suite_here(*shlex.split(mend)[1:], "--dry-run", cwd=tmp_path)


def test_a_study_of_one_s_own_is_not_written_over(tmp_path):
    (tmp_path / "advice.yaml").write_text("mine")
    (tmp_path / "advice-2").mkdir()
    assert advice._free(tmp_path) == "advice-3"
