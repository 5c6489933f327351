"""Study files: what is accepted, what is refused and how that is said."""

import contextlib
import copy
from importlib.resources import files
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.studies.entries import load_data, make_entries
from suite.studies.space import SpaceFile
from suite.studies.study import override, read_study, small, study_names
from tests.support.searches import BASE, a_study
from trials import algorithms
from trials.common.errors import UserError

SHIPPED = sorted(p.name for p in files("search_spaces").iterdir() if p.name.endswith(".yaml"))


def test_quickstart_and_smoke():
    name, quickstart = read_study("quickstart", {})
    assert name == "quickstart"
    entries = make_entries(quickstart, "study quickstart")
    assert {"SAFL", "FedAgg", "FOLB", "DeFed", "FedUmf"} <= {entry.paper for entry in entries}
    assert quickstart.scheduler == "none"
    assert len(entries) == 14
    _, smoke = read_study("smoke", {})
    assert smoke.scheduler == "asha"
    entries = make_entries(smoke, "study smoke")
    assert len(entries) == 4
    assert len(load_data(entries, None, "study smoke")) == 1


@pytest.mark.parametrize(
    ("levels", "clients", "participation"),
    [(["iid"], 4, 1.0), (["natural"], None, 0.33), (["iid", "natural+dropout(0.1)"], None, 0.33)],
)
def test_a_small_study_takes_four_clients_or_those_that_are_born(levels, clients, participation):
    _, whole = read_study("quickstart", {"heterogeneity": levels})
    _, few = read_study("quickstart", {"heterogeneity": levels, **small(whole)})
    assert (few.trials, few.seeds, few.settings.rounds, few.settings.eval_every) == (3, 2, 2, 1)
    assert (few.settings.clients, few.settings.participation) == (clients, participation)


def test_every_shipped_study_makes_cells():
    names = study_names()
    assert {"quickstart", "smoke"} <= set(names)
    for name, description in names.items():
        _, study = read_study(name, {"datasets": ["digits"]} if name == "own" else {})
        assert description == study.description != ""
        assert make_entries(study, name)


def test_the_study_of_own_data_says_what_to_type_where_these_are_missing():
    with pytest.raises(UserError, match=r"datasets: is required, as in --datasets npz:my\.npz$"):
        read_study("own", {})


def test_there_is_a_shipped_search_space():
    assert {f"{name}.yaml" for name in algorithms.ALGORITHMS} == set(SHIPPED)


UNPUBLISHED = {"centralized", "fedavgm", "fednova", "fedsgd", "local_only"}
"""No paper states values for data sets and models that there are."""


@pytest.mark.parametrize("name", SHIPPED)
def test_every_published_configuration_is_one(name):
    content = yaml.safe_load(files("search_spaces").joinpath(name).read_text())
    found = SpaceFile.model_validate(content).published
    assert bool(found) == (name.removesuffix(".yaml") not in UNPUBLISHED)
    cls = algorithms.resolve(name.removesuffix(".yaml"))
    for entry in found:
        made = cls.configured(entry.params).params()
        assert {k: made[k] for k in entry.params} == entry.params
        assert "lr" in entry.params
        assert len(entry.source) > 10
        assert entry.datasets
        assert entry.models


def test_a_path_names_the_study_after_the_file(study_file):
    name, study = read_study(study_file(BASE), {})
    assert name == "mine"
    assert study == a_study()


MANY_FAULTS = {
    **BASE,
    "algorithms": ["fedprx"],
    "trials": -1,
    "settings": {"roundz": 3},
    "search": {"lr": {"low": 1.0, "high": 0.1}},
}


def test_all_faults_at_once(faults):
    message = faults(MANY_FAULTS)
    lines = message.splitlines()
    assert "mine.yaml: 4 faults" in lines[0]
    assert len(lines) == 5
    (algorithm,) = [line for line in lines if "algorithms[0]" in line]
    assert "'fedprx'" in algorithm
    assert "'fedprox'" in algorithm
    (trials,) = [line for line in lines if "trials" in line]
    assert "-1" in trials
    assert "greater than or equal to 1" in trials
    (setting,) = [line for line in lines if "settings.roundz" in line]
    assert "'rounds'" in setting
    (order,) = [line for line in lines if "search.lr" in line]
    assert "low=1, high=0.1" in order


