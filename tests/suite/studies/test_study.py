"""Study files: what is accepted, what is refused and how that is said."""

from importlib.resources import files
from pathlib import Path

import pytest

from suite.api import folder_of
from suite.configurations.configuration import tuned_files
from suite.studies.entries import load_data, make_entries
from suite.studies.space import space_file
from suite.studies.study import override, read_study, small, study_names
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
    assert {f"{name}.yaml" for name in algorithms.ALGORITHMS} == set(SHIPPED)
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


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "a:\tb: c", "just words", "\xe9 \xe8"])
def test_a_file_that_is_no_study(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"mine\.yaml"):
        read_study(str(path), {})


def test_what_is_at_a_path_is_said_of_all_that_people_name(tmp_path, monkeypatch):
    """Of studies, tuned files and storages alike: a link that leads nowhere, and what can be no path."""
    monkeypatch.chdir(tmp_path)
    Path("lost").symlink_to("scratch/runs")
    ways = {
        "study": lambda name: read_study(name, {}),
        "configuration": lambda name: tuned_files(Path(name)),
        "storage": folder_of,
    }
    for what, way in ways.items():
        with pytest.raises(UserError) as refused:
            way("lost")
        lost = "it is a link to scratch/runs, which does not exist"
        assert str(refused.value) == f"cannot use {what} lost: {lost}"
        for name, reason in (
            ("a" * 300, "File name too long"),
            ("~nosuchuser/x", "home directory"),
        ):
            with pytest.raises(UserError, match=f"cannot read {what} .*{reason}"):
                way(name)


def test_overrides_replace_keys_and_keys_inside(study_file):
    overrides = {"trials": 3, "algorithms": ["folb"], "settings.rounds": 7, "sampler": "random"}
    name, mine = read_study(study_file(BASE), {})
    assert (name, mine) == ("mine", a_study())
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


def test_faults_of_overrides_are_faults_too_of_which_twenty_are_listed(faults):
    missing = faults({"trials": 3})
    assert all(f"{key}: is required" in missing for key in BASE)
    message = faults(BASE, {"trials": 0, "algorithms": ["fedprx"], "settings.rounds": 0})
    assert "3 faults" in message
    assert "settings.rounds = 0" in message
    long = ["a" * 300, *(f"b{i}" for i in range(30))]
    first, *listed, last = faults(BASE, {"models": long}).splitlines()
    assert first.endswith("31 faults, nothing was started")
    assert len(listed) == 20
    assert listed[0].startswith(f"  models[0] = '{'a' * 199}: unknown model '{'a' * 199}. ")
    assert last == "  and 11 more"
