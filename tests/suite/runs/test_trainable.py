"""An algorithm as a Tune trainable: by hand, and under Tune's own searcher, scheduler and restore."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import suite
from tests.support import own_ray
from trials.common.errors import UserError
from trials.scoring.metrics import COUNTED

QUESTION: dict[str, Any] = {
    "heterogeneity": "labels(2)",
    "settings": {"rounds": 6, "clients": 4, "eval_every": 1, "execution": "batched"},
}


def actor(config: dict[str, Any], algorithm: str = "folb", **given: Any) -> Any:
    """A trainable that is set up, as in the process of a trial."""
    made: Any = suite.trainable(algorithm, **{**QUESTION, **given})
    trial = made.__new__(made)
    trial.setup(config)
    return trial


def finish(trial: Any) -> list[dict[str, Any]]:
    results = [trial.step()]
    while not results[-1]["done"]:
        results.append(trial.step())
    return results


def timeless(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What both a history and Tune's results have, less times."""
    kept = {"round", "train_loss", *COUNTED}
    metrics = ("test_", "val_accuracy", "val_loss")
    return [
        {k: v for k, v in entry.items() if k in kept or k.startswith(metrics)} for entry in history
    ]


def test_steps_are_the_evaluations_of_a_run() -> None:
    config = {"mu": 0.1, "lr": 0.3, "batch_size": 8, "seed": 3}
    results, whole = finish(actor(config)), suite.run("folb", **QUESTION, **config)
    assert timeless(results) == timeless(whole.history[1:])
    assert [result["status"] for result in results] == ["running"] * 5 + ["finished"]
    assert results[-1]["val_score"] == whole.val_score
    assert results[0]["val_score"] == whole.history[1]["val_accuracy"]


@pytest.mark.parametrize("algorithm", ["safl", "scaffold", "defed"])
def test_a_checkpoint_continues_as_if_nothing_had_happened(tmp_path: Path, algorithm: str) -> None:
    whole, first = finish(actor({}, algorithm)), actor({}, algorithm)
    before = [first.step(), first.step()]
    first.save_checkpoint(str(tmp_path))
    second = actor({}, algorithm)
    second.load_checkpoint(str(tmp_path))
    after = finish(second)
    assert timeless(before + after) == timeless(whole)
    assert after[-1]["val_score"] == whole[-1]["val_score"]


def test_divergence_is_the_worst_score_of_the_task() -> None:
    for dataset, worst in (("digits", 0.0), ("sine", 1e30)):
        given = {"dataset": dataset, "model": "linear", "heterogeneity": "iid"}
        *_, last = finish(actor({"lr": 1e38}, "fedavg", **given))
        assert (last["status"], last["val_score"], last["done"]) == ("diverged", worst, True)
        assert math.isfinite(last["round"])


@pytest.mark.parametrize("config", [{"muu": 0.1}, {"mu": "much"}, {"seed": -1}])
def test_a_config_that_cannot_be_run_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(config))):
        actor(config)


def test_what_cannot_be_run_at_all_is_refused_at_once() -> None:
    for given, key in (
        ({"settings": {"val_fraction": 0}}, "val_fraction"),
        ({"model": "lenet5"}, "lenet5"),
    ):
        with pytest.raises(UserError, match=key):
            suite.trainable("folb", **{**QUESTION, **given})


def test_relative_paths_are_meant_from_where_tune_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "trial"
    inside.mkdir()
    ring = np.eye(4) / 2 + (np.roll(np.eye(4), 1, 0) + np.roll(np.eye(4), -1, 0)) / 4
    np.savetxt(tmp_path / "ring.csv", ring, delimiter=",")
    monkeypatch.setenv("TUNE_ORIG_WORKING_DIR", str(tmp_path))
    monkeypatch.chdir(inside)
    *_, last = finish(actor({"topology": "file:ring.csv"}, "defed"))
    assert (Path.cwd(), last["status"]) == (inside, "finished")


@pytest.fixture(scope="module")
def ray_runs() -> None:
    own_ray.started()


BREAKS_ONCE = """
from dataclasses import dataclass
from pathlib import Path
from trials.algorithms.scaffold import SCAFFOLD

@dataclass(frozen=True)
class BreaksOnce(SCAFFOLD):
    def round(self, state, fed):
        if fed.round == 4 and not Path({mark!r}).exists():
            Path({mark!r}).touch()
            raise RuntimeError("the machine is gone")
        return super().round(state, fed)
"""


@pytest.mark.slow("Tune twice")
@pytest.mark.usefixtures("ray_runs")
def test_tune_restores_a_trial_that_broke(tmp_path: Path) -> None:
    """By an algorithm in a file, which goes to the workers as its text."""
    from ray import tune

    (tmp_path / "breaks.py").write_text(BREAKS_ONCE.format(mark=str(tmp_path / "mark")))
    name = f"{tmp_path}/breaks.py:BreaksOnce"
    made = suite.trainable(name, **QUESTION)
    checkpoints = tune.CheckpointConfig(checkpoint_frequency=1)
    where = {"name": "search", "storage_path": str(tmp_path), "verbose": 0}
    space = {"lr": tune.grid_search([0.2])}
    run_config = tune.RunConfig(**where, checkpoint_config=checkpoints)
    (broken,) = tune.Tuner(made, param_space=space, run_config=run_config).fit()
    assert "the machine is gone" in str(broken.error)
    assert broken.metrics["round"] == 3
    again = tune.Tuner.restore(str(tmp_path / "search"), made, resume_errored=True)
    (restored,) = again.fit()
    assert restored.error is None
    assert restored.metrics["iterations_since_restore"] == 3, "not from the beginning"
    whole = suite.run(name, **QUESTION, lr=0.2)
    assert timeless([restored.metrics]) == timeless(whole.history[-1:])
    assert restored.metrics["val_score"] == whole.val_score
