"""Ranges that differ between the data sets of a study."""

from suite.studies.entries import make_entries
from suite.studies.study import Study
from tests.support.searches import BASE, a_study, entries_of
from trials.algorithm import Range

RATE = {"default": 0.1, "low": 0.003, "high": 3.0, "log": True}
GIVEN = {
    "datasets": ["digits", "synthetic(1,1)", "mnist"],
    "algorithms": ["fedavg", "folb"],
    "search": {
        "lr": {**RATE, "datasets": {"digits": {"high": 100.0}, "synthetic": {"choices": [0.1, 1]}}},
        "folb.mu": {"datasets": {"mnist": {"low": 0.5, "default": 0.7}}},
    },
}


def test_a_range_on_a_data_set_goes_before_by_exact_or_bare_name():
    found = {
        (e.algorithm, e.scenario.dataset): e.space for e in make_entries(a_study(**GIVEN), "x")
    }
    spans = {key: of.ranges["lr"] for key, of in found.items()}
    for name in ("fedavg", "folb"):
        high = {d: spans[name, d].high for d in ("digits", "mnist")}
        assert high == {"digits": 100.0, "mnist": 3.0}
        assert spans[name, "digits"].low == 0.003
        assert spans[name, "digits"].log
        assert spans[name, "synthetic(1,1)"] == Range("choice", choices=(0.1, 1.0))
    mu = {dataset: of.ranges["mu"] for (name, dataset), of in found.items() if name == "folb"}
    assert (mu["mnist"].low, mu["mnist"].high, mu["digits"].low) == (0.5, 1.0, 0.0001)
    assert found["folb", "mnist"].default()["mu"] == 0.7


def test_an_interval_on_a_data_set_takes_the_place_of_choices():
    search = {"lr": {"choices": [0.1, 1], "datasets": {"digits": {"low": 0.01, "high": 3}}}}
    (entry,) = entries_of(search=search)
    assert entry.space.ranges["lr"] == Range("float", 0.01, 3.0, log=True, above=0)


def test_it_is_recorded_where_there_is_one_and_nowhere_else():
    content = a_study(**GIVEN).model_dump(mode="json")
    assert Study.model_validate(content) == a_study(**GIVEN)
    assert "datasets" in content["search"]["lr"]
    plain = a_study(search={"lr": RATE}).model_dump(mode="json")
    assert plain["search"]["lr"].keys() == {"default", "low", "high", "log", "choices"}


def test_what_is_wrong_with_it_is_said(faults):
    wrong = {
        "lr": {"datasets": {"digitz": {"high": 3.0}}},
        "fedavg.lr": {"datasets": {"digits": {"datasets": {"mnist": {"high": 1.0}}}}},
    }
    lines = faults({**BASE, "search": wrong}).splitlines()
    assert lines[0].endswith("2 faults, nothing was started")
    assert lines[1:] == [
        "  search.fedavg.lr.datasets.digits.datasets = {'mnist': {'high': 1.0}}: unknown key 'datasets'. "
        "Known: choices, default, high, log, low.",
        "  search.lr.datasets.digitz: unknown dataset 'digitz'. Did you mean 'digits'?",
    ]


def test_low_above_high_on_one_data_set_is_refused(faults):
    message = faults({**BASE, "search": {"lr": {**RATE, "datasets": {"digits": {"high": 0.001}}}}})
    assert "low <= high must hold, but got low=0.003, high=0.001" in message
