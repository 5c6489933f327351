"""`suite reproduce --readings` end to end, on papers made up from a known reading of themselves."""

import json
import math
from pathlib import Path
from statistics import fmean

import pytest

from reports.claims.readings_page import readings_page
from suite.reproduction import experiments, paper
from suite.reproduction.experiments import parse_paper
from suite.runs.batch import Batch
from tests.support.commands import SINGLY, document, records, suite_here
from trials.run.scenario import Scenario
from trials.run.spec import canonical
from trials.run.trial import run
from trials.settings import Settings

MADE_UP = """
paper: FOLB
cites: nobody
frozen: {frozen}
data: {{digits: {{samples: 1437, test: 360, shape: [1, 8, 8], classes: 10}}}}
settings: {{clients: 10, participation: 1.0, batch_size: 10, local_epochs: 1, rounds: 6}}
chosen:
  selection: [without_replacement, not stated]
  lr_decay: [1.0, not stated]
  weight_decay: [0.0, not stated]
  clip_norm: [null, not stated]
  loss: [cross_entropy, not stated]
  init: [zeros, not stated]
  partition_seed: [0, "one for all runs, so that few seeds can say something"]
  aggregation: [samples, not stated]
  momentum: [0.0, not stated]
  lr: [0.002, not stated]
open:
  rate: {{values: [[{{lr: 0.002}}, small], [{{lr: 0.05}}, large, {says}]]}}
  momentum: {{values: [[0.0, plain], [0.9, usual]]}}
  weighting: {{of: own, values: [[{{aggregation: samples}}, one], [{{aggregation: plain}}, other]]}}
tables:
  one:
    source: Table 1
    about: a toy
    methods:
      fedavg: {{}}
      fedprox: {{params: {{mu: 0.1}}}}
      folb: {{params: {{mu: 0.1, variant: plain}}}}
    rows:
      iid:
        dataset: digits
        model: logreg
        heterogeneity: iid
        numbers:
          test_accuracy: {{fedavg: {fedavg}, fedprox: {fedprox}, folb: {folb}}}
          test_loss: {{fedavg: {loss}}}
    claims:
      - {{says: FOLB is {ahead} points from FedAvg, metric: test_accuracy, of: folb, is: "~", to: fedavg, by: {ahead}}}
      - {{says: FOLB is far better, metric: test_accuracy, of: folb, is: ">", to: fedavg, by: 60}}
"""
pytestmark = pytest.mark.usefixtures("in_this_process")
SEEDS = 3
KNOWN, OTHER = {"lr": 0.05, "momentum": 0.9}, {"lr": 0.002, "momentum": 0.0}


def told(of: dict[str, float]) -> dict[str, float]:
    """What a paper that ran a reading would print: means over three seeds."""
    found: dict[str, float] = {}
    place = Scenario("digits", "logreg", "iid")
    common = {"rounds": 6, "clients": 10, "batch_size": 10, "eval_every": 1, "val_fraction": 0.0}
    common |= {"participation": 1.0, "init": "zeros"}
    params = {"fedavg": {}, "fedprox": {"mu": 0.1}, "folb": {"mu": 0.1, "variant": "plain"}}
    for method, given in params.items():
        histories = []
        for seed in range(SEEDS):
            settings = Settings(**common, momentum=of["momentum"], partition_seed=0)
            spec = canonical(method, {"lr": of["lr"], **given}, place, settings, seed)
            histories.append(run(spec)[0].history)
        found[method] = fmean(100 * h[-1]["test_accuracy"] for h in histories)
        if method == "fedavg":
            found["loss"] = fmean(h[-1]["test_loss"] for h in histories)
    found["ahead"] = found["folb"] - found["fedavg"]
    return {name: round(value, 2) for name, value in found.items()}


