"""`--set` of `suite reproduce`: what it reaches, what is refused, and where its result is written."""

from dataclasses import replace
from pathlib import Path

import pytest

from suite.reproduction import experiments
from suite.reproduction.choices import otherwise
from suite.reproduction.experiments import PER_SEED, PLACE, experiment, read_paper, selected
from tests.support import papers
from tests.support.commands import SINGLY, document, records, suite_here
from tests.support.papers import SMALL, toy
from trials.common.errors import UserError

SEARCHED = SMALL.replace("{params: {mu: 0.1}}", "{search: {mu: [0.1, 1.0]}}").replace(
    "\n    rows:\n", "\n    open: [mu, heterogeneity]\n    rows:\n", 1
)


def test_set_reaches_what_is_open_and_one_method_alone():
    made = toy(SEARCHED)
    (level,) = otherwise([made], {"heterogeneity": "iid + system(epochs = 1..2)"})
    fedavg = level.methods["fedavg"]
    assert fedavg.scenario.heterogeneity == "iid+system(epochs=1..2)"
    assert fedavg.readings == (
        "heterogeneity = iid+system(epochs=1..2): --set; the suite's own choice: iid",
    )
    (fixed,) = otherwise([made], {"partition_seed": 3})
    spec = fixed.methods["fedavg"].spec({}, 1, 5, 5)
    assert (spec.seed, spec.settings.partition_seed) == (1, 3)
    (one,) = otherwise([made], {"fedprox.aggregation": "plain"})
    assert [one.methods[m].value("aggregation") for m in ("fedavg", "fedprox")] == [
        "samples",
        "plain",
    ]
    assert one.methods["fedprox"].decisions["aggregation"].why == (
        "--set; the suite's own choice: samples"
    )
    closed = replace(made, open=frozenset())
    (scored,) = otherwise([closed], {"scored": "best", "fedavg.partition_seed": 3})
    assert [scored.methods[m].value("scored") for m in ("fedavg", "fedprox")] == ["best"] * 2
    assert [scored.methods[m].value("partition_seed") for m in ("fedavg", "fedprox")] == [
        3,
        PER_SEED,
    ]


def test_what_was_chosen_changes_nothing():
    made = toy(SEARCHED)
    same = {"momentum": 0.0, "heterogeneity": "iid", "mu": [0.1, 1.0], "scored": "last"}
    assert otherwise([made], same) == [made]
    assert otherwise([made], {"data_seed": 7}) == [made], "the data are not drawn"


def test_searched_values_give_way_to_one_or_to_others():
    made = toy(SEARCHED)
    fixed, other = (otherwise([made], {"mu": mu})[0].methods["fedprox"] for mu in (0.5, [1, 2]))
    assert (fixed.variants, fixed.value("mu")) == ([{}], 0.5)
    assert fixed.decisions["mu"].why == "--set; the suite's own choice: [0.1, 1.0]"
    assert other.variants == [{"mu": 1}, {"mu": 2}]
    (same,) = otherwise([made], {"mu": 0.1})
    chosen, searched = same.methods["fedprox"], made.methods["fedprox"]
    assert chosen.spec({}, 0, 5, 5) == searched.spec({"mu": 0.1}, 0, 5, 5), "the run is the same"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mu": []}, "mu = []: must name at least one value"),
        ({"scored": "frist"}, "unknown scored 'frist'. Known: best, last."),
        ({"scored_model": "avrage"}, "unknown scored_model 'avrage'. Did you mean 'average'?"),
        ({"heterogeneity": "iidd"}, "Did you mean 'iid'?"),
        ({"dataset": "digits"}, "--set dataset: the paper states it"),
        ({"fedprx.aggregation": "plain"}, "unknown method 'fedprx'"),
    ],
)
def test_what_cannot_be_set(given, said):
    with pytest.raises(UserError) as refused:
        otherwise([toy(SEARCHED)], given)
    assert said in str(refused.value)


@pytest.mark.parametrize("place", selected(None), ids="/".join)
def test_what_the_shipped_papers_leave_open_is_there_and_not_decided(place):
    made = experiment(read_paper(place[0]), *place)
    for key in made.open if made else ():
        methods = made.methods.values()
        assert key in PLACE or any(key in of.known and key not in of.decisions for of in methods)


DEFED = (
    SMALL.replace("fedprox: {params: {mu: 0.1}}", "defed: {params: {topology: ring(2), grad_scale: one}}")
    .replace('fedprox: "> 80"', "defed: 80")
    .replace("of: fedprox", "of: defed")
)  # fmt: skip


@pytest.fixture
def defed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_this_process: None):
    papers.only(monkeypatch, tmp_path / "spaces", DEFED)
    yield
    experiments.read_paper.cache_clear()


def test_another_model_is_scored_from_the_same_runs_and_written_beside(defed, tmp_path: Path):
    command = ("reproduce", "toy", "--seeds", 1, *SINGLY, "--json", "--output", "out")
    usual = document(suite_here(*command, cwd=tmp_path))
    other = document(suite_here(*command, "--set", "defed.scored_model=average", cwd=tmp_path))
    assert usual["command"] == "suite reproduce toy --seeds 1"
    assert other["command"] == "suite reproduce toy --seeds 1 --set defed.scored_model=average"
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        f"toy{end}.{form}"
        for end in ("", "-set-defed.scored_model=average")
        for form in ("md", "json")
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
    assert (said["method"], said["value"]) == ("defed", "average")
    assert said["chosen_because"] == "--set; the suite's own choice: ranked"
