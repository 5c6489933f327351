"""`suite reproduce` end to end, small: runs once, continues, extends, writes the page."""

import json
from pathlib import Path

import pytest

from reports.claims.judged import Reproduction
from reports.claims.page import page
from suite.reproduction import experiments
from suite.runs.batch import Batch, Job
from tests.support import papers
from tests.support.commands import SINGLY, document, fault, suite_here
from tests.support.oracle import spelled
from tests.support.papers import SMALL


@pytest.fixture(autouse=True)
def toy(tmp_path_factory, monkeypatch):
    """A paper of two runs a seed beside the shipped ones."""
    root = tmp_path_factory.mktemp("spaces")
    text = SMALL.replace(
        "fedprox: {params: {mu: 0.1}}", "fedprox: {search: {mu: [0.001, 0.1, 1.0]}}"
    )
    papers.only(monkeypatch, root, text)
    yield root
    experiments.read_paper.cache_clear()


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("reproduce")


def test_a_run_is_known_by_its_content_in_any_order():
    one, other = (
        spelled().model_copy(update={"params": dict.fromkeys(names, 0.1)})
        for names in (("lr", "mu"), ("mu", "lr"))
    )
    assert Job(one, "a").id == Job(other, "b").id


def test_first_what_can_run(place):
    (row,) = document(suite_here("reproduce", "--list", "--json", cwd=place))
    assert (row["table"], row["runs"]) == ("toy/one", 4 * 5)
    assert (row["rows"], row["rows_that_run_here"], row["not_run"]) == (1, 1, [])
    assert document(suite_here("reproduce", "toy/one", "--list", "--json", cwd=place)) == [row]
    refused = suite_here("reproduce", "toy/two", "--list", "--json", cwd=place, code=2)
    assert "table of toy" in fault(refused)


def test_two_seeds_then_nothing_then_a_third_and_interrupted_what_is_done(place, monkeypatch):
    two = ("toy", "--seeds", 2, *SINGLY)
    synced = []
    with monkeypatch.context() as patched:
        patched.setattr("suite.runs.batch.os.fsync", lambda file: synced.append(file))
        first = document(suite_here("reproduce", *two, "--json", "--output", "out", cwd=place))
    assert len(synced) == 8, "each run's line, before the next begins"
    (row,) = first["rows"]
    assert sum(first["verdicts"].values()) == 3
    assert (row["runs"], row["seeds"], row["reduced"]) == (8, 2, [])
    tuned = [s for s in row["settings"] if s["name"] == "mu"]
    assert [s["chosen_because"] for s in tuned] == ["the best of 0.001, 0.1, 1"]
    found = {(n["method"], n["metric"]): n for n in row["numbers"]}
    fedavg = found["fedavg", "test_accuracy"]
    assert fedavg["published"] == "90"
    assert set(fedavg["by_seed"]) == {"0", "1"}

    again = suite_here("reproduce", *two, "--json", cwd=place)
    assert document(again)["rows"] == first["rows"]
    assert again.stderr == "", "nothing was run"

    results = place / "runs" / "reproduce" / "runs.jsonl"
    *whole, last = results.read_text().splitlines(keepends=True)
    results.write_text("".join([*whole, last[:9]]))
    more = document(suite_here("reproduce", "toy", "--seeds", 3, *SINGLY, "--json", cwd=place))
    assert len(Batch(results.parent).done) == 12, "one whose line a crash tore is run again"
    assert more["rows"][0]["numbers"][0]["by_seed"].items() >= fedavg["by_seed"].items()

    written = json.loads((place / "out" / "toy.json").read_text())
    assert written == first
    text = (place / "out" / "toy.md").read_text()
    assert text == page(Reproduction.model_validate(first))
    assert "| fedavg | test_accuracy | 90 |" in text

    monkeypatch.setattr(Batch, "run", lambda *args: (0, True))
    cut = suite_here("reproduce", "toy", "--seeds", 4, "--json", cwd=place, code=130)
    (row,) = document(cut)["rows"]
    assert (row["seeds"], row["runs"], row["note"]) == (4, 12, "4 runs are missing")
    assert row["numbers"][0]["seeds"] == 3
    assert "continues" in cut.stderr
    args = ("--set", "momentum=0.5", "--json")
    (row,) = document(suite_here("reproduce", "toy", *args, cwd=place, code=130))["rows"]
    assert row["runs"] == 0, "other settings are other runs"
    (chosen,) = [s for s in row["settings"] if s["name"] == "momentum"]
    assert (chosen["value"], chosen["chosen_because"][:5]) == (0.5, "--set")


def test_a_paper_of_a_file_has_the_same_runs(place, toy, tmp_path):
    """At most so many rounds are run, which is said; the summary of its documents counts it too."""
    (tmp_path / "mine.yaml").write_text((toy / "papers" / "toy.yaml").read_text())
    short = ("--rounds", 2, "--seeds", 1, *SINGLY, "--output", "out", "--json")
    found = document(suite_here("reproduce", f"{tmp_path}/mine.yaml/one", *short, cwd=place))
    (row,) = found["rows"]
    assert row["reduced"] == ["2 rounds instead of 5"]
    assert {number["reason"] for number in row["numbers"]} == {"cut at round 2 of 5"}
    assert json.loads((place / "out" / "mine-one.json").read_text()) == found
    summed = ("reproduce", f"{tmp_path}/mine.yaml", "--summary", "out", "--json")
    (paper,) = document(suite_here(*summed, cwd=place))
    assert [entry["says"] for entry in paper["entries"]] == ["", "", "alike"]
    assert "mine-one.json" in paper["documents"]


def test_missing_data_is_said(place, toy, monkeypatch, tmp_path):
    monkeypatch.setenv("SUITE_DATA", str(tmp_path))
    text = SMALL.replace("digits", "mnist")
    (toy / "papers" / "toy.yaml").write_text(text)
    found = document(suite_here("reproduce", "toy", "--seeds", 1, "--json", cwd=place))
    assert {n["reason"] for n in found["rows"][0]["numbers"]} == {"no data: mnist"}
