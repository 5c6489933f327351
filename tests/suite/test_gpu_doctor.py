"""`suite doctor --gpu`: its checks, on the CPU and on the device that stands in for a GPU."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from suite import gpu_doctor
from suite.execution.cluster import Resources
from suite.gpu_doctor import (
    MODELS,
    agrees,
    paces,
    repeats,
    replayed,
    shared,
    tables,
    together,
    within,
)
from suite.sweeps.request import SweepRequest
from tests.support.commands import fault, suite_here
from trials.engine import cuda_graphs
from trials.engine.federation import Federation

CPU = torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_a_gpu_is_told_so_in_a_line(tmp_path: Path) -> None:
    done = suite_here("doctor", "--gpu", cwd=tmp_path, code=2)
    said = fault(done)
    assert said.startswith(f"no GPU to examine: torch {torch.__version__} ")
    assert "\n" not in said
    assert not done.stdout


@pytest.mark.parametrize("model", ["logreg", "lenet5"])
def test_a_gpu_is_compared_with_a_cpu(standin: Any, model: str) -> None:
    detail, _ = agrees(("fedavg", "defed"), model, torch.device("standin"))
    assert detail.startswith("2 algorithms in two executions, at most ")
    assert standin.counts.launches > 0


def test_bits_repeat_and_do_not_depend_on_where_tables_lie(standin: Any) -> None:
    device = torch.device("standin")
    assert repeats(("fedavg",), device)[0] == "1 algorithms with mlp(16) and lenet5"
    assert tables(device)[0] == "scaffold, feddyn, safl give the same bits"


def test_a_pack_computes_what_each_does_alone() -> None:
    assert together(("fedavg", "scaffold"), CPU)[0] == "2 algorithms in one, at most 0e+00 off"


def test_steps_that_are_replayed_are_compared_with_eager_ones(
    standin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, only = torch.device("standin"), {"logreg": MODELS["logreg"]}
    monkeypatch.setattr(gpu_doctor, "MODELS", only)
    assert replayed(device)[0] == "not measured: steps are not captured on standin"
    monkeypatch.setitem(cuda_graphs.CAPTURES, "standin", standin.capture)
    detail, table = replayed(device)
    assert detail.startswith("1 models, at most ")
    assert [row["model"] for row in table] == ["logreg"]
    assert table[0]["times_as_fast"] > 0
    assert "standin" in cuda_graphs.CAPTURES, "they are captured again"

    def forgets(work: Any) -> Any:
        standin.capture(work)
        return lambda: None

    cuda_graphs.blocks.clear()
    monkeypatch.setitem(cuda_graphs.CAPTURES, "standin", forgets)
    with pytest.raises(RuntimeError, match=r"^logreg is \d\.\de[-+]\d\d off$"):
        replayed(device)

    def unsupported(work: Any) -> Any:
        raise RuntimeError("not permitted while a graph is captured\nand more")

    cuda_graphs.blocks.clear()
    monkeypatch.setitem(cuda_graphs.CAPTURES, "standin", unsupported)
    with pytest.raises(
        RuntimeError, match=r"^logreg is not captured: not permitted while a graph is captured$"
    ):
        replayed(device)
    cuda_graphs.faults.clear()


def test_what_is_computed_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second run is a little off."""
    train, calls = Federation.train, []

    def off(self: Federation, *given: Any, **more: Any) -> Any:
        calls.append(given)
        return train(self, *given, **more) + 1e-6 * (len(calls) > 3)

    monkeypatch.setattr(Federation, "train", off)
    with pytest.raises(RuntimeError) as found:
        agrees(("fedavg",), "logreg", CPU)
    assert str(found.value) == "fedavg (batched) is 3.0e-06 off, fedavg (sequential) is 3.0e-06 off"
    calls.clear()
    with pytest.raises(RuntimeError, match="other bits the second time: fedavg with mlp"):
        repeats(("fedavg",), CPU)


def test_each_check_says_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that raises has failed, and the others go on."""
    for name in ("shared", "paces", "tables"):
        monkeypatch.setattr(gpu_doctor, name, lambda on: ("well", ({"steps": 1},)))
    monkeypatch.setattr(gpu_doctor, "together", lambda names, on: ("well", ()))
    monkeypatch.setattr(gpu_doctor, "MODELS", {"logreg": MODELS["logreg"]})
    monkeypatch.setattr(gpu_doctor, "repeats", lambda names, on: 1 / 0)
    found = list(gpu_doctor.examine(("fedavg",), "cpu"))
    assert [(check.name, check.ok) for check in found] == [
        ("device", True),
        ("as on a CPU: logreg", True),
        ("as alone: a pack", True),
        ("steps as one launch", True),
        ("the same bits twice", False),
        ("memory of a trial", True),
        ("clients' tables on the host", True),
        ("trials that share a GPU", True),
        ("local steps a second", True),
    ]
    assert found[4].detail == "ZeroDivisionError: division by zero"
    assert found[5].detail == within(CPU)[0] == "not measured: cpu is no GPU"
    assert found[-1].table == ({"steps": 1},)


def test_the_table_of_paces_has_every_model_in_both_executions() -> None:
    detail, table = paces(CPU)
    assert detail == "4 models in two executions"
    assert [(row["model"], row["execution"]) for row in table] == [
        (model, execution) for model in MODELS for execution in ("batched", "sequential")
    ]
    assert all(row["steps_per_second"] > 0 for row in table)


@pytest.mark.parametrize("failed", [0, 2])
def test_a_sweep_shares_the_device(monkeypatch: pytest.MonkeyPatch, failed: int) -> None:
    asked: list[Resources] = []
    counts = dict.fromkeys(("trials_finished", "trials_pruned", "trials_diverged"), 2)
    summary = SimpleNamespace(**counts, trials_failed=failed, final_runs=4, seconds=9.0)

    def run(self: SweepRequest, resources: Resources) -> Any:
        asked.append(resources)
        return SimpleNamespace(summary=summary)

    monkeypatch.setattr(SweepRequest, "run", run)
    if failed:
        with pytest.raises(RuntimeError, match="2 trials failed"):
            shared(torch.device("cuda"))
    else:
        said = "6 search trials and 4 final runs in 9 s, 0.25 of a GPU each"
        assert shared(torch.device("cuda"))[0] == said
    assert asked[0].gpus_per_trial == 0.25
