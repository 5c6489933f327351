"""Checkpoints as files, sound or refused, replaced whole; the Tune trainable, driven by hand without a cluster: stops,
reuse, failures, and trials that go on from a checkpoint.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.actors import actor, config, finish, report, spec
from tests.support.simulations import timeless
from trials.run.checkpoint import Checkpoint, CheckpointFolder, StorageError
from trials.run.simulation import Simulation
from trials.run.spec import TrialSpec
from trials.run.trainable import FederatedTrial
from trials.run.trial import run

pytestmark = pytest.mark.usefixtures("no_cluster")
STATE = {"w": torch.arange(5.0), "history": [{"round": 0, "x": 0.1}], "rows": None, "name": "a"}


def checkpointed(trial: TrialSpec, place: Path, stops: tuple[int, ...] = ()) -> FederatedTrial:
    """An actor that writes a checkpoint at each report, as one on another machine would find it."""
    return actor(trial, stops, checkpoint=str(place), checkpoint_seconds=0.0)


@pytest.mark.parametrize("name", ["plain", "a räu me #1 50%"])
@pytest.mark.parametrize("uri", [False, True])
def test_what_is_saved_is_loaded(tmp_path: Path, name: str, uri: bool) -> None:
    path = tmp_path / name / "x.pt"
    checkpoint = Checkpoint(path.as_uri() if uri else str(path))
    assert checkpoint.load() is None
    for number in (1, 2):
        checkpoint.save({**STATE, "number": number})
    assert [p.name for p in path.parent.iterdir()] == ["x.pt"], "one file, the last state"
    loaded = checkpoint.load()
    assert loaded is not None
    assert loaded["number"] == 2
    assert torch.equal(loaded["w"], STATE["w"])
    assert loaded["history"] == STATE["history"]
    checkpoint.delete()
    checkpoint.delete()
    assert checkpoint.load() is None
    for _ in range(2):
        CheckpointFolder(path.parent.as_uri() if uri else str(path.parent)).clear({"x"})
    assert not path.parent.exists()


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, flipped, lambda content: b"", lambda content: b"abc"])
def test_a_damaged_file_is_named_and_set_aside(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "x.pt"
    checkpoint = Checkpoint(str(path))
    checkpoint.save(STATE)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(StorageError, match=r"x\.pt is damaged .*starts from round 0"):
        checkpoint.load()
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt.damaged"]
    assert checkpoint.load() is None


def test_a_checkpoint_is_on_the_disk_before_it_takes_the_place_of_the_former(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "x.pt", []
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.append((os.fstat(file).st_ino, path.exists()))
    )
    Checkpoint(str(path)).save(STATE)
    assert synced == [(path.stat().st_ino, False)]


def test_nothing_that_runs_code_is_loaded(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path / "x.pt"))
    checkpoint.save({"evil": Path})
    with pytest.raises(Exception, match="weights_only"):
        checkpoint.load()


def test_it_is_due_after_its_seconds_and_never_costs_more_than_a_twentieth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("trials.run.checkpoint.time.monotonic", lambda: now[0])
    checkpoint = Checkpoint(str(tmp_path / "x.pt"), 60.0)

    def slow(state: Any, buffer: Any) -> None:
        now[0] += 9.0

    monkeypatch.setattr("trials.run.checkpoint.torch.save", slow)
    checkpoint.save(STATE)
    for waited, due in ((20 * 9.0, False), (1.0, True)):
        now[0] += waited
        assert checkpoint.due == due


def started(of: FederatedTrial) -> Simulation:
    """The simulation of an actor's only trial, begun or gone on with."""
    (running,) = of._running.trials.values()
    return running.simulation


@pytest.mark.parametrize("algorithm", ["safl", "scaffold", "defed"])
def test_a_trial_goes_on_where_its_process_died(
    tmp_path: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trials.run.checkpoint.SPARING", 0)  # however busy the disk is
    (whole,) = finish(actor(spec(algorithm)))
    first = checkpointed(spec(algorithm), tmp_path / "x.pt", (2, 5))
    before = [report(first), report(first)]
    second = checkpointed(spec(algorithm), tmp_path / "x.pt", (2, 5))
    assert started(second).fed.round == 5, "not from the beginning"
    (after,) = finish(second)
    assert timeless(after["history"]) == timeless(whole["history"]), "told from round 0 on"
    told = {r["round"]: r["val_score"] for r in (*before, after)}
    assert after["intermediates"] == told
    assert after["val_score"] == whole["val_score"]


def test_a_checkpoint_of_another_trial_is_not_continued(tmp_path: Path) -> None:
    checkpointed(spec(), tmp_path / "x.pt", (2,)).step()
    other = checkpointed(spec(lr=0.5), tmp_path / "x.pt", (2,))
    assert started(other).fed.round == 0


def test_an_ended_trial_writes_none_and_a_reused_actor_has_its_own(tmp_path: Path) -> None:
    made = checkpointed(spec(), tmp_path / "x.pt")
    finish(made)
    assert not (tmp_path / "x.pt").exists()
    made.reset_config(config(spec(), (3,), checkpoint=str(tmp_path / "y.pt")))
    made.step()
    assert not (tmp_path / "y.pt").exists(), "a short trial does not pay for one"


def test_a_storage_that_does_not_work_halts_and_does_not_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    made = checkpointed(spec(), tmp_path / "file" / "x.pt", (2,))
    (result,) = finish(made)
    assert result["status"] == "halted"
    assert f"{tmp_path}/file/x.pt cannot be" in result["error"]


# Without checkpoints


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
