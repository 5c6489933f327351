"""Local SGD in blocks of rows whose steps are captured: the eager form's bits, at one launch a step."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.support.model_cases import CASES
from tests.support.simulations import (
    digest,
    finish,
    honoured,
    local_work,
    partitioned,
    same,
    settings,
    simulation,
)
from tests.support.standin import DEVICE, Counts
from trials import models
from trials.algorithms import ALGORITHMS
from trials.engine import cuda_graphs
from trials.engine.cuda_graphs import Work, rows_of
from trials.models.base import Model
from trials.models.dense import MLP
from trials.run.simulation import Simulation

DATA = partitioned([23, 40, 9, 31, 17], shape=(3, 5), classes=4)
UNEVEN = {"batch_size": 7, "rounds": 3, "dtype": "float32", "execution": "batched"}
STUDIES: dict[str, tuple[dict[str, Any], str]] = {
    "uneven work": ({"weight_decay": 0.01}, "iid+system(steps=1..4)"),
    "momentum, some clients": ({"momentum": 0.9, "participation": 0.6}, "iid"),
}


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What was captured stays in a process; and blocks are small here."""
    monkeypatch.setattr(cuda_graphs, "ROWS", 4)
    monkeypatch.setattr(cuda_graphs, "FEWEST", 1)
    yield
    cuda_graphs.blocks.clear()
    cuda_graphs.faults.clear()


@pytest.fixture
def capturing(standin: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in, as a device that captures."""
    monkeypatch.setitem(cuda_graphs.CAPTURES, DEVICE.type, standin.capture)
    return standin


def in_blocks(monkeypatch: pytest.MonkeyPatch) -> list[Work]:
    """Let a CPU compute in blocks from now on; the steps that it would capture."""
    made: list[Work] = []

    def capture(work: Work) -> Work:
        made.append(work)
        return work

    monkeypatch.setitem(cuda_graphs.CAPTURES, "cpu", capture)
    return made


def made(name: str, lr: float, given: dict[str, Any], level: str, model: str) -> Simulation:
    common, level = honoured(name, {**UNEVEN, **given}, level)
    common = settings(**{**common, **local_work(name, 2)})
    return simulation(ALGORITHMS[name](lr=lr), DATA, common, model, level)


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("model", ["logreg", "mlp(7,5)"])
def test_blocks_have_the_bits_of_the_eager_form(
    monkeypatch: pytest.MonkeyPatch, study: str, model: str
) -> None:
    """Of every algorithm; where a block has rows that are done, and rows that nobody asked for."""
    of = {name: (name, 0.1, *STUDIES[study], model) for name in ALGORITHMS}
    graph_error = {name: digest(finish(made(*given))) for name, given in of.items()}
    steps = in_blocks(monkeypatch)
    assert {name: digest(finish(made(*given))) for name, given in of.items()} == graph_error
    assert steps


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_who_diverges_stays_as_it_ended(monkeypatch: pytest.MonkeyPatch, momentum: float) -> None:
    """A gradient that is not a number, times a rate of 0, would not be 0."""
    of = [
        ("fedavg", lr, {"momentum": momentum}, "iid+system(steps=1..9)", "mlp(7,5)")
        for lr in (1e38, 1e20, 1e3)
    ]
    graph_error = [digest(finish(made(*given))) for given in of]
    in_blocks(monkeypatch)
    assert [digest(finish(made(*given))) for given in of] == graph_error


def test_more_rows_than_a_block_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows a block and five clients; one capture serves all blocks and rounds of as many steps."""
    given = ("fedavg", 0.1, {}, "iid", "mlp(7,5)")
    graph_error = digest(finish(made(*given)))
    monkeypatch.setattr(cuda_graphs, "ROWS", 2)
    steps = in_blocks(monkeypatch)
    assert digest(finish(made(*given))) == graph_error
    assert len(steps) == 1


def test_rows_of_a_block_depend_on_what_a_step_costs_and_on_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """6 rows B d operations a step: at most 2e9; four blocks have the room of clients at once."""
    monkeypatch.undo()

    def rows(model: str, chunk: int | None = None) -> int:
        return rows_of(Model(models.parse(model), (784,), 10), 10, chunk)

    assert rows("logreg") == 256
    assert rows("mlp(200,200)") == 128, "199,210 weights: 167 rows"
    assert rows("mlp(2000,2000)") == 0, "5,592,010 weights: 5 rows"
    assert rows("logreg", 1024) == 256
    assert rows("logreg", 1023) == 0


# On a device


def rounds(name: str, model: str, device: torch.device, steps: int = 2, **given: Any) -> Simulation:
    """Three clients, two minibatches each."""
    case = CASES[model]
    common = {"rounds": 2, "batch_size": 2, "execution": "batched", **local_work(name, steps)}
    common = settings(**{**common, **given})
    algorithm, data = ALGORITHMS[name](lr=0.1), case.partitioned([3, 2, 4])
    return simulation(algorithm, data, common, case.text, device=device)


@pytest.mark.parametrize("model", ["logreg", "mlp", "lenet5", "char_lstm"])
@pytest.mark.parametrize("name", ["fedavg", "scaffold"])
def test_what_is_replayed_is_what_the_cpu_computes(
    capturing: Any, monkeypatch: pytest.MonkeyPatch, name: str, model: str
) -> None:
    monkeypatch.setitem(CASES, "char_lstm", CASES["char_lstm"]._replace(shape=(2,)))
    there = finish(rounds(name, model, DEVICE))
    assert cuda_graphs.blocks
    assert not there.fed.graph_error
    same(finish(rounds(name, model, torch.device("cpu"))), there, 1e-10)


@pytest.mark.parametrize("model", ["mlp", "char_lstm"])
def test_a_step_that_is_replayed_is_one_launch(
    capturing: Any, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setitem(CASES, "char_lstm", CASES["char_lstm"]._replace(shape=(2,)))

    def launches(steps: int) -> int:
        run = rounds("fedavg", model, DEVICE, steps, rounds=9)
        for index in (1, 2):
            capturing.counts = Counts()
            run.fed.begin(index)
            run.state = run.algorithm.round(run.state, run.fed)
        return capturing.counts.launches

    assert launches(8) - launches(5) == 3


def test_who_cannot_be_captured_is_launched_eagerly_and_says_why(
    capturing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that waits for the device in a step."""
    forward = MLP.forward

    def waits(self: MLP, p: Any, x: torch.Tensor) -> torch.Tensor:
        return forward(self, p, x) if float(x.sum()) else x

    graph_error = digest(finish(rounds("fedavg", "mlp", torch.device("cpu"))))
    monkeypatch.setattr(MLP, "forward", waits)
    run = finish(rounds("fedavg", "mlp", DEVICE))
    assert run.fed.graph_error == (
        "aten._local_scalar_dense.default is not permitted while a graph is captured"
    )
    assert digest(run) == graph_error
