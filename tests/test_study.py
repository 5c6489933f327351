"""Studies: what is accepted, what is refused and how that is said, which cells come out."""

import contextlib
import copy
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from suite_helpers import BASE, a_study, cells_of

from suite.spaces import SpaceFile
from suite.study import Cell, load_data, make_cells, read_study, small, study_names
from trials import algorithms
from trials.errors import UserError

SHIPPED = sorted(p.name for p in files("search_spaces").iterdir() if p.name.endswith(".yaml"))


@pytest.fixture
def study_file(tmp_path):
    """Writes a study and returns its path."""

    def write(content: Any) -> str:
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return str(path)

    return write


def accept(path: str, overrides: dict[str, Any]) -> list[Cell]:
    """All checks that a sweep makes before it starts."""
    name, study = read_study(path, overrides)
    cells = make_cells(study, f"study {name}")
    load_data(cells, None, f"study {name}")
    return cells


@pytest.fixture
def faults(study_file):
    """The message with which a study is refused."""

    def refused(content: Any, overrides: dict[str, Any] | None = None) -> str:
        with pytest.raises(UserError) as caught:
            accept(study_file(content), overrides or {})
        return str(caught.value)

    return refused


def test_quickstart_and_smoke():
    name, quickstart = read_study("quickstart", {})
    assert name == "quickstart"
    cells = make_cells(quickstart, "study quickstart")
    assert {"SAFL", "FedAgg", "FOLB", "DeFed", "FedUmf"} <= {cell.paper for cell in cells}
    assert quickstart.scheduler == "none"
    assert len(cells) == 14
    _, smoke = read_study("smoke", {})
    assert smoke.scheduler == "asha"
    cells = make_cells(smoke, "study smoke")
    assert len(cells) == 4
    assert len(load_data(cells, None, "study smoke")) == 1


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
        _, study = read_study(name, {})
        assert description == study.description != ""
        assert make_cells(study, name)


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
    assert "low > 0" in faults({**BASE, "search": {"lr": {"low": 0.0}}})


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
    "joint": {"over": ["heterogeneity"], "by": "rank"},
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
    ("joint", "over"),
    ("joint", "over", 0),
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
        assert make_cells(study, name)


def test_cells_are_the_product_with_algorithms_innermost():
    given_ = {
        "algorithms": ["folb", "fedavg"],
        "datasets": ["digits", "mnist"],
        "models": ["logreg", "mlp"],
        "heterogeneity": ["iid", "labels( 2 )"],
    }
    cells = cells_of(**given_)
    assert [(c.dataset, c.model, c.heterogeneity, c.algorithm) for c in cells] == [
        (d, m, h, a)
        for d in ("digits", "mnist")
        for m in ("logreg", "mlp")
        for h in ("iid", "labels(2)")
        for a in ("folb", "fedavg")
    ]
    assert len({c.id for c in cells}) == len({c.name for c in cells}) == 16


def test_a_cell_listed_twice_is_one():
    assert len(cells_of(algorithms=["fedavg", "fedavg"], heterogeneity=["iid", " iid "])) == 1


SAME = {
    "trials": {"trials": 99},
    "seeds": {"seeds": 99},
    "seed": {"seed": 99},
    "sampler": {"sampler": "random"},
    "scheduler": {"scheduler": "asha"},
    "target": {"target": 0.5},
    "description": {"description": "other words"},
    "confirmation": {"confirm": {}},
    "second objective": {"pareto": "uploaded_bytes"},
    "vary_partition": {"vary_partition": True},
    "partition_seed": {"settings": {"partition_seed": 99}},
    "data_seed": {"settings": {"data_seed": 99}},
    "execution": {"settings": {"execution": "sequential"}},
    "another's range": {"search": {"lr": {"low": 0.002}, "fedavg.lr": {"low": 0.001}}},
}
OTHER = {
    "algorithm": {"algorithms": ["fedprox"]},
    "dataset": {"datasets": ["mnist"]},
    "dataset's argument": {"datasets": ["synthetic(1,1)"]},
    "model": {"models": ["mlp"]},
    "level": {"heterogeneity": ["labels(2)"]},
    "system": {"heterogeneity": ["iid+system(steps=1..20)"]},
    "rounds": {"settings": {"rounds": 49}},
    "clients": {"settings": {"clients": 10}},
    "batch size": {"settings": {"batch_size": "full"}},
    "validation": {"settings": {"val_fraction": 0.2}},
    "init": {"settings": {"init": "zeros"}},
    "range": {"search": {"lr": {"high": 2.0}}},
    "anchor": {"search": {"lr": {"default": 0.2}}},
    "scale": {"search": {"lr": {"log": False}}},
    "constraint": {"constraints": {"uploaded_bytes": {"max": 1e6}}},
    "another constraint": {"constraints": {"uploaded_bytes": {"max": 2e6}}},
    "joint": {"joint": {"over": ["heterogeneity"]}},
    "moved setting": {"search": {"momentum": {"low": 0.0, "high": 0.9}}},
}


