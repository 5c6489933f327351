"""Study files: what is accepted, what is refused and how that is said."""

from importlib.resources import files

import pytest

from suite.studies.entries import load_data, make_entries
from suite.studies.space import space_file
from suite.studies.study import read_study, small, study_names
from tests.support.searches import BASE, a_study
from trials import algorithms
from trials.common.errors import UserError

SHIPPED = sorted(p.name for p in files("search_spaces").iterdir() if p.name.endswith(".yaml"))


def test_quickstart_and_smoke():
    _, quickstart = read_study("quickstart", {})
    entries = make_entries(quickstart, "study quickstart")
    assert {"SAFL", "FedAgg", "FOLB", "DeFed", "FedUmf"} <= {entry.paper for entry in entries}
    _, smoke = read_study("smoke", {})
    entries = make_entries(smoke, "study smoke")
    assert (len(entries), len(load_data(entries, None, "study smoke"))) == (4, 1)


@pytest.mark.parametrize(
    ("levels", "clients", "participation"),
    [(["iid"], 4, 1.0), (["natural"], None, 0.33), (["iid", "natural+dropout(0.1)"], None, 0.33)],
)
def test_a_small_study_takes_four_clients_or_those_that_are_born(levels, clients, participation):
    _, whole = read_study("quickstart", {"heterogeneity": levels})
    _, few = read_study("quickstart", {"heterogeneity": levels, **small(whole)})
    assert (few.trials, few.seeds, few.settings.rounds, few.settings.eval_every) == (3, 2, 2, 1)
    assert (few.settings.clients, few.settings.participation) == (clients, participation)


def test_every_split_has_a_data_set_of_its_own_and_tunings_share_theirs():
    study = a_study(splits=2, tunings=3)
    first, second = load_data(make_entries(study, "s"), None, "s", study.replicates).values()
    assert (first.test != second.test).any()


def test_every_shipped_study_makes_cells():
    names = study_names()
    assert {"quickstart", "smoke"} <= set(names)
    for name, description in names.items():
        _, study = read_study(name, {"datasets": ["digits"]} if name == "own" else {})
        assert description == study.description != ""
        assert make_entries(study, name)
    with pytest.raises(UserError, match="datasets: is required"):
        read_study("own", {})


UNPUBLISHED = {"centralized", "fedavgm", "fednova", "fedsgd", "local_only"}
"""No paper states values for data sets and models that there are."""


def test_every_algorithm_has_a_shipped_search_space_whose_configurations_are_some():
    assert {f"{name}.yaml" for name in algorithms.ALGORITHMS} == {*SHIPPED} - {"companions.yaml"}
    for name, cls in algorithms.ALGORITHMS.items():
        published = space_file(name).published
        assert bool(published) == (name not in UNPUBLISHED)
        for entry in published:
            params = cls.configured(entry.params).params()
            assert {k: params[k] for k in entry.params} == entry.params
            assert "lr" in entry.params
            assert len(entry.source) > 10
            assert entry.datasets
            assert entry.models


def test_overrides_replace_keys_and_keys_inside(study_file):
    overrides = {"trials": 3, "algorithms": ["folb"], "settings.rounds": 7, "sampler": "random"}
    name, mine = read_study(study_file(BASE), {})
    assert (name, mine) == ("mine", a_study())
    _, study = read_study("quickstart", overrides)
    _, before = read_study("quickstart", {})
    assert (study.trials, study.algorithms, study.sampler) == (3, ["folb"], "random")
    assert study.settings == before.settings.model_copy(update={"rounds": 7})
    assert study.seeds == before.seeds
