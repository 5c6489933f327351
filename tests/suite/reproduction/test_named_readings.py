"""`--reading`: one of the declared readings, by its number or by what it takes."""

from dataclasses import replace
from pathlib import Path

import pytest

from suite.reproduction import experiments, paper
from suite.reproduction.named_readings import under_reading
from suite.reproduction.readings import read, readings
from tests.support.commands import SINGLY, document, fault, records, suite_here
from tests.support.papers import SMALL, opened
from trials.common.errors import UserError


def test_nothing_is_the_default_reading():
    made = opened()
    assert under_reading([made], []) == [made]
    assert under_reading([made], ["1"]) == [made]


def test_a_number_is_the_one_on_the_page_of_all_readings():
    made = opened()
    assert under_reading([made], ["7"]) == [read(made, readings(made)[6])]


def test_values_name_candidates_and_the_rest_stays():
    """By what a candidate sets, in any spelling; by the open setting; of a candidate with two values by one."""
    made = opened()
    given = ["heterogeneity=iid + system(epochs = 1..3)", "unit=iid+system(epochs=1..3)"]
    for text in given:
        (changed,) = under_reading([made], [text, "momentum=0.9", "data_seed=7"])
        fedavg = changed.methods["fedavg"]
        assert fedavg.scenario.heterogeneity == "iid+system(epochs=1..3)"
        assert fedavg.value("momentum") == 0.9
        assert fedavg.decisions["momentum"].why == "third"
        assert fedavg.value("partition_seed") == 7, "with the draw comes the partition"
        assert fedavg.readings == ("heterogeneity = iid+system(epochs=1..3): other",)
        assert (fedavg.value("aggregation"), fedavg.value("scored")) == ("samples", "last")


def test_a_row_in_which_it_is_not_open_stays_as_chosen():
    made = opened()
    closed = replace(made, open={})
    assert under_reading([closed, made], ["momentum=0.5"])[0] == closed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["0"], "--reading 0: toy/one/iid has readings 1 to 48"),
        (["49"], "--reading 49: toy/one/iid has readings 1 to 48"),
        (["momentun=0.5"], "unknown open setting 'momentun'. Did you mean 'momentum'?"),
        (["momentum=0.6"], "--reading momentum=0.6: the candidates of momentum are 0.0, 0.5, 0.9"),
        (
            ["partition_seed=per seed", "data_seed=7"],
            "--reading partition_seed=per seed, data_seed=7: no candidates of 'draw' in toy/one/iid match",
        ),
        (["momentum"], "reproduce: 1 fault, nothing was started\n  --reading = 'momentum': must be KEY=VALUE"),
    ],
)  # fmt: skip
def test_what_is_not_declared_is_refused(given, message):
    with pytest.raises(UserError) as refused:
        under_reading([opened()], given)
    assert str(refused.value) == message


def test_where_nothing_is_open():
    with pytest.raises(UserError) as refused:
        under_reading([replace(opened(), open={})], ["lr=0.5"])
    assert str(refused.value) == "--reading lr=0.5: no open setting is declared there"


def test_a_number_needs_one_row():
    made = opened()
    with pytest.raises(UserError) as refused:
        under_reading([made, replace(made, row="other")], ["3"])
    assert str(refused.value) == (
        "--reading 3: readings are numbered by row, and 2 rows are selected; name one, such as toy/one/iid"
    )


DEFED = (
    SMALL.replace("fedprox: {params: {mu: 0.1}}", "defed: {params: {topology: ring(2), grad_scale: one}}")
    .replace('fedprox: "> 80"', "defed: 80")
    .replace("of: fedprox", "of: defed")
    .replace("    rows:\n", """    open:
      model:
        of: [defed]
        values: [[{scored_model: ranked}, one], [{scored_model: average}, other]]
      scored: {values: [[last, one], [best, other]]}
    rows:
""", 1)
)  # fmt: skip


@pytest.fixture
def defed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_this_process: None):
    (tmp_path / "spaces" / "papers").mkdir(parents=True)
    (tmp_path / "spaces" / "papers" / "toy.yaml").write_text(DEFED)
    for module in (experiments, paper):
        monkeypatch.setattr(module, "files", lambda package: tmp_path / "spaces")
    experiments.read_paper.cache_clear()
    yield
    experiments.read_paper.cache_clear()


def test_another_model_is_scored_from_the_same_runs(defed, tmp_path: Path):
    command = ("reproduce", "toy", "--seeds", 1, *SINGLY, "--json", "--output", "out")
    usual = document(suite_here(*command, "--reading", "default", cwd=tmp_path))
    other = document(suite_here(*command, "--reading", "model=average", cwd=tmp_path))
    assert usual["command"] == "suite reproduce toy --seeds 1"
    assert other["command"] == "suite reproduce toy --seeds 1 --reading model=average"
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        f"toy{end}.{form}" for end in ("", "-reading-model=average") for form in ("md", "json")
    }
    (run,) = records(tmp_path, kind="reproduce", method="defed")
    measured = [
        {n["method"]: n["measured"] for n in found["rows"][0]["numbers"]}
        for found in (usual, other)
    ]
    assert measured[0]["defed"] == pytest.approx(100 * run.metrics["test_accuracy"])
    assert measured[1]["defed"] == pytest.approx(100 * run.metrics["average_test_accuracy"])
    assert measured[0]["fedavg"] == measured[1]["fedavg"]
    (said,) = [s for s in other["rows"][0]["settings"] if s["name"] == "scored_model"]
    assert (said["method"], said["value"], said["chosen_because"]) == ("defed", "average", "other")
    both = ("--reading", "default", "--readings")
    assert fault(suite_here("reproduce", "toy", *both, cwd=tmp_path, code=2)) == (
        "--readings runs all readings, --reading one: not both"
    )