@pytest.mark.parametrize("name", SAME)
def test_the_content_hash_leaves_out_budgets_seeds_and_execution(name):
    assert cells_of(**SAME[name])[0].id == cells_of()[0].id


def test_the_content_hash_tells_all_else_apart():
    ids = {name: cells_of(**changed)[0].id for name, changed in OTHER.items()}
    ids["base"] = cells_of()[0].id
    assert len(set(ids.values())) == len(OTHER) + 1, ids
    assert all(len(i) == 8 and int(i, 16) >= 0 for i in ids.values())


def test_the_content_hash_does_not_depend_on_the_order_of_keys():
    cell = cells_of(algorithms=["folb"], search={"lr": {"default": 0.1, "low": 0.01}})[0]
    again = cells_of(algorithms=["folb"], search={"lr": {"low": 0.01, "default": 0.1}})[0]
    assert cell.id == again.id


def test_spellings_of_a_name_are_one_cell():
    a = cells_of(heterogeneity=["dirichlet(0.30)"], models=["mlp(200, 200)"])[0]
    b = cells_of(heterogeneity=[" dirichlet( 0.3 )"], models=["mlp"])[0]
    assert a.id == b.id
    assert a.heterogeneity == "dirichlet(0.3)"
    assert a.model == "mlp"


def test_names_are_readable():
    cell = cells_of(algorithms=["folb"], heterogeneity=["dirichlet(0.3)"])[0]
    assert cell.name == "folb · digits · dirichlet(0.3) · logreg"
    assert cell.paper == algorithms.resolve("folb").paper


def test_lenet5_on_digits_is_refused_with_the_reason(faults):
    message = faults({**BASE, "models": ["logreg", "lenet5"]})
    assert "models = 'lenet5'" in message
    assert "16x16" in message
    assert "(1, 8, 8)" in message


def test_more_labels_than_there_are_is_refused_with_the_reason(faults):
    message = faults({**BASE, "heterogeneity": ["iid", "labels(20)"]})
    assert "heterogeneity = 'labels(20)'" in message
    assert "only 10 labels" in message


def test_faults_of_data_and_model_are_shown_at_once(faults):
    message = faults({**BASE, "models": ["lenet5"], "heterogeneity": ["labels(20)", "natural"]})
    assert "3 faults" in message


def test_missing_data_are_refused_before_anything_starts(faults):
    assert "datasets = 'npz:/none.npz'" in faults({**BASE, "datasets": ["npz:/none.npz"]})


def test_an_algorithm_refuses_what_it_cannot_honour(faults):
    given_ = {**BASE, "algorithms": ["fedavg", "folb"], "settings": {"init": "own"}}
    message = faults(given_)
    assert "1 fault," in message
    assert "folb cannot run with init=own" in message
    assert algorithms.resolve("folb").refuses["init=own"] in message
    assert cells_of(algorithms=["fedavg", "safl"], settings={"init": "own"})


def test_an_algorithm_refuses_what_it_cannot_honour_in_the_search_too(faults):
    search = {"init": {"choices": ["common", "own"]}}
    message = faults({**BASE, "algorithms": ["fedavg", "folb"], "search": search})
    assert "init=own" in message


def test_a_search_needs_validation_data(faults):
    message = faults({**BASE, "settings": {"val_fraction": 0}})
    assert "settings.val_fraction" in message
    assert "validation" in message


UNRUNNABLE = {
    "a choice that the algorithm has not": {"variant": {"choices": ["plain", "nonsense"]}},
    "words for a number": {"lr": {"default": "fast", "choices": ["fast", "slow"]}},
    "a batch of -1": {"batch_size": {"choices": [-1, 32]}},
    "no epochs": {"local_epochs": {"low": 0, "high": 3}},
    "no epochs at the anchor": {"local_epochs": {"default": 0, "low": 0, "high": 3}},
    "momentum above 1": {"momentum": {"low": 0.0, "high": 1.5}},
    "no bound": {"lr": {"high": float("inf")}},
    "not a number": {"lr": {"low": float("nan")}},
}


@pytest.mark.parametrize("name", UNRUNNABLE)
def test_a_range_that_holds_values_no_trial_can_run_is_refused(faults, name):
    """Such trials would fail, or end the sweep, hours after it began."""
    (key,) = UNRUNNABLE[name]
    assert key in faults({**BASE, "algorithms": ["folb"], "search": UNRUNNABLE[name]})


