"""Sentences with numbers are held to what they are of: the code, a study, or a page that a command wrote."""

import csv
import itertools
import re
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from reports.claims.metrics import metric
from suite.studies.initial_design import shared_draw
from tests.support.simulations import ROOT
from trials.algorithms import ALGORITHMS

DOCS = ROOT / "docs"
BOARD = DOCS / "results" / "board"
REPRODUCE = (DOCS / "reproduce.md").read_text()


def section(page: Path, heading: str) -> str:
    """What a page says under a heading, in one line."""
    of = page.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert of, heading
    return " ".join(of.split())


def test_the_readme_counts_the_methods():
    (count,) = re.findall(r"references, (\d+) in all", (ROOT / "README.md").read_text())
    assert int(count) == len(ALGORITHMS)


def planted() -> dict[str, list[float]]:
    """The shares of `docs/results/planted_papers.md` in percent, by figure; one a bank."""
    found = defaultdict(list)
    for line in (DOCS / "results" / "planted_papers.md").read_text().splitlines():
        if row := re.match(r"\| ([^|]+) \| (\d\.\d{3}) \| \d\.\d{3} \|", line):
            found[row[1]].append(100 * float(row[2]))
    return found


def both(figure: str) -> list[float]:
    """Of statements: an order, and being as good."""
    return planted()[f"order: {figure}"] + planted()[f"as good: {figure}"]


SAID = {
    "**ruled out**, of a reading": (
        planted()["the true reading is ruled out"],
        planted()["another declared reading is ruled out"],
    ),
    "**likely**, of a statement": (
        both("likely, it is false"),
        both("likely, it is true"),
    ),
    "**unlikely**, of a statement": (
        both("unlikely, it is true"),
        both("unlikely, it is false"),
    ),
}
"""By word: how often it is false, and how often it is said where it is right."""


@pytest.mark.parametrize("word", SAID)
def test_the_error_rates_of_readings_words_are_those_of_planted_papers(word):
    """The least and the most of all banks, rounded as they stand there."""
    (line,) = (line for line in REPRODUCE.splitlines() if line.startswith(f"| {word} |"))
    for cell, shares in zip(line.split(" | ")[2:], SAID[word], strict=True):
        ends = re.findall(r"[\d.]+", cell.partition("%")[0])
        assert len(ends) == 2, cell
        for end, share in zip(ends, (min(shares), max(shares)), strict=True):
            digits = len(end.partition(".")[2])
            assert abs(float(end) - share) <= 0.5001 * 10**-digits, (cell, share)


def test_how_often_another_reading_is_left_is_that_of_planted_papers():
    (share,) = re.findall(r"declared, (\d+) % leave another reading", " ".join(REPRODUCE.split()))
    (found,) = planted()["some reading is left, the truth is not declared, two rows or more"]
    assert int(share) == round(found)


@pytest.mark.parametrize(
    ("words", "name", "printed", "tolerance"),
    [
        ("accuracy | 1 point |", "test_accuracy", 90.0, 1.0),
        ("difference of two accuracies | 2 points |", "gain(fedavg)", 5.0, 2.0),
        (
            "rounds to a target | 20 % of the printed number, at least 2 rounds |",
            "rounds_to(90)",
            50.0,
            10.0,
        ),
        (
            "rounds to a target | 20 % of the printed number, at least 2 rounds |",
            "rounds_to(90)",
            5.0,
            2.0,
        ),
        ("speed-up | 20 % |", "speedup(90,fedavg)", 2.0, 0.4),
        ("loss, mean squared error | 10 % |", "test_loss", 0.5, 0.05),
        ("loss, mean squared error | 10 % |", "test_mse", 0.5, 0.05),
        ("uploads | 5 % |", "uploads", 1000.0, 50.0),
    ],
)
def test_the_tolerances_are_those_of_the_verdicts(words, name, printed, tolerance):
    assert f"| {words}" in REPRODUCE
    assert metric(name).tolerance(printed) == pytest.approx(tolerance)


def test_how_far_apart_shared_rates_are():
    (least,) = re.findall(
        r"of any eight no two are nearer than (\d+) % of the range",
        " ".join((DOCS / "search.md").read_text().split()),
    )
    for seed in range(20):
        drawn = sorted(shared_draw(k, ("digits", "logreg", "iid"), (seed,)) for k in range(8))
        nearest = min(b - a for a, b in itertools.pairwise(drawn))
        assert nearest >= int(least) / 100


def test_the_natural_federations_were_tuned_as_is_said():
    said = section(DOCS / "data.md", "Natural federations")
    study = yaml.safe_load((ROOT / "search_spaces" / "studies" / "natural.yaml").read_text())
    for words in (
        f"{study['trials']} trials",
        f"{study['seeds']} final runs",
        f"{study['settings']['rounds']} rounds",
    ):
        assert words in said
    with (DOCS / "results" / "natural.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["algorithm"] for row in rows} == set(study["algorithms"])
    assert set(study["datasets"]) <= {row["dataset"] for row in rows}
    assert len(study["algorithms"]) == 7
    assert len({row["dataset"] for row in rows}) == 9
    assert "Seven methods were tuned on each of nine natural federations" in said


def test_the_boards_table_and_counts_are_those_of_its_rows():
    """`board.csv`: who is shown not to be the best how often, who has the highest mean, and how many may be the best."""
    page = section(DOCS / "results" / "README.md", "A leaderboard of 18 methods")
    with (BOARD / "board.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    index = (BOARD / "index.html").read_text()
    counts, leads, maybe = defaultdict(int), defaultdict(int), defaultdict(int)
    for row in rows:
        counts[row["algorithm"]] += row["within_noise"] == "False"
        leads[row["algorithm"]] += row["rank"] == "1"
        maybe[row["dataset"], row["heterogeneity"]] += row["within_noise"] == "True"
    said = {}
    for times, names in re.findall(r"\| in (no scenario|\d)[^|]* \| ([\w, ]+) \|", page):
        said |= dict.fromkeys(names.split(", "), int(times) if times.isdigit() else 0)
    assert said == counts
    assert (leads["fedumf_feddc"], leads["feddyn"], sum(leads.values())) == (5, 2, 7)
    assert "FedUmf with FedDC has the highest mean in 5 scenarios and FedDyn in 2" in page
    assert (min(maybe.values()), max(maybe.values())) == (3, 18)
    assert (maybe["hapt", "natural"], maybe["heart_disease", "natural"]) == (3, 18)
    assert "3 methods (`hapt`) to 18 (`heart_disease`) may be" in page
    (p,) = re.findall(r"Friedman over 6 families of data sets: p = ([\d.e-]+)", index)
    assert f"Friedman's test says that the methods are not all alike (p = {p})" in page
    assert "no test tells any two apart" in index
    pages = (BOARD / "scenarios").glob("*.html")
    searched = {n for of in pages for n in re.findall(r">(\d) in 20<", of.read_text())}
    assert (min(searched), max(searched)) == ("1", "4")
    assert "one to four tuned hyperparameters share 20 trials" in page
