"""Places: one order, one spelling."""

import pytest

from trials.errors import UserError
from trials.place import Place


def test_a_place_in_a_line():
    assert str(Place("digits", "logreg", "iid")) == "digits · logreg · iid"


def test_every_spelling_is_one_place():
    wanted = Place("synthetic(1,1)", "mlp", "dirichlet(0.3)+sizes(lognormal(0.3))")
    loose = ("synthetic( 1, 1)", "mlp(200, 200)", " dirichlet( 0.30 ) + sizes(lognormal(0.3))")
    assert Place.canonical(*loose) == wanted
    assert Place.canonical(*wanted) == wanted


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
        Place.canonical(*names)


def test_what_names_the_parts_has_a_place():
    place = Place("digits", "logreg", "iid")
    assert Place.of(place) == place == Place(**place.names())
