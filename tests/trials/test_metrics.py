"""What runs are judged by: metrics that weigh labels alike, by hand, against scikit-learn and in a run; and a regression,
which goes the same way as a classification.
"""

from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import document, study_file, suite_here
from trials.common.errors import UserError
from trials.run.spec import Scenario, canonical
from trials.run.trial import fit_model, load_dataset, partition_data, run
from trials.scoring import losses
from trials.scoring.metrics import LABELWISE, REGRESSION
from trials.scoring.scores import MEASURES
from trials.settings import Settings


def test_by_hand():
    """Labels 0 0 0 1, predicted 0 0 1 1: F1 of 0 is 4/5 and of 1 2/3; recalls are 2/3 and 1. Of p_1 = .2 .4 .6
    and the positive's .6 the positive is above two of three, and equal to the third.
    """
    p = np.array([0.2, 0.4, 0.6, 0.6])
    logits, y = np.log(np.stack([1 - p, p], 1)), np.array([0, 0, 0, 1])
    assert MEASURES["macro_f1"](logits, y) == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert MEASURES["balanced_accuracy"](logits, y) == pytest.approx((2 / 3 + 1) / 2)
    assert MEASURES["auc"](logits, y) == pytest.approx(2.5 / 3)
    assert np.isnan(MEASURES["auc"](logits[:3], y[:3]))


@pytest.mark.parametrize("metric", LABELWISE)
def test_a_run_is_judged_by_it(metric):
    scenario = Scenario("digits", "logreg", "labels(3)")
    common = Settings(metric=metric, rounds=2, clients=4, dtype="float64")
    made, _ = run(canonical("fedavg", {}, scenario, common, 0))
    assert made.task.metric == metric
    fed, w = made.fed, made.state["w"]
    for part, ids in (("test", fed.data.test), ("val", fed.data.val)):
        logits = fed.model.logits(w, fed.x[ids]).numpy()
        found = MEASURES[metric](logits, fed.data.dataset.y[ids])
        assert made.history[-1][f"{part}_{metric}"] == pytest.approx(found, abs=1e-12)
        assert f"{part}_accuracy" in made.history[-1]


def test_it_is_of_classifications():
    spec = canonical(
        "fedavg", {}, Scenario("sine", "linear", "iid"), Settings(metric="auc", rounds=1), 0
    )
    with pytest.raises(UserError, match="metric is auc, which is for classification"):
        run(spec)
    with pytest.raises(UserError, match="which is for classification"):
        REGRESSION.by("macro_f1")


# A regression


COMMON = {"rounds": 4, "clients": 5, "participation": 1.0, "eval_every": 1, "dtype": "float64"}


def spec(algorithm="fedavg", lr=0.01, **given):
    common = Settings(**{**COMMON, **given})
    return canonical(algorithm, {"lr": lr}, Scenario("sine", "linear", "iid"), common, 3)


@pytest.mark.parametrize(("name", "factor"), [("squared_error", 2.0), ("half_squared_error", 1.0)])
def test_full_gradient_descent_on_a_line(name, factor):
    """FedSGD on w x + b by the gradients (z - y) x and z - y, times 2 where the loss has no 1/2."""
    asked = spec("fedsgd", loss=name)
    data = partition_data(asked, load_dataset(asked, None))
    done, _ = run(asked)
    x, y = data.dataset.x[data.train, 0].astype(float), data.dataset.y[data.train].astype(float)
    w, b = fit_model(asked, data.dataset).initial(np.array([-1]), 3)[0]
    for _ in range(4):
        error = w * x + b - y
        w, b = w - 0.01 * factor * (error @ x) / len(x), b - 0.01 * factor * error.mean()
    np.testing.assert_allclose(done.state["w"].numpy(), [w, b], rtol=0, atol=1e-10)
    held_out = data.dataset.x[data.test, 0] * w + b - data.dataset.y[data.test]
    last = done.history[-1]
    assert last["test_mse"] == pytest.approx((held_out**2).mean(), abs=1e-9)
    assert last["test_loss"] == pytest.approx(factor / 2 * last["test_mse"], abs=1e-9)
    assert "test_accuracy" not in last


def test_a_loss_of_another_task_is_refused():
    with pytest.raises(UserError, match="two_sided"):
        run(spec(loss="two_sided"))
    assert losses.resolve(None, "mse") is losses.squared_error


LINE = """
{algorithms: [fedavg, local_only, fedsgd], datasets: [sine], models: [linear], heterogeneity: [iid], trials: 3, seeds: 2,
sampler: grid, settings: {rounds: 10, clients: 5}, search: {lr: {default: 0.0001, choices: [0.0001, 0.05, 2.0]}}}
"""


def test_less_is_better_from_search_to_leaderboard(tmp_path: Path):
    """The default rate hardly moves, and a rate of 2 overshoots: neither wins."""
    suite_here("sweep", study_file(tmp_path, LINE), cwd=tmp_path)
    board = document(suite_here("leaderboard", "--json", cwd=tmp_path))
    assert (board["metric"], board["direction"]) == ("test_mse", "minimize")
    first, second = [row for row in board["rows"] if row["rank"]]
    assert first["mean"] < second["mean"]
    assert first["params"]["lr"] == second["params"]["lr"] == 0.05
    tuned = document(suite_here("tuned", "list", "--json", cwd=tmp_path))
    errors = [entry["scores"]["val_mse"] for entry in tuned]
    assert errors == sorted(errors), "validation, not test, says what is best"
