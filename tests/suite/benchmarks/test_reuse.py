"""What a short search is worth: its comparison by hand, and a unit that is cut and goes on."""

import json
import time

import numpy as np
import pytest
from scipy import stats

import reuse

TWO = {"a": True, "b": False}


def write(folder, arm, scenario, method, seed, test, seconds=1.0):
    row = {
        "scenario": scenario,
        "linear": TWO[scenario],
        "method": method,
        "arm": arm,
        "seed": seed,
    }
    row |= {"test": test, "params": {}, "origin": "default", "runs": 8, "seconds": seconds}
    (folder / f"result-{arm}-{scenario}-{method}-{seed}.json").write_text(json.dumps(row))


def test_differences_are_clustered_by_scenario(tmp_path):
    """In points: a +1 and +3, so 2; b -8 and, without the reference's second search, nothing. The mean is -3."""
    for scenario, method, seed, gap in [
        ("a", "m", 0, 0.01),
        ("a", "n", 0, 0.03),
        ("b", "m", 0, -0.08),
    ]:
        write(tmp_path, "line 8", scenario, method, seed, 0.5 + gap)
        write(tmp_path, reuse.REFERENCE, scenario, method, seed, 0.5, seconds=4.0)
    write(tmp_path, "line 8", "b", "m", 1, 0.9)
    rows = {(row["scenarios"], row["arm"]): row for row in reuse.compared(reuse.results(tmp_path))}
    row = rows["all", "line 8"]
    error = np.std([2, -8], ddof=1) / 2**0.5
    assert (row["points"], row["error"]) == pytest.approx((-3, error))
    assert row["low"] == pytest.approx(-3 - stats.t.ppf(0.95, 1) * error)
    assert row["clipped"] == pytest.approx((2 - 5) / 2)
    assert (row["worst"], row["worst_pair"], row["behind_by_5"]) == (pytest.approx(-8), "b m", 1)
    assert (row["count"], row["pairs"], row["searches"], row["time"]) == (2, 3, 3, 0.25)
    assert rows["non-linear", "line 8"]["points"] == pytest.approx(-8)


def test_any_beginning_of_the_work_has_all_scenarios_and_methods_alike():
    first = list(reuse.units())[: len(reuse.PLACES) * 2]
    names = [place.name for _, place, _ in first]
    assert {names.count(place.name) for place in reuse.PLACES} == {2}
    counts = [sum(method == name for *_, method in first) for name in reuse.METHODS]
    assert max(counts) - min(counts) <= 1
    assert len(list(reuse.units())) == 2 * len(reuse.PLACES) * len(reuse.METHODS)


def test_a_unit_that_is_cut_goes_on_and_runs_nothing_twice(tmp_path, monkeypatch):
    settings = {"rounds": 2, "clients": 4, "participation": 1.0, "batch_size": 64}
    place = reuse.Place("digits", "logreg", "iid", settings)
    monkeypatch.setattr(reuse, "PLACES", (place,))
    monkeypatch.setattr(reuse, "ARMS", {"random 32": {"sampler": "random", "trials": 3}})
    unit = (0, place, "fedavg", tmp_path)
    assert reuse._unit(*unit, time.time()) == "the time is over"
    assert reuse._unit(*unit, time.time() + 60) == "fedavg in digits logreg iid, search 0"
    (runs,) = tmp_path.glob("runs-*.jsonl")
    lines = runs.read_text().splitlines()
    assert len(lines) == 3 + reuse.JUDGES
    (result,) = tmp_path.glob("result-*.json")
    before = json.loads(result.read_text())
    result.unlink()
    runs.write_text("\n".join(lines[:5]) + "\n" + lines[5][:40])
    reuse._unit(*unit, time.time() + 60)
    after = json.loads(result.read_text())
    assert {k: before[k] for k in ("test", "params")} == {k: after[k] for k in ("test", "params")}
