"""What a row would cost: samples by hand, times what was measured; measured once, and kept."""

import json
from pathlib import Path

import pytest

from suite.reproduction import costs
from suite.reproduction.experiments import parse_paper
from suite.reproduction.paper import Paper
from tests.support.papers import SMALL, toy
from trials.common.machine import usable_cpus

KEY = "logreg|1x8x8|10|10"


def paper() -> Paper:
    """The file of `SMALL`."""
    return parse_paper(SMALL, "toy.yaml")


def test_a_row_costs_its_samples(tmp_path: Path):
    """A round: 5 of 10 clients train on 143.7 samples each, and 360 are tested; 3 + 1 runs of 7 rounds."""
    kept = {f"{KEY}|train": 1e-3, f"{KEY}|test": 1e-4}
    (tmp_path / "calibration.json").write_text(json.dumps(kept))
    found = costs.Costs(tmp_path).minutes(paper(), toy(SMALL), {"fedavg": 3, "fedprox": 1}, 7)
    expected = 4 * 7 * (5 * 143.7 * 1e-3 + 360 * 1e-4) / 60 / usable_cpus()
    assert found == pytest.approx(expected)


def test_a_model_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = []

    def measure(*args: object) -> tuple[float, float]:
        calls.append(args)
        return 1e-3, 1e-4

    monkeypatch.setattr(costs, "_measure", measure)
    runs = {"fedavg": 1, "fedprox": 1}
    first = costs.Costs(tmp_path).minutes(paper(), toy(SMALL), runs, 5)
    assert costs.Costs(tmp_path).minutes(paper(), toy(SMALL), runs, 5) == first
    assert len(calls) == 1
    kept = json.loads((tmp_path / "calibration.json").read_text())
    assert kept == {f"{KEY}|train": 1e-3, f"{KEY}|test": 1e-4}