@pytest.fixture
def write(tmp_path, monkeypatch):
    root = tmp_path / "spaces"
    (root / "papers").mkdir(parents=True)
    for module in (experiments, paper):
        monkeypatch.setattr(module, "files", lambda package: root)

    def put(says: str = "ours", frozen: str | None = None, **numbers: float) -> None:
        experiments.read_paper.cache_clear()
        facts = {**numbers, "says": says}
        known = parse_paper(MADE_UP.format(**facts, frozen="~"), "toy.yaml").candidates_hash
        text = MADE_UP.format(**facts, frozen=f"'{frozen or known}'")
        (root / "papers" / "toy.yaml").write_text(text)

    yield put
    experiments.read_paper.cache_clear()


ARGS = ("reproduce", "toy", "--readings", "--seeds", SEEDS, *SINGLY, "--json")


def test_it_finds_the_reading_that_made_the_numbers_and_judges_under_all_of_them(
    write, tmp_path, monkeypatch
):
    write(**told(KNOWN))
    whole = Batch.run
    monkeypatch.setattr(
        Batch, "run", lambda self, jobs, *rest: (whole(self, jobs[:5], *rest)[0], True)
    )
    cut = suite_here(*ARGS, cwd=tmp_path, code=130)
    (row,) = document(cut)["rows"]
    assert len(records(tmp_path, kind="reading")) == 5
    assert {one["answer"]["verdict"] for one in row["judged"]} == {"not run"}
    monkeypatch.setattr(Batch, "run", whole)

    before = {r.run_id for r in records(tmp_path, kind="reading")}
    found = document(suite_here(*ARGS, "--output", "out", cwd=tmp_path))
    assert before < {r.run_id for r in records(tmp_path, kind="reading")}, "it continues"
    (row,) = found["rows"]
    assert row["screened"] == 8
    left = [r for r in row["readings"] if r["left"]]
    known = {"rate": {"lr": 0.05}, "momentum": 0.9}
    assert sorted((r["values"] for r in left), key=str) == [
        {**known, "weighting": {"aggregation": w}} for w in ("plain", "samples")
    ], "two, for the paper's own weighting is nothing that its baselines tell"
    assert row["left"] == sorted(r["number"] for r in left)
    assert all(one["off"] < 0.1 for one in left[0]["compared"])
    verdicts = [one["answer"]["verdict"] for one in row["judged"]]
    assert verdicts == ["likely", "unlikely"], "near FedAvg; far better"
    assert found["verdicts"]["likely"] == 1

    one = ("--reading", "rate=0.05", "--reading", "momentum=0.9")
    alone = document(suite_here("reproduce", "toy", "--seeds", SEEDS, *one, "--json", cwd=tmp_path))
    assert not records(tmp_path, kind="reproduce"), "the same runs are not made again"
    verdicts = [number["verdict"] for number in alone["rows"][0]["numbers"]]
    assert verdicts == ["reproduced"] * 4

    written = json.loads((tmp_path / "out" / "toy-readings.json").read_text())
    assert written == found
    text = (tmp_path / "out" / "toy-readings.md").read_text()
    assert text == readings_page(found)
    numbers = ", ".join(map(str, row["left"]))
    assert f"**2 of 8 readings are left: {numbers}.**" in text
    shown = [line for line in text.splitlines() if line.startswith(("| **", "| "))]
    listed = [line.split(" | ")[0].strip("|* ").split(", ") for line in shown]
    numbered = [int(one) for some in listed if some[0].isdigit() for one in some]
    assert sorted(numbered) == list(range(1, 9)), "all readings, also where several share a line"


def test_numbers_that_no_reading_gives_leave_none(write, tmp_path):
    write(fedavg=33.3, fedprox=71.7, folb=12.3, loss=50, ahead=5)
    found = document(suite_here(*ARGS, cwd=tmp_path))
    (row,) = found["rows"]
    assert row["left"] == []
    assert [one["answer"]["verdict"] for one in row["judged"]] == ["undecided"] * 2
    best = min(row["readings"], key=lambda r: (-r["p"], r["misfit"], r["number"]))
    assert row["best"] == best["number"]
    assert f"0 of 8 readings are left (nearest: reading {row['best']}, " in readings_page(found)
    assert not [r for r in records(tmp_path, kind="reading") if r.tags["method"] == "folb"]
    assert math.isfinite(best["misfit"])


