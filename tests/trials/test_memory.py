"""What a trial takes of a device's memory: its part, clients at once, clients' tables, samples, checkpoints."""

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.actors import actor, config, finish, spec
from tests.support.simulations import timeless
from trials.common import device as memory
from trials.common.device import CONTEXT
from trials.datasets.base import Dataset
from trials.engine.training import Solver
from trials.run import trial
from trials.run.outcome import TrialResult
from trials.run.simulation import Simulation
from trials.run.spec import TrialSpec
from trials.run.trainable import FederatedTrial
from trials.run.trial import load_dataset, partition_data, simulate

CARD = 40 * CONTEXT


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A GPU of 40 GB, and the fractions of it that a process allowed itself."""
    fractions = [1.0]
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=CARD)
    )
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", fractions.append)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: fractions[-1])
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    return fractions


@pytest.mark.usefixtures("no_cluster")
def test_a_part_of_a_gpu_less_its_context_is_all_that_a_trial_may_take(card: list[float]) -> None:
    """Three quarters of what is left besides what is held are for clients at once, a quarter is for tables."""
    made, gpu = actor(spec()), torch.device("cuda")
    for need in ({"GPU": 2.0}, {"GPU": 0.01}, {"GPU": 0.25}):
        made.reset_config(config(spec(), device="cuda", need=need))
    assert card[1:] == [39 / 40, 0.0, 9 / 40], "a quarter is 10 GB, of which the context is 1"
    assert memory.memory_budget(gpu, CONTEXT) == pytest.approx(0.75 * 8 * CONTEXT)
    assert memory.tables_budget(gpu, CONTEXT) == pytest.approx(0.25 * 8 * CONTEXT)
    assert memory.memory_budget(gpu, 99 * CONTEXT) == 0
    assert memory.memory_budget(torch.device("cpu"), CONTEXT) == 2.0**31


def test_trials_of_a_pack_share_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen have sixteen rounds on it, a sixteenth of the tables' part each, and their clients at once in
    the rest together.
    """
    asked, held = batched(chunk=None), []
    data = partition_data(asked, load_dataset(asked, None))
    client = simulate(asked, data).fed.model.bytes_a_client(32, torch.empty(0))
    for part, room in (("memory_budget", 40e6), ("tables_budget", 160.0)):
        monkeypatch.setattr(
            f"trials.engine.budget.{part}",
            lambda device, always, room=room: held.append(always) or room,
        )
    for members in (1, 2, 16):
        fed = simulate(asked, data, members=members).fed
        assert (fed.chunk, fed.tables) == (40e6 // client, 160 / members)
    alone, two, sixteen = (
        always - data.dataset.x.nbytes - data.dataset.y.nbytes for always in held[::2]
    )
    assert sixteen == 8 * two
    assert two - 2 * alone == 2 * 4 * 2 * 650 * 4, "two more vectors of four clients each"


# Clients at once that memory does not hold


def batched(algorithm: str = "safl", **settings: Any) -> TrialSpec:
    """A spec computed 4 clients at once."""
    asked = spec(algorithm)
    more = {"execution": "batched", "chunk": 4, "participation": 1.0, **settings}
    return asked.model_copy(update={"settings": asked.settings.model_copy(update=more)})


def holds(monkeypatch: pytest.MonkeyPatch, most: int, since: int = 0) -> None:
    """Memory that holds `most` clients at once, after `since` calls that went well."""
    sgd, calls = Solver.sgd, []

    def limited(self: Solver, *given: Any) -> Any:
        calls.append(self.chunk)
        if len(calls) > since and (self.chunk or 99) > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
        return sgd(self, *given)

    monkeypatch.setattr(Solver, "sgd", limited)


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


def test_a_run_that_memory_does_not_hold_says_what_to_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holds(monkeypatch, 0)
    with pytest.raises(trial.UserError, match="a smaller memory_budget or chunk"):
        trial.run(batched())


# Tables, samples, checkpoints


def test_tables_longer_than_their_part_lie_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = batched("scaffold")
    data = partition_data(asked, load_dataset(asked, None))
    one = 4 * 650 * 4
    for room, host in ((one, False), (one - 1, True)):
        monkeypatch.setattr(
            "trials.engine.budget.tables_budget", lambda device, held, room=room: room
        )
        made = []
        monkeypatch.setattr(
            "trials.engine.federation.ClientRows", lambda *given, made=made: made.append(given[3])
        )
        fed = simulate(batched("fedavg"), data).fed
        fed.client_rows()
        fed.client_rows()
        assert made == [host, True], "two tables share one part"


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


@pytest.mark.usefixtures("no_cluster")
def test_an_actor_has_a_data_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [batched(), batched("fedavg", partition_seed=1)]
    got: list[SimpleNamespace] = []

    def get(found: SimpleNamespace) -> Dataset:
        got.append(found)
        return load_dataset(found.of, None)

    monkeypatch.setattr("trials.run.trainable.ray.ObjectRef", SimpleNamespace)
    monkeypatch.setattr("trials.run.trainable.ray.get", get)
    made = FederatedTrial.__new__(FederatedTrial)
    stored = {one.dataset_key: SimpleNamespace(of=one) for one in asked}
    made.setup(config(asked[0]), datasets=stored)
    for each in asked:
        made.reset_config(config(each))
        finish(made)
    first, second = made._data.values()
    assert len(got) == 1
    assert first.dataset is second.dataset
    assert not np.array_equal(first.train, second.train)


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
