"""Entries of a study: which come out, what they search, and what is refused once data and models are known."""

import itertools

import pytest

from tests.support.searches import BASE, entries_of
from trials import algorithms
from trials.algorithm import Range


def test_cells_are_the_product_with_algorithms_innermost():
    levels, algorithms_ = ["iid", "labels( 2 )"], ["folb", "fedavg"]
    entries = entries_of(algorithms=algorithms_, datasets=["digits", "mnist"], heterogeneity=levels)
    assert [(e.scenario.dataset, e.scenario.heterogeneity, e.algorithm) for e in entries] == [
        *itertools.product(("digits", "mnist"), ("iid", "labels(2)"), algorithms_)
    ]
    assert len({e.id for e in entries}) == len({e.name for e in entries}) == 8


SAME = [
    {"trials": 99},
    {"seeds": 99},
    {"seed": 99},
    {"sampler": "random"},
    {"scheduler": "asha"},
    {"target": 0.5},
    {"description": "other words"},
    {"confirm": {}},
    {"settings": {"partition_seed": 99}},
    {"settings": {"data_seed": 99}},
    {"settings": {"execution": "sequential"}},
    {"search": {"lr": {"low": 0.002}, "fedavg.lr": {"low": 0.001}}},
]
OTHER = [
    {"algorithms": ["fedprox"]},
    {"datasets": ["mnist"]},
    {"datasets": ["synthetic(1,1)"]},
    {"models": ["mlp"]},
    {"heterogeneity": ["labels(2)"]},
    {"heterogeneity": ["iid+system(steps=1..20)"]},
    {"settings": {"rounds": 49}},
    {"settings": {"clients": 10}},
    {"settings": {"batch_size": "full"}},
    {"settings": {"val_fraction": 0.2}},
    {"settings": {"init": "zeros"}},
    {"search": {"lr": {"high": 2.0}}},
    {"search": {"lr": {"default": 0.2}}},
    {"search": {"lr": {"log": False}}},
    {"constraints": {"uploaded_bytes": {"max": 1e6}}},
    {"constraints": {"uploaded_bytes": {"max": 2e6}}},
    {"search": {"momentum": {"low": 0.0, "high": 0.9}}},
]


def test_the_content_hash_leaves_out_budgets_seeds_and_execution_and_tells_all_else_apart():
    base = entries_of()[0].id
    assert {entries_of(**changed)[0].id for changed in SAME} == {base}
    ids = {base, *(entries_of(**changed)[0].id for changed in OTHER)}
    assert len(ids) == len(OTHER) + 1
    assert all(len(i) == 8 and int(i, 16) >= 0 for i in ids)


def test_spellings_of_a_name_are_one_entry_whatever_the_order_of_keys():
    names = {"algorithms": ["folb", "folb"], "models": ["mlp(200, 200)", "mlp"]}
    names["heterogeneity"] = ["dirichlet(0.30)", " dirichlet( 0.3 )"]
    (entry,) = entries_of(**names, search={"lr": {"default": 0.1, "low": 0.01}})
    (again,) = entries_of(**names, search={"lr": {"low": 0.01, "default": 0.1}})
    assert entry.id == again.id
    assert entry.name == "folb · digits · mlp · dirichlet(0.3)"
    assert entry.paper == algorithms.resolve("folb").paper


def test_a_setting_that_may_be_unset_is_searched_among_the_numbers_that_are_legal():
    search = {"clip_norm": {"default": 1.0, "low": 0.1, "high": 10, "log": True}}
    search["local_steps"] = {"default": 5, "low": 1, "high": 9}
    ranges = entries_of(search=search)[0].space.ranges
    assert ranges["clip_norm"] == Range("float", 0.1, 10.0, log=True)
    assert ranges["local_steps"] == Range("int", 1.0, 9.0)
    # A standing value that is no number of the range runs, and is not told.
    search = {"batch_size": {"low": 8, "high": 64}}
    (entry,) = entries_of(search=search, settings={"batch_size": "full"})
    assert entry.space.distributions(entry.space.default()) is None
    entry.spec(entry.space.default(), 0, 0).configured()


def test_published_configurations_match_their_data_and_model_only():
    for algorithm in ("folb", "fedprox", "fedavg"):
        (mnist,) = entries_of(algorithms=[algorithm], datasets=["mnist"])
        assert mnist.known
        assert all("mnist" in p.datasets and "logreg" in p.models for p in mnist.known)
        assert entries_of(algorithms=[algorithm])[0].known == ()
        other = {"datasets": ["mnist"], "models": ["mlp(7,7)"]}
        assert entries_of(algorithms=[algorithm], **other)[0].known == ()
    # Those of a bare name match its arguments too.
    (both,) = entries_of(algorithms=["folb"], datasets=["synthetic(1,1)"])
    (bare,) = entries_of(algorithms=["folb"], datasets=["synthetic(0.5,0.5)"])
    assert bare.known
    assert len(both.known) == len(bare.known) + 1
    assert {"variant": "heterogeneity"}.items() <= both.known[-1].params.items()


@pytest.mark.parametrize("keys", [("lr", "fedprox.lr"), ("fedprox.lr", "lr")])
def test_a_range_for_one_algorithm_goes_before_that_of_all_wherever_it_stands(keys):
    given_ = {"lr": {"low": 0.01, "high": 1}, "fedprox.lr": {"high": 3, "default": 2}}
    search = {k: given_[k] for k in keys} | {"fedprox.mu": {"low": 0.5, "high": 5.0}}
    entries = entries_of(algorithms=["folb", "fedprox"], search=search)
    spans = {
        n: [(r.low, r.high) for e in entries if (r := e.space.ranges[n])] for n in ("lr", "mu")
    }
    assert spans == {"lr": [(0.01, 1), (0.01, 3)], "mu": [(1e-4, 1.0), (0.5, 5.0)]}
    assert [e.space.default()["lr"] for e in entries] == [0.1, 2]


def test_nu_is_searched_only_under_a_bound_on_uploads(faults):
    given_ = {"algorithms": ["safl_extended"]}
    bound = {"constraints": {"uploaded_bytes": {"max": 1e6}}}
    narrow, fixed = {"nu": {"low": 0.1, "high": 1.0}}, {"safl_extended.nu": {"default": 0.5}}
    ends = [
        entries_of(**given_, **more)[0].space.ranges["nu"].ends
        for more in ({}, bound, {**bound, "search": narrow}, {"search": fixed})
    ]
    assert ends == [(0.25, 0.25), (0.01, 10.0), (0.1, 1.0), (0.5, 0.5)]
    for spec in (narrow["nu"], {"choices": [0.1, 1.0]}):
        message = faults({**BASE, **given_, "search": {"safl_extended.nu": spec}})
        assert "safl_extended.nu: is searched only under a constraint on uploaded_bytes" in message
