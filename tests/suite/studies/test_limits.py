"""A paper's bounds hold wherever a value comes from. FedUmf's alpha is at most 1: above, it is another method."""

import pytest

from reports.leaderboard.audit import edges
from suite.configurations.nearest import warm_start
from suite.runs.request import Request
from suite.studies.entries import make_entries
from tests.support.configurations import a_tuned
from tests.support.searches import a_study, entries_of
from trials.algorithm import Range
from trials.common.errors import UserError
from trials.run.spec import Scenario

DIGITS = Scenario("digits", "logreg", "iid")


def asked():
    Request("fedumf", DIGITS, {}, {}, values={"alpha": 2.0}).spec()


def searched():
    make_entries(a_study(algorithms=["fedumf"], search={"alpha": {"high": 2.0}}), "study")


def chosen():
    make_entries(a_study(algorithms=["fedumf"], search={"alpha": {"choices": [0.5, 2.0]}}), "study")


def started():
    other = a_tuned("fedumf").model_copy(update={"params": {"alpha": 2.0}})
    warm_start(entries_of(algorithms=["fedumf"]), [other])


@pytest.mark.parametrize("way", [asked, searched, chosen, started])
def test_a_value_beyond_a_papers_bound_is_refused_with_its_name_and_the_bound(way):
    with pytest.raises(UserError) as refused:
        way()
    said = str(refused.value)
    assert "alpha" in said
    assert "2.0, but must be at most 1" in said


def test_an_audit_asks_for_nothing_beyond_it():
    """A winner at 1 is at a closed end; the same at an end of the searcher's choice is not."""
    own, narrow = Range("float", 0.05, 1.0, at_most=1), Range("float", 0.05, 0.9, at_most=1)
    assert [edge.closed for edge in edges({"alpha": 1.0}, {"alpha": own})] == [True]
    assert [edge.closed for edge in edges({"alpha": 0.9}, {"alpha": narrow})] == [False]
