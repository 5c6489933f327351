"""A headline says what the tables below it show, and names no leader of a tie."""

from reports.page.headline import headline
from reports.wording.formats import render
from tests.support.boards import A, B, C, board_of, runs

OTHER = {"heterogeneity": "labels(2)"}


def test_methods_that_are_first_in_equally_many_cells_are_named_together() -> None:
    board = board_of(runs("a", A), runs("b", C), runs("a", C, **OTHER), runs("b", A, **OTHER))
    assert headline(board)[0] == "a, b: shown to be the best in 1 of 2 scenarios each"


def test_a_shared_first_rank_and_one_that_noise_may_explain_count_for_nobody() -> None:
    clear = board_of(runs("a", A), runs("c", C), runs("a", A, **OTHER), runs("b", A, **OTHER))
    assert headline(clear)[0] == "a: shown to be the best in 1 of 2 scenarios"
    close = board_of(runs("a", A), runs("b", B), runs("a", A, **OTHER), runs("b", A, **OTHER))
    assert [row.within_noise for row in close.rows] == [True] * 4
    assert headline(close)[0] == "In none of 2 scenarios is one method shown to be the best"


def test_an_exact_tie_has_no_leader() -> None:
    board = board_of(runs("a", A), runs("b", A), runs("c", C))
    lead, known = headline(board)
    assert lead == "2 of 3 configurations may be the best on digits · logreg · iid"
    assert known.startswith("Highest mean: a and b: tied at 91.0 ± 2.0 % test accuracy.")
    lines = [line.split(" | ")[0] for line in render(board, "md").splitlines() if " ± " in line]
    assert lines == ["| 1=", "| 1=", "| 3"]


def test_no_leader_is_named_over_families_where_no_two_methods_differ() -> None:
    found = [
        runs(name, of, dataset=d) for d in ("digits", "mnist") for name, of in (("a", A), ("b", B))
    ]
    lead, known = headline(board_of(*found))
    assert lead == "No method is shown to be ahead over 2 families of data sets"
    assert "Over 2 families of data sets no test tells any two methods apart." in known


def test_of_one_scenario_a_leader_is_named_where_no_other_may_be_the_best() -> None:
    lead, _ = headline(board_of(runs("a", A), runs("c", C)))
    assert lead.startswith("a: 91.0 ± 2.0 % test accuracy")
    assert lead.endswith(" test accuracy on digits · logreg · iid")
