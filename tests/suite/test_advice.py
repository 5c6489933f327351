"""`suite advise`: what data are like, what is raced on them, and the answer."""

import json
import math
import shlex
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from suite.advice import advice, race, screening
from suite.advice.screening import Screened, Screening, screen
from suite.bank.rows import label_skew
from suite.execution.resources import Resources
from suite.partition_statistics import describe
from suite.studies.entries import load_data, make_entries
from tests.support.commands import document, suite_here
from tests.support.configurations import a_tuned, folder
from trials.common.errors import UserError
from trials.run import trial
from trials.scoring.metrics import score


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
    assert label_skew(data.counts) == pytest.approx(by_hand, abs=1e-12)
    assert label_skew(describe("digits", "iid", 10, 0, None).counts) < 0.2


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
    near = ["scaffold", "feddyn", "fedprox", "fedadam"]
    assert plan.study.algorithms == ["fedavg", *near, "fedavgm"], "then the usual ones"
    assert plan.study.models == ["logreg", "mlp(64,64)", "mlp"]
    assert plan.near is not None
    assert str(plan.near[1].scenario) == "digits · logreg · labels(2)"
    assert (plan.study.settings.rounds, plan.study.settings.clients) == (5, 10)


def test_data_that_nobody_has_tuned_get_the_methods_that_are_always_raced(tmp_path):
    plan = race.make_race(question(data_file(tmp_path / "my.npz"), clients=8), [], None)
    assert plan.study.algorithms == list(race.METHODS)
    assert plan.near is None
    assert plan.study.models == ["logreg", "mlp(64,64)", "mlp"]
    assert plan.study.heterogeneity == ["dirichlet(0.3)"]


def test_natural_owners_are_taken_and_the_skew_they_have_is_what_is_compared(tmp_path):
    known = [a_tuned(level="labels(1)", score=0.9), a_tuned("fedprox", level="iid", score=0.8)]
    owned = data_file(tmp_path / "owned.npz", clients=8)
    plan = race.make_race(question(owned, clients=None), known, None)
    assert plan.study.heterogeneity == ["natural"]
    assert plan.study.settings.clients is None
    assert plan.near is not None
    assert plan.near[1].heterogeneity == "iid"


def test_what_nobody_says_of_a_regression_can_be_dealt_and_fitted():
    plan = race.make_race(question("sine"), [], None)
    assert (plan.study.models[0], plan.study.heterogeneity) == ("linear", ["iid"])


def test_a_model_is_known_by_any_spelling():
    known = [a_tuned(model="mlp(20,20)"), a_tuned(level="labels(2)", model="mlp(20,20)")]
    plan = race.make_race(question(level="iid", model="mlp(20, 20)"), known, None)
    assert plan.near is not None
    assert plan.near[0].total == 0
    assert plan.study.models[0] == "mlp(20,20)"
    asked = race.make_race(question(level="iid", model="mlp(20, 20)"), known, None)
    assert asked.study.models == ["mlp(20,20)"], "who names a model gets that one alone"


def test_what_cannot_be_raced_is_not_started_from(tmp_path):
    """A reference, and a method whose file is gone."""
    gone = a_tuned(f"{tmp_path}/gone.py:Gone", score=0.97)
    unvalidated = a_tuned("fedprox", level="labels(2)")
    settings = unvalidated.settings.model_copy(update={"val_fraction": 0.0})
    known = [a_tuned("centralized", score=0.99), gone]
    known.append(unvalidated.model_copy(update={"settings": settings}))
    plan = race.make_race(question(level="iid"), known, None)
    assert plan.study.algorithms[:2] == ["fedavg", "fedprox"]
    assert not {"centralized", f"{tmp_path}/gone.py:Gone"} & set(plan.study.algorithms)
    assert plan.near is not None
    assert plan.near[1].algorithm == "fedprox"
    assert plan.study.settings.val_fraction == 0.1, "what is raced is chosen by validation"
    assert race.make_race(question(level="iid"), known[:2], None).near is None


def screened(plan, seconds, values):
    """A screening of the plan's methods on its models, with a score of each and so many seconds a round."""
    entries = {(e.scenario.model, e.algorithm): e for e in make_entries(plan.study, "test")}
    found = [
        Screened(entries[of], entries[of].space.default({"lr": rate}), 50, value)
        for of, (value, rate) in values.items()
    ]
    found.sort(key=lambda one: one.order)
    return Screening(found, {entry.id: seconds for entry in entries.values()})


