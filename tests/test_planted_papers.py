"""The short form of `benchmarks/planted_papers.py`: 120 papers of the shipped bank, judged as the command judges."""

import re

import numpy as np
import pytest

from planted_judge import KINDS, Judged, Values, draw, judge
from planted_papers import OTHERS, Share, calibration, figures, likelihood_ratios
from reports.claims.fit import LEAST, LIKELY, UNLIKELY
from tests.support.simulations import ROOT


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    values, rng = Values.read("digits"), np.random.default_rng(7)
    return [judge(values, draw(values, rng)) for _ in range(120)]


def test_words_are_false_as_seldom_as_the_docs_say(judged):
    """Up to two Monte Carlo errors. What the page says is not reached is not asked for here."""
    shares = {figure.says: figure.share for figure in figures(judged)}
    assert shares["the true reading is left"].value >= 0.9
    wrong = [
        f"{kind}: {w}"
        for kind in KINDS
        for w in (f"{LIKELY}, it is false", f"{UNLIKELY}, it is true")
    ]
    for says in (*wrong, "the true reading is ruled out"):
        assert shares[says].value <= 0.05 + 2 * shares[says].error, says
    ratios = dict(likelihood_ratios(judged))
    said = [f"{kind}: {word}" for kind in KINDS for word in (LIKELY, UNLIKELY)]
    assert min(ratios[one] for one in (*said, "ruled out")) >= 5
    assert calibration(judged) <= 0.1


PAGE = (ROOT / "docs" / "results" / "planted_papers.md").read_text()


def test_the_least_chance_is_the_one_that_bank_digits_gives():
    """The least step at which both errors are at most 5 %, on the page."""
    digits = PAGE.partition("## Bank mlp")[0]
    rows = re.findall(r"\| (0\.\d\d) \| (0\.\d{3}) \| (0\.\d{3}) \|", digits)
    assert len(rows) == 10
    errors = {float(least): max(float(one) for one in wrong) for least, *wrong in rows}
    assert min(least for least, error in errors.items() if error <= 0.05) == LEAST


def test_what_is_not_reached_is_what_the_page_says_of_words_that_are_gone():
    missed = set(re.findall(r"\| ([^|]+) \|[^\n]*\| no \|", PAGE))
    holds = {f"{kind}: {LIKELY}, it is true, its variant is named" for kind in KINDS}
    fits = {f"{OTHERS}, two rows or more", "no reading is left (not said)"}
    assert missed == holds | fits
    assert max(map(float, re.findall(r"are off by (0\.\d{3})", PAGE))) > 0.05


def test_a_share_and_its_error():
    """1 of 4: sqrt(1/4 * 3/4 / 4)."""
    found = Share.among([True, False, False, False])
    assert (found.value, found.error) == (0.25, pytest.approx((3 / 64) ** 0.5))


def test_a_paper_is_judged_alike_each_time():
    values = Values.read("digits")
    papers = [draw(values, np.random.default_rng(3)) for _ in range(2)]
    assert str(papers[0]) == str(papers[1])
    assert str(judge(values, papers[0]).claims) == str(judge(values, papers[1]).claims)
