"""`suite reproduce` end to end, small: runs once, continues, extends, writes the page."""

import json
from dataclasses import replace
from importlib.resources import files as package_files
from pathlib import Path

import pytest

from reports.claims.page import page
from reports.claims.verdicts import VERDICTS
from suite.reproduction import experiments
from suite.reproduction.experiments import Decision
from suite.reproduction.plan import Effort, plan_of, reductions
from suite.runs.batch import Batch
from tests.support import papers
from tests.support.commands import SINGLY, document, fault, records, suite_here
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


def test_first_what_it_would_cost(place):
    (row,) = document(suite_here("reproduce", "--list", "--json", cwd=place))
    assert (row["table"], row["runs"], row["numbers"]) == ("toy/one", 4 * 5, 2)
    assert 0 < row["minutes"] + 0.1 < 10
    calibration = json.loads((place / "runs" / "calibration.json").read_text())
    assert all(0 < seconds < 1 for seconds in calibration.values())
    assert document(suite_here("reproduce", "toy/one", "--list", "--json", cwd=place)) == [row]
    assert "table of toy" in fault(
        suite_here("reproduce", "toy/two", "--list", "--json", cwd=place, code=2)
    )


def test_two_seeds_then_nothing_then_a_third_and_interrupted_what_is_done(place, monkeypatch):
    two = ("toy", "--seeds", 2, *SINGLY)
    first = document(suite_here("reproduce", *two, "--json", "--output", "out", cwd=place))
    (row,) = first["rows"]
    assert sum(first["verdicts"].values()) == 3
    assert set(first["verdicts"]) == set(VERDICTS)
    assert (row["runs"], row["seeds"], row["reduced"]) == (8, 2, [])
    tuned = [s for s in row["settings"] if s["name"] == "mu"]
    assert [s["chosen_because"] for s in tuned] == ["the best of 0.001, 0.1, 1"]
    found = {(n["method"], n["metric"]): n for n in row["numbers"]}
    fedavg = found["fedavg", "test_accuracy"]
    assert fedavg["published"] == "90"
    assert fedavg["difference"] == pytest.approx(fedavg["measured"] - 90)
    assert set(fedavg["by_seed"]) == {"0", "1"}

    runs = records(place, kind="reproduce")
    assert len(runs) == 8
    assert {r.status for r in runs} == {"FINISHED"}
    assert {r.tags["claim"] for r in runs} == {"toy/one/iid"}
    final = {
        r.tags["seed"]: r.metrics["test_accuracy"] for r in runs if r.tags["method"] == "fedavg"
    }
    assert {s: 100 * v for s, v in final.items()} == pytest.approx(fedavg["by_seed"])

    before = {r.run_id for r in runs}
    again = suite_here("reproduce", *two, "--json", cwd=place)
    assert document(again)["rows"] == first["rows"]
    assert again.stderr == "", "nothing was run"

    results = place / "runs" / "reproduce" / "runs.jsonl"
    *whole, begun, last = results.read_text().splitlines(keepends=True)
    half_written = json.loads(begun)["run_id"]
    results.write_text("".join([*whole, begun, last[:9]]))
    more = document(suite_here("reproduce", "toy", "--seeds", 3, *SINGLY, "--json", cwd=place))
    after = {r.run_id for r in records(place, kind="reproduce")}
    assert before - after == {half_written}, "one that a crash left half-written is recorded anew"
    assert len(after) == 12
    assert more["rows"][0]["numbers"][0]["by_seed"].items() >= fedavg["by_seed"].items()

    written = json.loads((place / "out" / "toy.json").read_text())
    assert written == first
    text = (place / "out" / "toy.md").read_text()
    assert text == page(first)
    for shown in (
        "suite reproduce toy --seeds 2",
        "| fedavg | test_accuracy | 90 % |",
        "momentum = 0: not stated",
        "lr = 0.1",
        "**reproduced**",
    ):
        assert shown in text

    monkeypatch.setattr(Batch, "run", lambda *args: (0, True))
    cut = suite_here("reproduce", "toy", "--seeds", 4, "--json", cwd=place, code=130)
    (row,) = document(cut)["rows"]
    assert (row["seeds"], row["runs"], row["note"]) == (4, 12, "4 runs are missing")
    assert row["numbers"][0]["seeds"] == 3
    assert cut.stderr.splitlines()[-1] == (
        "Interrupted: this is what is done. The same command continues."
    )
    args = ("--set", "momentum=0.5", "--json")
    (row,) = document(suite_here("reproduce", "toy", *args, cwd=place, code=130))["rows"]
    assert row["runs"] == 0, "other settings are other runs"
    (chosen,) = [s for s in row["settings"] if s["name"] == "momentum"]
    assert (chosen["value"], chosen["chosen_because"][:5]) == (0.5, "--set")