@pytest.mark.parametrize(
    ("key", "spec"),
    [
        ("rounds", {"low": 5, "high": 100}),
        ("clients", {"default": 5, "low": 5, "high": 10}),
        ("val_fraction", {"low": 0.05, "high": 0.5}),
        ("partition_seed", {"low": 0, "high": 9}),
        ("data_seed", {"low": 0, "high": 9}),
    ],
)
def test_what_makes_trials_comparable_cannot_be_searched(faults, key, spec):
    """Equal rounds (4 of the fair protocol), and one set of validation samples for all trials."""
    assert key in faults({**BASE, "search": {key: spec}})


def test_a_real_setting_that_may_be_unset_is_searched_as_a_real_number():
    search = {"clip_norm": {"default": 1.0, "low": 0.1, "high": 10, "log": True}}
    (cell,) = cells_of(search=search)
    found = cell.space.ranges["clip_norm"]
    assert (found.type, found.low, found.high, found.log) == ("float", 0.1, 10, True)


@pytest.mark.parametrize(
    ("name", "values"),
    [("astw", {"loop": 0}), ("fedagg", {"alpha": 0}), ("safl", {"L": -1}), ("safl", {"L": 0.0})],
)
def test_values_without_a_meaning_are_refused(name, values):
    with pytest.raises(UserError, match="must be above 0"):
        algorithms.ALGORITHMS[name].configured(values)


def test_a_searched_setting_that_is_unset_takes_whole_numbers_where_only_those_are_legal():
    search = {"local_steps": {"default": 5, "low": 1, "high": 9}}
    (cell,) = cells_of(search=search)
    assert cell.space.ranges["local_steps"].type == "int"


@pytest.mark.parametrize(
    "given_",
    [
        {"search": {"local_steps": {"low": 1, "high": 9}}},
        {"search": {"batch_size": {"low": 8, "high": 64}}, "settings": {"batch_size": "full"}},
        {"search": {"batch_size": {"default": "full", "low": 8, "high": 64}}},
    ],
)
def test_an_anchor_that_is_no_number_of_its_range_is_refused_or_run(given_):
    """The unset setting, and `full`: either a fault of the study, or a value that is not told."""
    with contextlib.suppress(UserError):
        (cell,) = cells_of(**given_)
        anchor = cell.space.anchor()
        assert cell.space.distributions(anchor) is None
        cell.spec(anchor, 0, 0).configured()


def test_scientific_notation_means_a_number(study_file):
    """YAML 1.1 reads 1e-3, without a dot, as text; a person means the number."""
    text = yaml.safe_dump(BASE) + "search: {lr: {default: 2e-3, low: 1e-3, high: 1e-1}}\n"
    _, study = read_study(study_file(text), {})
    (cell,) = make_cells(study, "mine")
    assert cell.space.anchor() == {"lr": 0.002}
    assert (cell.space.ranges["lr"].low, cell.space.ranges["lr"].high) == (0.001, 0.1)


@pytest.mark.parametrize("algorithm", ["folb", "fedprox", "fedavg"])
def test_published_configurations_match_their_data_and_model_only(algorithm):
    given_ = {"algorithms": [algorithm]}
    (mnist,) = cells_of(**given_, datasets=["mnist"])
    assert mnist.known
    assert all("mnist" in p.datasets and "logreg" in p.models for p in mnist.known)
    assert cells_of(**given_)[0].known == ()
    assert cells_of(**given_, datasets=["mnist"], models=["mlp(7,7)"])[0].known == ()


def test_published_configurations_of_a_bare_name_match_its_arguments_too():
    (both,) = cells_of(algorithms=["folb"], datasets=["synthetic(1,1)"])
    (bare,) = cells_of(algorithms=["folb"], datasets=["synthetic(0.5,0.5)"])
    assert bare.known
    assert len(both.known) == len(bare.known) + 1
    assert {"variant": "heterogeneity"}.items() <= both.known[-1].params.items()


def test_a_range_for_one_algorithm_leaves_the_others_alone():
    search = {"fedprox.mu": {"low": 0.5, "high": 5.0}, "lr": {"high": 0.3}}
    fedprox, folb = cells_of(algorithms=["fedprox", "folb"], search=search)
    assert (fedprox.space.ranges["mu"].low, fedprox.space.ranges["mu"].high) == (0.5, 5.0)
    assert (folb.space.ranges["mu"].low, folb.space.ranges["mu"].high) == (1e-4, 1.0)
    assert fedprox.space.ranges["lr"] == folb.space.ranges["lr"]


