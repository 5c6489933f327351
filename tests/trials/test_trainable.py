"""The Tune trainable, driven by hand: stops, reuse, checkpoints, failures; no cluster."""

from pathlib import Path

import pytest

from tests.support.actors import actor, config, finish, spec
from tests.support.simulations import timeless
from trials.run.trial import run

pytestmark = pytest.mark.usefixtures("no_cluster")


def test_steps_end_at_the_scheduler_s_stops_and_tell_the_history_once() -> None:
    results = finish(actor(spec(), (1, 3)))
    assert [result["round"] for result in results] == [1, 3, 9]
    assert [result["status"] for result in results] == ["running", "running", "finished"]
    told = [entry["round"] for result in results for entry in result["history"]]
    assert told == list(range(10))
    last_three = [entry["val_accuracy"] for entry in results[-1]["history"][-3:]]
    assert results[-1]["val_score"] == sum(last_three) / 3


def test_stops_change_no_number() -> None:
    (whole,), parts = finish(actor(spec())), finish(actor(spec(), (1, 2, 5)))
    assert timeless([e for part in parts for e in part["history"]]) == timeless(whole["history"])
    simulation, _ = run(spec())
    assert timeless(simulation.history) == timeless(whole["history"])


def test_a_reused_actor_knows_nothing_of_the_trial_before() -> None:
    other = spec("folb", "labels(2)", variant="heterogeneity", psi=2.0)
    made = actor(spec(), (1,))
    made.step()
    assert made.reset_config(config(other))
    (reused,), (fresh,) = finish(made), finish(actor(other))
    assert timeless(reused["history"]) == timeless(fresh["history"])
    assert reused["fingerprint"] == fresh["fingerprint"]
    made.reset_config(config(spec()))
    assert timeless(finish(made)[0]["history"]) == timeless(finish(actor(spec()))[0]["history"])


def test_divergence_and_failure_are_results() -> None:
    (diverged,) = finish(actor(spec("fedavg", lr=1e38)))
    assert diverged["status"] == "diverged"
    assert diverged["round"] < 9
    (failed,) = finish(actor(spec("fedavg", nonsense=1.0)))
    assert failed["status"] == "failed"
    assert "nonsense" in failed["error"]
    assert "Traceback" in failed["error"]


def test_code_of_others_that_would_end_the_process_is_a_failed_trial(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import sys\nfrom dataclasses import dataclass\nfrom trials.algorithms.fedavg import FedAvg\n"
        "@dataclass(frozen=True)\nclass Mine(FedAvg):\n    def round(self, state, fed):\n        "
        "sys.exit(0)\n"
    )
    (failed,) = finish(actor(spec(f"{path}:Mine")))
    assert failed["status"] == "failed"
    assert "ExitedError: it called sys.exit(0)" in failed["error"]
