"""Sentences with numbers are held to what they are of: the code, a study, or a page that a command wrote."""

import itertools
import re

import pytest

from reports.claims.verdicts import metric
from suite.search.candidates import shared_draw
from tests.support.simulations import ROOT
from trials.algorithms import ALGORITHMS

DOCS = ROOT / "docs"
REPRODUCE = (DOCS / "reproduce.md").read_text()


def test_the_readme_counts_the_methods():
    (count,) = re.findall(r"references, (\d+) in all", (ROOT / "README.md").read_text())
    assert int(count) == len(ALGORITHMS)


TOLERANCES = {
    "accuracy | 1 point |": {"test_accuracy": (90.0, 1.0)},
    "difference of two accuracies | 2 points |": {"gain(fedavg)": (5.0, 2.0)},
    "rounds to a target | 20 % of the printed number, at least 2 rounds |": {
        "rounds_to(90)": (50.0, 10.0),
        "rounds_to(80)": (5.0, 2.0),
    },
    "speed-up | 20 % |": {"speedup(90,fedavg)": (2.0, 0.4)},
    "loss, mean squared error | 10 % |": {"test_loss": (0.5, 0.05), "test_mse": (0.5, 0.05)},
    "uploads | 5 % |": {"uploads": (1000.0, 50.0)},
}
"""Of each line of the table: a metric's tolerance of a printed number."""


def test_the_tolerances_are_those_of_the_verdicts():
    for words, metrics in TOLERANCES.items():
        assert f"| {words}" in REPRODUCE
        for name, (printed, tolerance) in metrics.items():
            assert metric(name).tolerance(printed) == pytest.approx(tolerance)


def test_how_far_apart_shared_rates_are():
    (least,) = re.findall(
        r"of eight in a row, any two are at least (\d+) % of the range apart",
        " ".join((DOCS / "search.md").read_text().split()),
    )
    for seed in range(20):
        drawn = sorted(shared_draw(k, ("digits", "logreg", "iid"), (seed,)) for k in range(8))
        nearest = min(b - a for a, b in itertools.pairwise(drawn))
        assert nearest >= int(least) / 100
