"""Simulated searches on a bank that is made up: what they know is of other families, and pays where these are alike."""

from itertools import pairwise

import numpy as np
import pytest

from searchers import KNOWN, TRIALS, pairs, searchers
from tests.support.banks import bank, peak, trials

ALIKE = bank(
    *(trials(f"family{i}", peak(at, 0.3), "fedavg") for i, at in enumerate([2.0, 2.1, 1.9])),
    *(trials(f"family{i}", peak(0.004, 0.3), "fedprox") for i in range(3)),
)
"""Far from the default rate of 0.1; FedProx's best rates are no good for FedAvg."""


@pytest.fixture(scope="module")
def found():
    return pairs(ALIKE, ["fedavg", "fedprox"])[0]


def test_a_search_is_a_function_of_its_seed_and_regret_never_rises(found):
    one = found[0]
    for knows in KNOWN:
        regret = one.search("random", knows, 1)
        assert len(regret) == TRIALS
        assert regret == one.search("random", knows, 1)
        assert all(a >= b >= -1e-9 for a, b in pairwise(regret))
        assert regret[0] == pytest.approx(
            100 * (one.best - one.benchmark.predicted([{"lr": 0.1}])[0])
        )


def test_a_portfolio_of_families_that_are_alike_is_the_answer_after_the_default(found):
    """The second trial is the portfolio's first: as good as it gets; a cold search takes longer."""
    for one in (pair for pair in found if pair.benchmark.algorithm == "fedavg"):
        assert one.search("random", "portfolio", 0)[1] < 1
        assert np.mean([one.search("random", "cold", seed)[1] for seed in range(5)]) > 5


def test_the_bad_prior_is_another_algorithms(found):
    for one in found:
        far = 0.004 if one.benchmark.algorithm == "fedavg" else 2.0
        assert one.bad[0]["lr"] == pytest.approx(far, rel=0.6)


def test_the_document():
    document = searchers(ALIKE, ["fedavg"], ["tpe"], 1)
    assert [row["search"] for row in document["searches"]] == [f"tpe, {knows}" for knows in KNOWN]
    assert (document["pairs"], document["families"]) == (3, 3)
    (asked,) = document["portfolios"]
    assert asked["first_within_1_point"] == 1.0
    assert set(map(len, document["curves"].values())) == {TRIALS}
