"""On what a run was computed: recorded, and asked for again when it is repeated."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from suite.cli.app import app
from suite.runs import single
from suite.tracking.store import Record, Store
from trials.common.device import computes, name_of
from trials.run import trial
from trials.run.saved_model import SavedModel
from trials.run.spec import Scenario, TrialSpec, canonical
from trials.run.trial import run
from trials.settings import Settings

CARD = "Example 9000"


def spec(**given: object) -> TrialSpec:
    common = Settings(**{"rounds": 2, "clients": 4, "execution": "batched", **given})
    return canonical("fedavg", {}, Scenario("digits", "logreg", "iid"), common, 0)


@pytest.fixture
def run_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Records a run as one of this device, and says which GPU is at hand from then on."""

    def record(device: str, at_hand: str | None = None, **given: object) -> tuple[Store, str]:
        for module in (single, trial):
            monkeypatch.setattr(module, "name_of", lambda _: device)
        run = single.execute(spec(**given), None, "cpu", lambda entry: None)
        run_id = single.Recording(None, tmp_path).record(run)
        monkeypatch.setattr(single, "look", lambda: ("", [(at_hand, 1)] if at_hand else []))
        return Store(None, tmp_path), run_id

    return record


def again(store: Store, run_id: str) -> single.Replay:
    return single.replay(single.RecordedRun.run(store, run_id), None, lambda entry: None)


def test_a_device_is_recorded(run_on):
    store, run_id = run_on(CARD)
    assert json.loads(store.get(run_id).tags["ran"])["device"] == CARD
    assert name_of(torch.device("cpu")) == "cpu"


def test_on_the_device_of_the_record_every_bit_counts(run_on):
    found = again(*run_on("cpu", at_hand=CARD))
    assert (found.differences, found.near) == ([], "")


def test_the_card_of_the_record_is_used(run_on, monkeypatch):
    """Where it is at hand; any bit counts there."""
    store, run_id = run_on(CARD, at_hand=CARD)
    asked = []
    execute = single.execute
    monkeypatch.setattr(
        single,
        "execute",
        lambda spec, root, device, *rest, **more: (
            asked.append(device) or execute(spec, root, "cpu", *rest, **more)
        ),
    )
    assert again(store, run_id).near == ""
    assert asked == ["cuda"]


def test_another_device_agrees_to_rounding(run_on):
    found = again(*run_on(CARD))
    assert found.differences == []
    assert found.near == (
        f"computed on {CARD}, repeated on cpu: other devices agree only to rounding"
    )


@pytest.mark.parametrize(("apart", "said"), [(1e-3, 0), (0.1, 1), (float("nan"), 1)])
def test_what_is_more_than_rounding_is_said(run_on, monkeypatch, apart, said):
    store, run_id = run_on(CARD)
    curve = Store.curve

    def other(self: Store, record: Record, metrics: Iterable[str]) -> list[dict[str, float]]:
        first, *rest = curve(self, record, metrics)
        return [{**first, "test_loss": first["test_loss"] + apart}, *rest]

    monkeypatch.setattr(Store, "curve", other)
    assert len(again(store, run_id).differences) == said


def test_the_command_says_so(run_on, tmp_path):
    _, run_id = run_on(CARD)
    done = CliRunner().invoke(app, ["replay", run_id, "--storage", str(tmp_path)])
    assert done.exit_code == 0
    near = f"computed on {CARD}, repeated on cpu: other devices agree only to rounding"
    assert done.stderr.splitlines()[-1] == near
    assert done.stdout.startswith("equal up to rounding: ")
    assert run_id in done.stdout


# Precision


@pytest.fixture
def restored() -> Iterator[None]:
    """What holds for a whole process is put back."""
    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32, products.allow_tf32
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True
    cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32, products.allow_tf32 = before


@pytest.mark.parametrize(
    ("dtype", "rounded"), [("float32", False), ("tf32", True), ("bf16", False)]
)
def test_a_gpu_is_to_repeat_bits(restored, monkeypatch, dtype, rounded):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    computes(torch.device("cuda"), dtype)
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark
    assert torch.backends.cudnn.allow_tf32 == torch.backends.cuda.matmul.allow_tf32 == rounded


def test_nothing_is_set_for_a_cpu():
    computes(torch.device("cpu"), "tf32")
    assert not torch.are_deterministic_algorithms_enabled()


def test_whatever_computes_on_a_device_prepares_it(monkeypatch):
    """A trial and a saved model's scores alike."""
    prepared = []
    monkeypatch.setattr("trials.engine.federation.computes", lambda *given: prepared.append(given))
    cpu = torch.device("cpu")
    simulation, _ = run(spec(dtype="tf32"))
    SavedModel.of(spec(dtype="tf32"), simulation).score()
    assert prepared == [(cpu, "tf32"), (cpu, "tf32")]


def test_tf32_is_float32_on_a_cpu():
    runs = [
        single.execute(spec(dtype=dtype), None, "cpu", lambda entry: None)
        for dtype in ("float32", "tf32")
    ]
    one, other = (run.simulation.state["w"] for run in runs)
    assert one.dtype == torch.float32
    assert torch.equal(one, other)
