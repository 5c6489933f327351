"""Places: one order, one spelling."""

import pytest

from trials.common.errors import UserError
from trials.run.scenario import Scenario


def test_a_place_in_a_line():
    assert str(Scenario("digits", "logreg", "iid")) == "digits · logreg · iid"


def test_every_spelling_is_one_place():
    wanted = Scenario("synthetic(1,1)", "mlp", "dirichlet(0.3)+sizes(lognormal(0.3))")
    loose = ("synthetic( 1, 1)", "mlp(200, 200)", " dirichlet( 0.30 ) + sizes(lognormal(0.3))")
    assert Scenario.canonical(*loose) == wanted
    assert Scenario.canonical(*wanted) == wanted


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (("digit", "logrg", "idd"), "'digits'"),
        (("digits", "logrg", "idd"), "'logreg'"),
        (("digits", "logreg", "idd"), "'iid'"),
    ],
)
def test_the_first_part_that_is_none_is_named(names, hint):
    with pytest.raises(UserError, match=f"Did you mean {hint}"):
        Scenario.canonical(*names)


def test_what_names_the_parts_has_a_place():
    place = Scenario("digits", "logreg", "iid")
    assert Scenario.of(place) == place == Scenario(**place.names())