@pytest.mark.parametrize("range_", [{"low": 0.1, "high": 1.0}, {"choices": [0.1, 1.0]}, {}])
def test_a_default_that_the_search_would_never_try_again(faults, range_):
    message = faults(
        {**BASE, "algorithms": ["fedprox"], "search": {"mu": {"default": 5.0, **range_}}}
    )
    assert "search: mu: default 5.0 must lie in the range that is searched, " in message


def test_an_unknown_search_key_is_shown_beside_other_faults(faults):
    message = faults({**BASE, "trials": 0, "search": {"momentun": {"low": 0.1}}})
    assert "trials = 0" in message
    assert "search.momentun" in message
    assert "'momentum'" in message


def test_an_unknown_search_key_is_shown_beside_an_unknown_algorithm(faults):
    """No algorithm has `learning_rate`, whatever `fedprx` was meant to be."""
    search = {**MANY_FAULTS["search"], "learning_rate": {"low": 0.1}}
    message = faults({**MANY_FAULTS, "search": search})
    for key in ("algorithms[0]", "trials", "settings.roundz", "search.lr", "search.learning_rate"):
        assert key in message


def test_an_unknown_search_key_is_shown_when_an_algorithm_is_listed_twice(faults):
    message = faults(
        {**BASE, "algorithms": ["fedavg", "fedavg"], "search": {"momentun": {"low": 0.1}}}
    )
    assert "search.momentun" in message


def test_a_search_key_of_another_algorithm_is_unknown(faults):
    message = faults({**BASE, "search": {"fedprox.mu": {"low": 0.1}}})
    assert "search.fedprox.mu" in message
    assert "unknown" in message


def test_names_of_every_kind_are_checked(faults):
    message = faults(
        {
            "algorithms": ["fedavg"],
            "datasets": ["digit"],
            "models": ["logrg"],
            "heterogeneity": ["dirichlet(x)"],
        }
    )
    for key, hint in (
        ("datasets[0]", "'digits'"),
        ("models[0]", "'logreg'"),
        ("heterogeneity[0]", "must be a number"),
    ):
        (line,) = [line for line in message.splitlines() if key in line]
        assert hint in line


def test_missing_keys_are_named(faults):
    message = faults({"trials": 3})
    for key in BASE:
        assert f"{key}: is required" in message


def test_an_empty_list_is_refused(faults):
    assert "models" in faults({**BASE, "models": []})


def test_an_unknown_key_of_a_range(faults):
    message = faults({**BASE, "search": {"lr": {"lo": 0.1}}})
    assert "search.lr.lo" in message
    assert "'low'" in message


def test_a_range_that_the_algorithm_turns_into_none_names_its_key(faults):
    message = faults({**BASE, "search": {"lr": {"low": 5.0}}})
    assert "low=5, high=1" in message
    assert "lr" in message


def test_a_log_range_starts_above_zero(faults):
    assert "low is 0.0, but must be above 0" in faults({**BASE, "search": {"lr": {"low": 0.0}}})


def test_a_searched_setting_needs_a_range(faults):
    message = faults({**BASE, "search": {"momentum": {"low": 0.0}}})
    assert "momentum" in message
    assert "low and high" in message


@pytest.mark.parametrize("name", ["quikstart", "smok"])
def test_unknown_study(name):
    with pytest.raises(UserError, match=r"unknown study.*Did you mean '(quickstart|smoke)'"):
        read_study(name, {})


def test_a_missing_file(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_study(str(tmp_path / "none.yaml"), {})


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "a:\tb: c", "just words"])
def test_a_file_that_is_no_study(study_file, text):
    with pytest.raises(UserError, match=r"mine\.yaml"):
        read_study(study_file(text), {})


def test_a_file_in_another_encoding(tmp_path):
    path = tmp_path / "latin.yaml"
    path.write_bytes("description: é è\n".encode("latin-1"))
    with pytest.raises(UserError, match="latin"):
        read_study(str(path), {})


