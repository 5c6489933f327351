"""A headline says what the tables below it show, and names no leader of a tie."""

from reports.page.page import headline
from tests.support.boards import A, B, C, board_of, runs

OTHER = {"heterogeneity": "labels(2)"}


def test_only_methods_that_are_shown_to_be_the_best_are_named():
    each = board_of(runs("a", A), runs("b", C), runs("a", C, **OTHER), runs("b", A, **OTHER))
    assert headline(each)[0] == "a, b: shown to be the best in 1 of 2 scenarios each"
    tied = board_of(runs("a", A), runs("c", C), runs("a", A, **OTHER), runs("b", A, **OTHER))
    assert headline(tied)[0] == "a: shown to be the best in 1 of 2 scenarios"
    close = board_of(runs("a", A), runs("b", B), runs("a", A, **OTHER), runs("b", B, **OTHER))
    assert headline(close)[0].startswith("No method is shown")


def test_an_exact_tie_has_no_leader():
    lead, more = headline(board_of(runs("a", A), runs("b", A), runs("c", C)))
    assert lead == "2 of 3 configurations may be the best on digits · logreg · iid"
    assert more.startswith("Highest mean: a and b: tied at 91.0 ± 2.0 % test accuracy.")


def test_no_leader_is_named_over_families_where_no_two_methods_differ():
    methods = (("a", A), ("b", B))
    found = [runs(name, of, dataset=d) for d in ("digits", "mnist") for name, of in methods]
    assert headline(board_of(*found))[0].endswith("over 2 families of data sets")
