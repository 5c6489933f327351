"""What is said of each algorithm: docstrings, published configurations, and the page made of them."""

import inspect
from importlib.resources import files

import pytest

from suite.catalog import FACTS, algorithms_page
from suite.studies.space import space_file
from tests.support.simulations import ROOT
from trials.algorithms import ALGORITHMS

every = pytest.mark.parametrize("name", ALGORITHMS)


@every
def test_a_docstring_gives_every_fact(name):
    lines = inspect.getdoc(ALGORITHMS[name]).splitlines()
    assert [line.partition(":")[0] for line in lines if line.startswith(FACTS)] == [*FACTS]


@every
def test_facts_are_the_classs_own(name):
    assert "Equations:" in (ALGORITHMS[name].__dict__.get("__doc__") or "")


@every
def test_published_configurations_can_be_run(name):
    assert files("search_spaces").joinpath(f"{name}.yaml").is_file()
    for found in space_file(name).published:
        assert found.source
        assert ALGORITHMS[name].configured(found.params).params().items() >= found.params.items()


def test_the_page_is_what_the_command_prints():
    """`make docs` makes it anew."""
    assert (ROOT / "docs" / "algorithms.md").read_text() == algorithms_page()


def test_the_page_has_a_section_for_each_algorithm_and_the_settings():
    heads = [line.split()[1] for line in algorithms_page().splitlines() if line.startswith("## ")]
    assert heads == [*ALGORITHMS, "Shared"]