def test_a_summary_counts_what_has_a_verdict(place, tmp_path):
    """After the runs above: two numbers are printed, both have a verdict; the statement has one."""
    two = ("toy", "--seeds", 2, *SINGLY)
    suite_here("reproduce", *two, "--output", "out", cwd=place)
    done = suite_here("reproduce", "--summary", "out", "--output", tmp_path, "--json", cwd=place)
    (paper,) = document(done)["papers"]
    assert (paper["numbers"], paper["feasible"], paper["judged"]) == (2, 2, 2)
    assert sum(paper["verdicts"].values()) == 2
    (claim,) = paper["claims"]
    assert (claim["says"], claim["table"]) == ("alike", "one")
    assert {d["method"]: d["published"] for d in paper["dots"]} == {
        "fedavg": "90",
        "fedprox": "> 80",
    }
    assert "| all | 2 | 2 | 2 | 1 | 1 | 1 | " in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "toy.md").read_text() == (place / "out" / "toy.md").read_text()
    assert "made by suite-fl" in (tmp_path / "summary.svg").read_text()


def test_seeds_are_added_once_where_verdicts_need_them_and_the_budget_has_them(place):
    """Of two seeds only the difference of two methods on the same seeds is near enough to be said."""
    first = document(suite_here("reproduce", "toy", "--seeds", 2, *SINGLY, "--json", cwd=place))
    (row,) = first["rows"]
    needed = [one["seeds_needed"] for one in (*row["numbers"], *row["claims"])]
    least = min(n for n in needed if n)
    for most in (least - 1, least):
        until = ("reproduce", "toy", "--seeds", 2, "--until-said", most, *SINGLY, "--json")
        found = document(suite_here(*until, cwd=place))
        assert found["rows"][0]["seeds"] == (2 if most < least else least)
        assert f"--until-said {most}" in found["command"]


def test_quick_says_what_it_leaves_out():
    known = experiments.read_paper("toy")
    made = experiments.experiment(known, "toy", "one", "iid")
    assert made is not None
    plan = plan_of(known, made, Effort(seeds=2, rounds=2, quick=True))
    assert (plan.rounds, len(plan.jobs)) == (2, 4)
    assert reductions(plan) == ["2 rounds instead of 5", "fedprox: 1 of 3 searched values"]
    assert {job.spec.params.get("mu") for job in plan.jobs.values()} == {None, 0.1}
    long = replace(
        made,
        methods={
            "fedavg": replace(
                made.methods["fedavg"],
                decisions={**made.methods["fedavg"].decisions, "rounds": Decision(200, None)},
            )
        },
    )
    assert plan_of(known, long, Effort(quick=True)).rounds == 40
    assert plan_of(known, long, Effort()).rounds == 200


def test_too_long_is_not_run(place):
    found = document(suite_here("reproduce", "toy", "--max-minutes", 0, "--json", cwd=place))
    assert found["rows"][0]["runs"] == 0
    assert "--max-minutes 0" in found["rows"][0]["note"]


def test_bad_input_starts_nothing(tmp_path):
    done = suite_here("reproduce", "toi", cwd=tmp_path, code=2)
    assert fault(done) == "unknown paper 'toi'. Did you mean 'toy'?"
    done = suite_here("reproduce", "toy", "--set", "momentum=2", cwd=tmp_path, code=2)
    assert "toy/one/iid, fedavg: momentum = 2: must be less than 1" in fault(done)
    assert not (tmp_path / "runs").exists()


def test_missing_data_is_said(place, toy, monkeypatch, tmp_path):
    monkeypatch.setenv("SUITE_DATA", str(tmp_path))
    text = SMALL.replace("digits", "mnist").replace("[1, 8, 8]", "[1, 28, 28]")
    (toy / "papers" / "toy.yaml").write_text(text)
    found = document(suite_here("reproduce", "toy", "--seeds", 1, "--json", cwd=place))
    assert {n["reason"] for n in found["rows"][0]["numbers"]} == {"no data: mnist"}


def test_the_shipped_files_are_in_the_package():
    assert (package_files("search_spaces") / "papers" / "folb.yaml").is_file()
