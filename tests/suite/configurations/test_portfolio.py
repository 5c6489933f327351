"""Portfolios: by hand on a small matrix, and on banks whose best configurations are known."""

import itertools

import numpy as np
import pytest

from reports.leaderboard.budget import expected_best
from suite.configurations.portfolio import Losses, portfolio
from suite.configurations.warm_start import from_portfolio, portfolio_size
from suite.studies.entries import make_entries
from tests.support.banks import bank, peak, peaks, trials
from tests.support.searches import a_study
from trials.common.errors import UserError

MATRIX = np.array([[0.0, 4.0, 4.0], [3.0, 1.0, 9.0], [2.5, 2.5, 2.5], [9.0, 9.0, 0.0]])
"""Losses of four candidates in three scenarios."""


def losses(families) -> Losses:
    return Losses([{}] * 4, [], np.zeros(3), MATRIX, np.array(families), np.zeros((3, 1)), "points")


def test_greedy_by_hand():
    """Means 8/3, 13/3, 2.5, 6: the third is first. With the first it loses 0, 2.5, 2.5, with the second 2.5, 1, 2.5,
    with the fourth 2.5, 2.5, 0: 5/3 < 5/3 + ... = 2; the first and the fourth tie at 5/3, and the earlier is taken.
    """
    assert losses(["a", "b", "c"]).greedy(2, np.ones(3, bool)) == [2, 0]


def test_families_weigh_alike():
    """Two scenarios of one family count half each: 0.25 (0 + 4) + 0.5 * 4 = 3, against 2.5 and 0.25 * 4 + 4.5 and 4.5."""
    assert losses(["a", "a", "c"]).greedy(2, np.ones(3, bool)) == [2, 3]


def test_a_family_is_left_out_of_its_own_portfolio():
    """Without scenario 3, the second loses least (mean 2 and 2 tie with the first: 2); on it the first loses 4."""
    found = losses(["a", "b", "c"]).left_out(1)
    assert found[2].tolist() == [4.0]


def test_the_expected_best_of_random_trials_is_that_of_all_subsets():
    values = [0.3, -1.0, 2.0, 0.7, 0.7]
    for n, found in enumerate(expected_best([(value, value) for value in values]), 1):
        every = [max(of) for of in itertools.combinations(values, n)]
        assert found == pytest.approx(np.mean(every))


def test_two_groups_of_data_sets_get_one_configuration_each():
    """Best learning rates are 0.01 or 1: two configurations are near them, and elsewhere lose little."""
    found = portfolio("fedprox", 2, trials=peaks([0.01, 0.012, 1.0, 1.2], width=0.5))
    rates = sorted(member.params["lr"] for member in found.members)
    assert rates == pytest.approx([0.011, 1.1], rel=0.6)
    first, second = found.members
    assert second.loss < 2 < first.loss
    assert second.random_trials > first.random_trials
    assert found.families == ("family0", "family1", "family2", "family3")


def test_errors_and_accuracies_are_not_added_up():
    """Two data sets have accuracies, one, the first by name, an error: the portfolio is that of the two alone."""
    accuracies = peaks([0.01, 1.0])
    error = trials("a", lambda one: one["lr"], metric="mse")
    assert portfolio("fedprox", 2, trials=bank(error, accuracies)) == portfolio(
        "fedprox", 2, trials=accuracies
    )


def test_trials_of_other_settings_do_not_make_a_scenario_large_enough():
    """19 and 10 trials are no 20 of one benchmark."""
    few = bank(
        trials("a", peak(0.1), count=19), trials("a", peak(0.1), count=10, settings='{"rounds":9}')
    )
    whole = peaks([0.01, 1.0])
    assert portfolio("fedprox", trials=bank(few, whole)) == portfolio("fedprox", trials=whole)


def test_leaving_a_family_out_forgets_it():
    whole = peaks([0.01, 0.012, 1.0])
    without = portfolio("fedprox", 3, "family2", whole)
    assert without == portfolio("fedprox", 3, trials=whole[whole.family != "family2"])
    assert without.scenarios == 2
    with pytest.raises(UserError, match="Did you mean 'family2'"):
        portfolio("fedprox", 3, "famly2", whole)


def test_what_makes_no_portfolio():
    with pytest.raises(UserError, match="20 search trials of fedavg; it has trials of fedprox"):
        portfolio("fedavg", trials=peaks([0.1, 1.0]))
    few = bank(trials("digits", peak(0.1)), trials("wisdm", peak(0.1), count=19))
    with pytest.raises(UserError, match="two families"):
        portfolio("fedprox", trials=few)
    with pytest.raises(UserError, match="two families"):
        portfolio("fedprox", trials=trials("digits", peak(0.1)))


def test_a_study_starts_from_it(capsys):
    """Each entry gets its algorithm's, first to last; one that the bank does not know gets none, and that is said."""
    entries = make_entries(a_study(algorithms=["fedprox", "safl"]), "study")
    made = bank(peaks([0.01, 1.0]))
    started = from_portfolio(entries, 3, made)
    members = portfolio("fedprox", 3, trials=made).members
    for entry in entries:
        known = [one.params for one in started[entry.id]]
        expected = [m.params for m in members] if entry.algorithm == "fedprox" else []
        assert known == expected
        assert all(one.source.startswith("portfolio(3) of 2") for one in started[entry.id])
    assert "safl starts without a portfolio: " in capsys.readouterr().err
    assert portfolio_size("portfolio(4)") == 4
    assert portfolio_size("portfolio") is portfolio_size("nearest") is None
    with pytest.raises(UserError, match="at least 1"):
        portfolio_size("portfolio(0)")
