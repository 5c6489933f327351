"""On what a run was computed: recorded, and asked for again when it is repeated."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from suite.runs import single
from suite.tracking.store import Record, Store
from trials.run import trial
from trials.run.spec import Scenario, TrialSpec, canonical
from trials.settings import Settings

CARD = "Example 9000"


def spec(**given: object) -> TrialSpec:
    common = Settings(**{"rounds": 2, "clients": 4, "execution": "batched", **given})
    return canonical("fedavg", {}, Scenario("digits", "logreg", "iid"), common, 0)


@pytest.fixture
def run_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Records a run as one of this device, and says which GPU is at hand from then on."""

    def record(device: str, at_hand: str | None = None, **given: object) -> tuple[Store, str]:
        monkeypatch.setattr(trial, "name_of", lambda _: device)
        run = single.execute(spec(**given), None, "cpu", lambda entry: None)
        run_id = run.record(tmp_path)
        monkeypatch.setattr(single, "look", lambda: ("", [(at_hand, 1)] if at_hand else []))
        return Store(None, tmp_path), run_id

    return record


def again(store: Store, run_id: str) -> single.Replay:
    return single.replay(single.recorded_run(store, run_id), None, lambda entry: None)


@pytest.mark.parametrize(
    ("device", "apart", "differing"),
    [
        ("cpu", 0, 0),
        ("cpu", 1e-9, 1),
        (CARD, 0, 0),
        (CARD, 1e-3, 0),
        (CARD, 0.1, 1),
        (CARD, float("nan"), 1),
    ],
)
def test_every_bit_counts_but_on_another_device(run_on, monkeypatch, device, apart, differing):
    store, run_id = run_on(device)
    assert json.loads(store.get(run_id).tags["ran"])["device"] == device
    curve = Store.curve

    def other(self: Store, record: Record, metrics: Iterable[str]) -> list[dict[str, float]]:
        first, *rest = curve(self, record, metrics)
        return [{**first, "test_loss": first["test_loss"] + apart}, *rest]

    monkeypatch.setattr(Store, "curve", other)
    found = again(store, run_id)
    assert len(found.differences) == differing
    assert (CARD in found.near, found.exact) == (device == CARD, apart == 0 and device != CARD)
