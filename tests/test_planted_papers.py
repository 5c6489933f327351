"""The short form of `benchmarks/planted_papers.py`: 120 papers of the shipped bank, judged as the command judges."""

import numpy as np
import pytest

from planted_judge import KINDS, Judged, Values, draw, judge
from planted_papers import FAILED_WORD, Share, calibration, figures, likelihood_ratios
from reports.claims.fit import FAILS, HOLDS


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    values, rng = Values.read("digits"), np.random.default_rng(7)
    return [judge(values, draw(values, rng)) for _ in range(120)]


def test_words_are_false_as_seldom_as_the_docs_say(judged):
    """Up to two Monte Carlo errors. What the page says is not reached is not asked for here."""
    shares = {figure.says: figure.share for figure in figures(judged)}
    assert shares["the true reading fits"].value >= 0.9
    for kind in KINDS:
        for wrong in (f"{HOLDS}, it is false", f"{FAILED_WORD[kind]}, it is true"):
            share = shares[f"{kind}: {wrong}"]
            assert share.value <= 0.05 + 2 * share.error, (kind, wrong)
    ratios = dict(likelihood_ratios(judged))
    assert min(ratios[f"{kind}: {word}"] for kind in KINDS[1:] for word in (HOLDS, FAILS)) >= 5
    error, lines = calibration(judged, KINDS[1:])
    assert error <= 0.1
    assert sum(int(line[-1]) for line in lines) > 200


def test_a_share_and_its_error():
    """1 of 4: sqrt(1/4 * 3/4 / 4)."""
    found = Share.among([True, False, False, False])
    assert (found.value, found.error) == (0.25, pytest.approx((3 / 64) ** 0.5))


def test_a_paper_is_judged_alike_each_time():
    values = Values.read("digits")
    papers = [draw(values, np.random.default_rng(3)) for _ in range(2)]
    assert str(papers[0]) == str(papers[1])
    assert str(judge(values, papers[0]).claims) == str(judge(values, papers[1]).claims)