def test_overrides_replace_keys_and_keys_inside():
    overrides = {"trials": 3, "algorithms": ["folb"], "settings.rounds": 7, "sampler": "random"}
    _, study = read_study("quickstart", overrides)
    _, before = read_study("quickstart", {})
    assert (study.trials, study.algorithms, study.sampler) == (3, ["folb"], "random")
    assert study.settings == before.settings.model_copy(update={"rounds": 7})
    assert study.seeds == before.seeds


@pytest.mark.parametrize(
    ("known", "given", "found"),
    [
        ({"choices": [0.1, 1]}, {"low": 0.1, "high": 3}, {"low": 0.1, "high": 3}),
        ({"low": 0.1, "log": True, "default": 1}, {"choices": [1]}, {"default": 1, "choices": [1]}),
        ({"low": 0.1, "high": 1}, {"high": 3}, {"low": 0.1, "high": 3}),
        ({"max": 1}, 3, 3),
    ],
)
def test_an_interval_takes_the_place_of_choices_and_choices_that_of_an_interval(
    known, given, found
):
    assert override({"search": {"lr": known}}, {"search.lr": given}) == {"search": {"lr": found}}


@pytest.mark.parametrize(
    "spec",
    [
        {"choices": [0.1, 1], "high": 1},
        {"datasets": {"digits": {"choices": [0.1, 1], "log": True}}},
    ],
)
def test_a_range_is_choices_or_an_interval(faults, spec):
    """The interval would be passed over in silence."""
    assert faults({**BASE, "search": {"lr": spec}}).splitlines()[1:] == [
        f"  search.lr = {spec!r}: must have choices, or low and high: not both"
    ]


def test_an_override_of_a_setting_where_the_study_has_none(study_file):
    _, study = read_study(study_file(BASE), {"settings.rounds": 7})
    assert study.settings.rounds == 7


def test_faults_of_overrides_are_faults_too(faults):
    message = faults(BASE, {"trials": 0, "algorithms": ["fedprx"], "settings.rounds": 0})
    assert "3 faults" in message
    assert "settings.rounds = 0" in message


def test_an_override_into_something_that_is_no_mapping(faults):
    assert "settings" in faults({**BASE, "settings": 5}, {"settings.rounds": 7})


@pytest.mark.parametrize("entry", [["fedavg"], {"fedavg": None}, 3, None])
def test_a_list_of_something_else_than_names(faults, entry):
    """`- fedavg:` is easily written."""
    assert "algorithms[0]" in faults({**BASE, "algorithms": [entry]})


def test_a_search_key_that_is_no_text(faults):
    assert "search" in faults({**BASE, "search": {1: {"low": 0.1}}})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=5) | st.integers(0, 3), inner, max_size=2)
    ),
    max_leaves=4,
)
FULL = {
    **BASE,
    "trials": 3,
    "target": 0.9,
    "settings": {"rounds": 9, "batch_size": 10},
    "search": {"lr": {"low": 0.1, "high": 1.0}},
    "sampler": "random",
    "scheduler": "none",
    "constraints": {"uploaded_bytes": {"max": 1.0e6}},
    "confirm": {"best": 2, "seeds": 1},
}
PLACES = [(k,) for k in FULL] + [
    ("algorithms", 0),
    ("datasets", 0),
    ("heterogeneity", 0),
    ("settings", "rounds"),
    ("settings", "batch_size"),
    ("constraints", "uploaded_bytes"),
    ("constraints", "uploaded_bytes", "max"),
    ("confirm", "best"),
    ("search", "lr"),
    ("search", "lr", "low"),
    ("search", "lr", "default"),
    ("search", "lr", "choices"),
]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PLACES), ANYTHING)
def test_whatever_stands_there_it_is_a_study_or_a_user_error(study_file, place, value):
    """One value of a good study is replaced by anything that YAML can hold."""
    content = copy.deepcopy(FULL)
    inner: Any = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path = study_file(content)
    with contextlib.suppress(UserError):
        name, study = read_study(path, {})
        assert make_entries(study, name)


def test_a_setting_beside_the_settings_is_sent_there(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "algorithms: [fedavg]\ndatasets: [digits]\nmodels: [logreg]\nheterogeneity: [iid]\n"
        "metric: personal\n"
    )
    with pytest.raises(UserError, match="metric = 'personal': is a shared setting: write it as"):
        read_study(str(path), {})