VALUES = {
    ("logreg", "fedavg"): (0.5, 0.3),
    ("logreg", "fedadam"): (0.7, 0.1),
    ("mlp(64,64)", "fedavg"): (0.6, 0.3),
    ("mlp(64,64)", "feddyn"): (0.8, 3.0),
    ("mlp(64,64)", "fedprox"): (0.7, 0.1),
    ("mlp(64,64)", "scaffold"): (0.65, 0.1),
    ("mlp(64,64)", "fedavgm"): (0.64, 0.1),
}


def test_what_is_raced_are_the_best_methods_on_the_best_model_and_fedavg():
    plan = race.make_race(question(), [], None)
    found = race.raced(plan, screened(plan, 0.01, VALUES), 240.0, 2, 5.0).study
    assert found.models == ["mlp(64,64)"]
    assert found.algorithms == ["fedavg", "feddyn", "fedprox", "scaffold"]
    rate = found.search["lr"]
    assert (rate.low, rate.high) == (pytest.approx(0.1 / 30), pytest.approx(90.0))
    assert found.search["feddyn.lr"].default == 3.0
    # 4 methods, 0.5 s a trial: (210 s on 2 places at 0.6 of the speed - (5 seeds + 6 that confirm) * 2 s)
    # / (2 s / 8 with early stopping + 4 * 0.25 s)
    assert (found.seeds, found.confirm, found.trials) == (5, race.CONFIRM, int(230 / 1.25))
    assert make_entries(found, "advice.yaml")[1].space.default()["lr"] == 3.0, "the first trial"


def test_a_time_that_is_short_has_fewer_runs_and_rounds_and_one_too_short_is_refused():
    plan = race.make_race(question(), [], None)
    found = screened(plan, 0.2, VALUES)  # 10 s a trial
    trim = {slots: race.raced(plan, found, 130.0, slots, 3.0) for slots in (1, 3, 10)}
    # On ten places 100 s are 600: 4 methods need (5 + 6) * 40 s, and 160 s are enough for 4 trials of each and more.
    # On three they are 180: 3 methods need 3 * 30 s. On one, which runs alone, 2 methods need 3 * 20 of 100 s.
    assert [len(trim[n].study.algorithms) for n in (10, 3, 1)] == [4, 3, 2]
    assert [trim[n].study.seeds for n in (10, 3, 1)] == [5, 3, 3]
    assert [trim[n].study.confirm for n in (10, 3, 1)] == [race.CONFIRM, None, None]
    assert (trim[1].study.settings.rounds, trim[3].study.settings.rounds) == (50, 50)
    less = race.raced(plan, found, 60.0, 1, 3.0)
    # 30 s for 2 methods' 3 final runs and 4 trials of an eighth each: 20 s * 3.5 at 50 rounds
    assert (less.study.settings.rounds, less.study.trials) == (int(50 * 30 / 70), race.LEAST)
    assert less.cut == " Rounds are 21, not 50, to fit the time."
    with pytest.raises(UserError) as refused:
        race.raced(plan, found, 35.0, 1, 3.0)
    # 5 rounds take 7 s, and 30 s the start; 145 s went by before.
    minutes = (180 - 35 + 7 + 30) / 60
    assert str(refused.value) == (
        f"the time is too short for these data: give at least --minutes {minutes:.2g}"
    )


def test_screening_halves_what_it_has_and_ends_with_its_time(monkeypatch):
    monkeypatch.setattr(screening, "EACH", 6)
    plan = race.make_race(question(model="logreg"), [], None)
    study = plan.study.model_copy(update={"algorithms": ["fedavg", "fedprox"]})
    entries = make_entries(study, "test")
    data = load_data(entries, None, "test")
    whole = screen(entries, study, {}, data, Resources(), math.inf)
    reached = Counter(one.rounds for one in whole.found)
    # 12 configurations, of which those that diverge are not ranked: a third of the rest, and of these a third.
    first = reached.total()
    assert 9 <= first <= 12
    assert reached == {
        50: math.ceil(math.ceil(first / 3) / 3),
        15: math.ceil(first / 3) - math.ceil(math.ceil(first / 3) / 3),
        5: first - math.ceil(first / 3),
    }
    assert [one.order for one in whole.found] == sorted(one.order for one in whole.found)
    best = whole.found[0]
    spec = best.entry.spec(best.params, 0, 0)
    again, _ = trial.run(spec)
    assert best.value == score(again.history, "val_accuracy"), "scores are those of whole runs"
    late = screen(entries, study, {}, data, Resources(), 0.0)
    assert [(one.rounds, one.entry.algorithm) for one in late.found] == [(5, "fedavg")]


