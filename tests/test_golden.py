"""What `benchmarks/golden.py compare` calls a difference, and what of a document it keeps."""

import importlib.util
import json

from tests.support.simulations import ROOT

FILE = ROOT / "benchmarks" / "golden.py"
_spec = importlib.util.spec_from_file_location("golden", FILE)
golden = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(golden)

BOARD = {"cell": "1f3a", "rows": [{"mean": 0.1 + 0.2, "seconds": 3.0, "runs": ["a"]}], "note": "n"}


def test_names_may_change_by_the_table_and_numbers_may_not(monkeypatch):
    monkeypatch.setattr(golden, "RENAMED", {"cell": "scenario"})
    now = {"scenario": "1f3a", "rows": [{"mean": 0.3}]}
    told = list(golden.differences(golden.kept(BOARD), golden.kept(now)))
    assert told == ["rows [0] / mean: recorded 0.30000000000000004, now 0.3"]
    now["rows"][0]["mean"] = 0.1 + 0.2
    assert list(golden.differences(golden.kept(BOARD), golden.kept(now))) == []


def test_what_is_there_on_one_side_alone_is_a_difference():
    told = list(golden.differences({"a": 1, "b": [1, 2]}, {"b": [1], "c": 0}))
    assert told == [
        "a: is missing now",
        "b: recorded [1, 2], now [1]",
        "c: was not recorded before",
    ]


def test_a_digest_is_of_numbers_whatever_their_names_are():
    assert golden.digest({"cell": 1.0, "b": 2.0}) == golden.digest({"scenario": 1.0, "b": 2.0})
    assert golden.digest([1.0, 2.0]) != golden.digest([2.0, 1.0])
    assert golden.digest([0.3]) != golden.digest([0.1 + 0.2])


def test_the_record_is_written_as_it_is_read():
    record = json.loads((ROOT / "benchmarks" / "golden.json").read_text())
    assert set(record) == {"commit", "machine", *golden.PARTS}
    assert json.loads(golden.written(record)) == record