def test_the_nearest_of_the_readings_that_are_left_weigh_most(write, tmp_path):
    """FOLB is never far ahead."""
    write(**told(OTHER) | {"ahead": 20})
    (row,) = document(suite_here(*ARGS, cwd=tmp_path))["rows"]
    left = [r for r in row["readings"] if r["left"]]
    assert [(r["values"]["rate"], r["values"]["momentum"]) for r in left] == [
        *[({"lr": 0.002}, 0.0)] * 2,
        *[({"lr": 0.002}, 0.9)] * 2,
    ], "with momentum each number is about half a tolerance off"
    assert left[0]["weight"] > 2 * left[2]["weight"]
    verdicts = [one["answer"]["verdict"] for one in row["judged"]]
    assert verdicts == ["unlikely"] * 2


def test_a_late_candidate_and_one_against_the_text_judge_nothing(write, tmp_path):
    """The reading that made the numbers takes a rate that was added late: it is shown apart, and no other is left."""
    write(**told(KNOWN), says="late")
    found = document(suite_here(*ARGS, cwd=tmp_path))
    (row,), (table,) = found["rows"], found["tables"]
    apart = [r for r in row["readings"] if r["apart"]]
    assert {r["values"]["rate"]["lr"] for r in apart} == {0.05}
    assert max(r["p"] for r in apart) > 0.9
    assert not any(r["weight"] for r in apart)
    assert (table["readings"], table["judging"], table["left"], row["left"]) == (4, 2, 0, [])
    assert {one["answer"]["verdict"] for one in row["judged"]} == {"undecided"}
    assert not [r for r in records(tmp_path, kind="reading") if r.tags["method"] == "folb"]


def test_candidates_are_frozen_before_the_paper_s_own_method_runs(write, tmp_path):
    write(**told(KNOWN), frozen="0123456789ab")
    said = suite_here(*ARGS, cwd=tmp_path, code=2).stderr
    assert said.startswith("error: toy: its candidates have the hash ")
    assert "its file says frozen: 0123456789ab; write the hash before any run" in said
    assert not records(tmp_path, kind="reading")


def test_the_hash_is_of_values_and_who_says_so_and_of_no_late_candidate():
    def known(*changes: tuple[str, str]) -> str:
        numbers = dict.fromkeys(("fedavg", "fedprox", "folb", "loss", "ahead"), 1)
        text = MADE_UP.format(**numbers, frozen="~", says="ours")
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        return parse_paper(text, "toy.yaml").candidates_hash

    late = ("[0.9, usual]]", "[0.9, usual], [0.5, half, late]]")
    assert known() == known(("[0.0, plain]", "[0.0, none at all]")) == known(late)
    assert (
        len(
            {
                known(),
                known(("[0.9, usual]", "[0.8, usual]")),
                known(("[0.9, usual]", "[0.9, usual, paper]")),
            }
        )
        == 3
    )


def test_one_seed_says_nothing_of_the_spread(write, tmp_path):
    write(**told(KNOWN))
    alone = ("reproduce", "toy", "--readings", "--seeds", 1)
    said = suite_here(*alone, cwd=tmp_path, code=2).stderr
    assert (
        said
        == "error: --readings needs --seeds of at least 2: with one nothing is known of the spread\n"
    )


def test_time_is_up_before_all_was_screened(write, tmp_path):
    write(**told(KNOWN))
    (row,) = document(suite_here(*ARGS, "--minutes", 0, cwd=tmp_path))["rows"]
    assert (row["screened"], row["note"]) == (0, "8 of 8 readings were not screened")
    assert {one["answer"]["verdict"] for one in row["judged"]} == {"not run"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--minutes", 5),
            "error: --minutes bounds --readings; --max-minutes leaves out long rows\n",
        ),
        (
            ("--readings", "--quick"),
            "error: --readings goes with --minutes, not with --max-minutes, --quick or --until-said\n",
        ),
    ],
)
def test_options_that_do_not_go_together(options, said, tmp_path):
    assert suite_here("reproduce", "folb", *options, cwd=tmp_path, code=2).stderr == said
    assert not list(Path(tmp_path).iterdir())
