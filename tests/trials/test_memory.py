"""What a trial takes of a device's memory: its part, clients at once, clients' tables, samples, checkpoints."""

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.actors import actor, finish, spec
from tests.support.simulations import timeless
from trials.engine.training import Solver
from trials.run import trial
from trials.run.outcome import TrialResult
from trials.run.simulation import Simulation
from trials.run.spec import TrialSpec
from trials.run.trial import load_dataset, partition_data, simulate

# Clients at once that memory does not hold


def batched(algorithm: str = "safl", **settings: Any) -> TrialSpec:
    """A spec computed 4 clients at once."""
    asked = spec(algorithm)
    more = {"execution": "batched", "chunk": 4, "participation": 1.0, **settings}
    return asked.model_copy(update={"settings": asked.settings.model_copy(update=more)})


def holds(monkeypatch: pytest.MonkeyPatch, most: int, since: int = 0) -> None:
    """Memory that holds `most` clients at once, after `since` calls that went well."""
    train, calls = Solver.train, []

    def limited(self: Solver, *given: Any) -> Any:
        calls.append(self.chunk)
        if len(calls) > since and (self.chunk or 99) > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
        return train(self, *given)

    monkeypatch.setattr(Solver, "train", limited)


@pytest.mark.usefixtures("no_cluster")
@pytest.mark.parametrize(("since", "begins"), [(0, 1), (6, 5)])
def test_clients_that_memory_does_not_hold_are_halved_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, since: int, begins: int
) -> None:
    """The trial goes on from its checkpoint, after round 4; a repetition halves at the same round."""
    place = {"checkpoint": str(tmp_path / "x.pt"), "checkpoint_seconds": 0.0}
    made = actor(batched("fedavg"), (4,), **place)
    with monkeypatch.context() as patch:
        holds(patch, 2, since)
        results = finish(made)
    outcome = TrialResult()
    for result in results:
        outcome.add(SimpleNamespace(**result))
    halved = {"round": begins, "chunk": 2}
    assert (outcome.status, outcome.chunk, outcome.halved) == ("finished", 4, halved)
    assert [entry["round"] for entry in outcome.history] == list(range(10)), "each once"
    again, _ = trial.run(batched("fedavg"), halved=halved)
    assert timeless(again.history) == timeless(outcome.history)


@pytest.mark.usefixtures("no_cluster")
def test_half_too_many_fail_and_so_do_those_that_cannot_be_halved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holds(monkeypatch, 1)
    (failed,) = finish(actor(batched()))
    assert failed["status"] == "failed"
    assert "OutOfMemoryError: CUDA out of memory" in failed["error"]
    assert finish(actor(batched(chunk=2)))[0]["status"] == "finished"
    holds(monkeypatch, 0)
    assert finish(actor(batched(chunk=1)))[0]["status"] == "failed"


# Tables, samples, checkpoints


def test_a_partition_that_is_kept_travels_with_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = batched()
    there = load_dataset(asked, None)
    first = partition_data(asked, there, keep=True)
    here = pickle.loads(pickle.dumps(there))
    monkeypatch.setattr("trials.run.trial.partition", None)
    again = partition_data(asked, here)
    assert again.dataset is here
    assert again.fingerprint == first.fingerprint
    assert again.train.flags.writeable


@pytest.mark.parametrize(
    "other",
    [{"partition_seed": 1}, {"val_fraction": 0.3}, {"clients": 5}, {"heterogeneity": "labels(2)"}],
    ids=str,
)
def test_a_partition_that_is_kept_is_no_other_s(other: dict[str, Any]) -> None:
    asked = batched()
    there = load_dataset(asked, None)
    kept = partition_data(asked, there, keep=True)
    level = other.get("heterogeneity", "iid")
    settings = asked.settings.model_copy(
        update={key: value for key, value in other.items() if key != "heterogeneity"}
    )
    changed = asked.model_copy(update={"settings": settings, "heterogeneity": level})
    assert partition_data(changed, there, keep=True).fingerprint != kept.fingerprint


def test_a_checkpoint_holds_the_rows_that_were_written(tmp_path: Path) -> None:
    """3 of 40 clients: the table has room for twice as many, the file has their rows alone."""
    from trials.run.checkpoint import Checkpoint

    asked = spec("scaffold")
    few = asked.settings.model_copy(update={"clients": 40, "participation": 0.07, "rounds": 1})
    asked = asked.model_copy(update={"settings": few})
    simulation = simulate(asked, partition_data(asked, load_dataset(asked, None)))
    simulation.advance()
    saved = simulation.save()
    values = saved["rows"]["c_k"]["values"]
    assert values.shape == (3, 650)
    assert values.untyped_storage().nbytes() == 3 * 650 * 4
    Checkpoint(str(tmp_path / "x.pt")).save(saved)
    assert (tmp_path / "x.pt").stat().st_size < 5 * 650 * 4 + 6000, "w, c and three rows"
    again: Simulation = simulate(asked, partition_data(asked, load_dataset(asked, None)))
    again.load(saved)
    ids = torch.arange(40)
    assert torch.equal(again.state["c_k"][ids], simulation.state["c_k"][ids])
