"""Metrics that weigh labels alike: by hand, against scikit-learn, in a run."""

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from tests.support.simulations import finish, partitioned, settings, simulation
from trials.algorithms.defed import DeFed
from trials.common.errors import UserError
from trials.run.spec import Scenario, canonical
from trials.run.trial import run
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


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_as_scikit_learn(classes):
    rng = np.random.default_rng(classes)
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, 60)])
    logits = rng.integers(-3, 4, (len(y), classes)).astype(float)  # some are equal
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    guess = logits.argmax(1)
    expected = {
        "macro_f1": sklearn_metrics.f1_score(y, guess, average="macro"),
        "balanced_accuracy": sklearn_metrics.balanced_accuracy_score(y, guess),
        "auc": sklearn_metrics.roc_auc_score(
            y, p[:, 1] if classes == 2 else p, multi_class="ovr", average="macro"
        ),
    }
    for name, value in expected.items():
        assert MEASURES[name](logits, y) == pytest.approx(value, abs=1e-12)


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


def test_of_devices_it_is_the_weighted_mean():
    made = finish(simulation(DeFed(lr=0.5), partitioned([9, 6, 5]), settings(metric="macro_f1")))
    fed = made.fed
    devices = next(iter(made.algorithm.scored(made.state, fed).values()))
    ids = fed.data.test
    each = [
        MEASURES["macro_f1"](fed.model.logits(w, fed.x[ids]).numpy(), fed.data.dataset.y[ids])
        for w in devices.models
    ]
    expected = np.dot(devices.weights.numpy(), each)
    assert made.history[-1]["test_macro_f1"] == pytest.approx(expected, abs=1e-12)


def test_it_is_of_classifications():
    spec = canonical(
        "fedavg", {}, Scenario("sine", "linear", "iid"), Settings(metric="auc", rounds=1), 0
    )
    with pytest.raises(UserError, match="metric is auc, which is of a classification"):
        run(spec)
    with pytest.raises(UserError, match="which is of a classification"):
        REGRESSION.by("macro_f1")