def test_models_share_the_time_of_a_rung(monkeypatch):
    """A rung has 20 s, and a trial takes 1 s on one model and 4 s on the other: 10 s of each."""
    plan = race.make_race(question(), [], None)
    study = plan.study.model_copy(update={"models": ["logreg", "mlp(64,64)"]})
    now, tried = [0.0], []

    def trained(spec, rounds, *rest):
        now[0] += 1 if spec.model == "logreg" else 4
        tried.append((rounds, spec.model))
        return rounds, 0.5

    monkeypatch.setattr(screening.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(screening, "_trained", trained)
    screen(make_entries(study, "test"), study, {}, {}, Resources(), 60.0)
    first = Counter(model for rounds, model in tried if rounds == 5)
    assert first["mlp(64,64)"] == 3
    assert first["logreg"] in (8, 9, 10)


def test_fedavg_is_taken_where_no_difference_is_shown_and_none_that_matters_seen():
    def row(algorithm, mean, behind, within):
        return SimpleNamespace(algorithm=algorithm, mean=mean, behind=behind, within_noise=within)

    plan = race.make_race(question(), [], None)
    for mean, within, taken in (
        (0.798, True, "fedavg"),
        (0.798, False, "feddyn"),
        (0.7, True, "feddyn"),
    ):
        rows = (row("feddyn", 0.8, 0.0, True), row("fedavg", mean, 0.8 - mean, within))
        board = SimpleNamespace(rows=rows)
        found = advice.Advice(plan, "advice", Path("runs"), board, 1.0, False)
        assert found.best.algorithm == taken


def test_advice_from_the_data_to_the_command_that_uses_it(tmp_path, monkeypatch):
    data_file(tmp_path / "my.npz")
    monkeypatch.setattr(race, "METHODS", ("fedavg", "fedprox"))
    monkeypatch.setattr(race, "SCREENED", 2)
    monkeypatch.setattr(race, "TRIED", 1)
    monkeypatch.setattr(race, "MOST", race.LEAST)
    monkeypatch.setattr(screening, "EACH", 2)
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
    assert best in rows
    assert {row["algorithm"] for row in rows} == {"fedavg", "fedprox"}
    assert found["samples"] == {"min": 18, "median": 18, "mean": 18, "max": 18}
    assert found["started_from"]["dataset"] == "digits"
    values = " ".join(f"{k}={v:.3g}" for k, v in sorted(best["params"].items()))
    text = found["text"]
    assert text.startswith(
        f"Use {best['algorithm']} on logreg with {values}. On npz:{tmp_path}/my.npz partitioned "
    )
    for part in (
        f"it reaches a test accuracy of {best['mean']:.4f}",
        f"95 % interval {best['ci_low']:.4f} to {best['ci_high']:.4f} over 5 fresh seeds",
        f"The worst 10 % of clients get {best['worst_clients']:.4f}.",
        "search trials of each of 2 methods, started from the nearest tuned scenario, digits · logreg",
    ):
        assert part in text
    assert {row["trials"] for row in rows} <= set(range(4, 11)), "four, and those that confirm"
    assert found["command"][:5] == ["suite", "run", "--tuned", "--algorithm", best["algorithm"]]
    ran = json.loads(suite_here(*found["command"][1:], "--json", cwd=tmp_path).stdout)
    assert ran["params"] == best["params"]
    assert (tmp_path / "model/model.json").exists(), shlex.join(found["command"])
    assert found["longer"][:3] == ["suite", "sweep", "runs/advice.yaml"]
    suite_here(*found["longer"][1:], "--dry-run", cwd=tmp_path)
    assert {one["algorithm"] for one in found["screened"]} == {"fedavg", "fedprox"}
    mends = {f["command"] for row in rows for f in row["audit"]["findings"]}
    assert mends
    for mend in mends:
        assert "runs/advice.yaml" in mend
        suite_here(*shlex.split(mend)[1:], "--dry-run", cwd=tmp_path)


def test_a_study_of_one_s_own_is_not_written_over(tmp_path):
    (tmp_path / "advice.yaml").write_text("mine")
    (tmp_path / "advice-2").mkdir()
    assert advice._free(tmp_path) == "advice-3"