@given(st.integers(1, 400), st.integers(1, 400) | st.none())
def test_stops_are_evaluations_below_the_last_round(rounds, every):
    chosen = {"rounds": rounds, "eval_every": min(every, rounds) if every else None}
    (cell,) = cells_of(settings=chosen)
    gap = cell.settings.evaluation_gap
    assert all(0 < r < rounds and r % gap == 0 for r in cell.stops)
    assert [r // gap for r in cell.stops] == [3**k for k in range(len(cell.stops))]
    assert bool(cell.stops) == (gap < rounds)


def test_data_are_loaded_once_for_all_cells_that_share_them():
    cells = cells_of(algorithms=["fedavg", "folb"], heterogeneity=["iid", "labels(2)"])
    data = load_data(cells, None, "test")
    assert list(data) == [cells[0].spec({}, 0, 0).dataset_key]
    assert data["digits|0|None"].shape == (1, 8, 8)


def test_a_third_party_algorithm_is_named_by_its_file(tmp_path):
    path = Path(tmp_path) / "mine.py"
    path.write_text(
        "from dataclasses import dataclass\n"
        "from trials.algorithm import real\n"
        "from trials.algorithms.fedavg import FedAvg\n"
        "@dataclass(frozen=True)\n"
        "class Mine(FedAvg):\n"
        "    theta: float = real(0.5, low=0.0, high=1.0)\n"
    )
    name = f"{path}:Mine"
    (cell,) = cells_of(algorithms=[name], search={f"{name}.theta": {"low": 0.25}})
    assert cell.label == "Mine"
    assert cell.known == ()
    assert cell.space.ranges["theta"].low == 0.25
    assert cell.spec({"lr": 0.1, "theta": 0.3}, 0, 0).configured().theta == 0.3


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sampler": "cmaes", "pareto": "uploaded_bytes"}, ["sampler = 'cmaes'", "one objective"]),
        ({"sampler": "nsga2", "scheduler": "asha"}, ["scheduler = 'asha'", "two objectives"]),
        ({"sampler": "nsga2", "confirm": {}}, ["confirm", "a front"]),
        ({"pareto": "rounds_to_target"}, ["target", "rounds_to_target"]),
        ({"joint": {"over": ["models"]}, "sampler": "cmaes"}, ["joint", "tpe, gp, random or grid"]),
        ({"joint": {"over": ["models"]}, "scheduler": "median"}, ["scheduler = 'median'", "none"]),
        ({"constraints": {"uploaded_byte": {"max": 1}}}, ["uploaded_byte"]),
        ({"constraints": {"uploaded_bytes": {"max": 0}}}, ["uploaded_bytes.max = 0"]),
        ({"constraints": {"uploaded_bytes": {"maxi": 1}}}, ["Did you mean 'max'?"]),
        ({"confirm": {"best": 1}}, ["confirm.best = 1"]),
        ({"confirm": {"seed": 1}}, ["confirm.seed = 1", "Did you mean 'seeds'?"]),
        ({"scheduler": "pbt", "pareto": "uploaded_bytes"}, ["scheduler = 'pbt'", "two objectives"]),
        ({"scheduler": "pbt", "joint": {"over": ["models"]}}, ["scheduler = 'pbt'", "joint"]),
        (
            {"scheduler": "pbt", "trials": 3, "settings": {"rounds": 5, "eval_every": 5}},
            ["trials = 3", "at least 4 members", "settings.rounds = 5", "lower eval_every"],
        ),
    ],
)
def test_settings_of_the_search_that_cannot_be_are_refused(faults, changed, words):
    message = faults({**BASE, **changed})
    assert all(word in message for word in words), message
    assert "Traceback" not in message


NU = {"low": 0.1, "high": 1.0}


def test_nu_is_searched_only_under_a_bound_on_uploads(faults):
    given_ = {"algorithms": ["safl_extended"]}
    free = cells_of(**given_)[0].space.ranges["nu"]
    assert (free.low, free.high) == (0.25, 0.25)
    for bound in (
        {"constraints": {"uploaded_bytes": {"max": 1e6}}},
        {"pareto": "uploaded_bytes"},
        {"sampler": "nsga2"},
    ):
        nu = cells_of(**given_, **bound)[0].space.ranges["nu"]
        assert (nu.low, nu.high) == (0.01, 10.0)
        nu = cells_of(**given_, **bound, search={"safl_extended.nu": NU})[0].space.ranges["nu"]
        assert (nu.low, nu.high) == (0.1, 1.0)
    for spec in (NU, {"choices": [0.1, 1.0]}):
        message = faults({**BASE, **given_, "search": {"safl_extended.nu": spec}})
        assert "safl_extended.nu: is searched only under a constraint on uploaded_bytes" in message
    bytes_down = {"constraints": {"downloaded_bytes": {"max": 1e6}}}
    assert "only under" in faults({**BASE, **given_, **bytes_down, "search": {"nu": NU}})
    fixed = {"safl_extended.nu": {"default": 0.5}}
    assert cells_of(**given_, search=fixed)[0].space.ranges["nu"].low == 0.5
