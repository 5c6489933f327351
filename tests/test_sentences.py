"""Sentences with numbers are held to what they are of: the code, a study, or a page that a command wrote."""

import csv
import itertools
import json
import re
from collections import defaultdict
from statistics import fmean

import pytest
import yaml
from scipy.stats import friedmanchisquare

from reports.claims.metrics import metric
from suite.studies.initial_design import shared_draw
from suite.studies.study import read_study
from tests.support.pages import section
from tests.support.simulations import ROOT
from trials.algorithms import ALGORITHMS

DOCS = ROOT / "docs"
BOARD = DOCS / "results" / "board"
PLANNED = ROOT / "search_spaces" / "studies" / "edition3"
REPRODUCE = (DOCS / "reproduce.md").read_text()


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


def test_the_board_was_tuned_as_is_said():
    page = section(DOCS / "results" / "README.md", "A leaderboard of 18 methods")
    digits, natural = (read_study(f"methods_{of}", {})[1] for of in ("digits", "natural"))
    for study in (digits, natural):
        assert len(study.algorithms) == 18
        assert max(study.partitions, study.splits) == 8
        assert (study.trials, study.confirm.best * study.confirm.seeds, study.seeds) == (20, 6, 5)
        assert study.settings.rounds == 30
    assert "18 methods" in page
    assert "tuned eight times, on eight partitions or splits: 20 search trials, six that" in page
    assert "confirm the best three, and five final runs" in page
    assert "30 rounds reward speed" in page
    scenarios = sum(len(of.datasets) * len(of.heterogeneity) for of in (digits, natural))
    assert f"{18 * scenarios * 8 * (20 + 6 + 5):,} trials" in page
    with (BOARD / "board.csv").open(newline="") as file:
        away = {row["algorithm"] for row in csv.DictReader(file) if row["away"]}
    assert away == {"safl", "fedagg", "folb"}
    assert "SAFL, FedAgg and FOLB run away from their papers' settings" in page


def test_the_named_boards_are_what_is_said_of_them():
    text = section(DOCS / "board.md", "By name")
    with (BOARD / "board.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["algorithm"] for row in rows}) == 18
    assert len({(row["dataset"], row["heterogeneity"]) for row in rows}) == 7
    assert "18 methods in seven scenarios" in text
    files = list((ROOT / "search_spaces" / "tuned" / "second").glob("*/*/*/*.yaml"))
    scenarios = {path.parent for path in files}
    methods = {path.stem for path in files}
    said = f"{len(files)} configurations of {len(methods)} algorithms in {len(scenarios)} scenarios"
    assert said in text


def test_the_edition_s_page_counts_its_studies_and_its_winners():
    page = " ".join((DOCS / "edition3.md").read_text().split())
    planned = {path.stem: read_study(str(path), {})[1] for path in PLANNED.glob("*.yaml")}
    usual = {
        name: len(of.datasets) * len(of.models) * len(of.heterogeneity)
        for name, of in planned.items()
        if name not in ("e3_20_cifar", "e3_21_plays")
    }
    assert f"of one core for {sum(usual.values())} scenarios, without" in page
    hours = re.findall(r"\| `(e3_\w+)` \|.*?\| (\d+) \| ([\d.]+) \| ([\d.]+) \|", page)
    assert [name for name, *_ in hours] == sorted(planned)
    for name, trials, seconds, said in hours:
        assert float(said) == pytest.approx(int(trials) * float(seconds) / 3600, rel=0.06), name
    total = sum(float(said) for name, *_, said in hours if name in usual)
    assert f"The total is {total:.0f} hours" in page
    fewer = defaultdict(set)
    for of in planned.values():
        fewer[of.trials] |= set(of.models)
    assert sorted(fewer) == [12, 16, 24]
    assert fewer[16] == {"mlp(200,200)"}
    assert fewer[12] == {"lenet5", "feddc_cnn", "char_lstm"}
    results = " ".join((DOCS / "results" / "README.md").read_text().split())
    out = " ".join((DOCS / "results" / "edition3.md").read_text().split())
    (done,) = re.findall(r"Complete units are there of (\d+) scenarios", out)
    (families,) = re.findall(r"Equally tuned, over (\d+) families", out)
    assert f"has {done} scenarios of {families} families so far" in results


def test_simulated_searches_are_those_of_their_document():
    page = (DOCS / "results" / "searchers.md").read_text()
    found = json.loads((DOCS / "results" / "searchers.json").read_text())
    flat = " ".join(page.split())
    counts = f"{found['pairs']} pairs of an algorithm and one of {found['scenarios']} scenarios from {found['families']} families"
    assert counts in flat
    for of in found["searches"]:
        cells = [f"{of[f'after {trials}']:.2f}" for trials in (1, 4, 5, 8, 16, 32)]
        interval = f"{of['after_8_low']:.2f} to {of['after_8_high']:.2f}"
        assert f"| {of['search']} | {' | '.join(cells)} | {interval} |" in page
    tpe, random = found["curves"]["tpe"], found["curves"]["random"]
    assert all(a < b for a, b in zip(tpe[15:], random[15:], strict=True))
    assert tpe[:8] == random[:8]


def test_shares_of_boards_are_those_of_the_table_above_them():
    """Of the methods that are ranked; DeFed is not."""
    page = (DOCS / "statistics.md").read_text()
    held, alone = [], []
    for names, both, one in re.findall(
        r"^\| (`.+?) \|.*\| (\d+)% \| (\d+)% \|$", page, re.MULTILINE
    ):
        methods = names.count("`") // 2
        if names != "`defed`":
            held += [int(both)] * methods
            alone += [int(one)] * methods
    assert len(held) == 16
    said = f"holds {fmean(held):.0f} % of the means of 16, and the seeds of one tuning {fmean(alone):.0f} %"
    assert said in " ".join(page.split())


def test_friedman_s_test_over_natural_federations():
    with (DOCS / "results" / "natural.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = list(
        dict.fromkeys(
            re.findall(r"^\| `(\w+)(?:\(.*\))?` \| [\d.]+ ±", (DOCS / "data.md").read_text(), re.M)
        )
    )
    scores = defaultdict(list)
    for name in names[:6]:
        for row in rows:
            if row["dataset"] == name and row["algorithm"] != "defed":
                scores[row["algorithm"]].append(float(row["mean"]))
    p = friedmanchisquare(*scores.values()).pvalue
    assert f"Friedman test on ranks, p = {p:.2f}" in section(
        DOCS / "data.md", "Natural federations"
    )


def test_what_is_said_of_the_simulated_boards_is_in_their_document():
    page = " ".join((DOCS / "statistics.md").read_text().split())
    found = json.loads((DOCS / "results" / "calibration.json").read_text())
    assert f"{found['boards']:,} boards of 5, 7 and 18 methods" in page
    assert f"a Monte Carlo error of {found['monte carlo error']} points at 5 %" in page
    family, rows = (
        max(of[f"false by {unit}"] for of in found["friedman"]) for unit in ("family", "data set")
    )
    assert f"different in at most {family:.1f} % of boards" in page
    assert f"With a row for each data set it does so in up to {rows:.0f} %" in page


def test_the_agreement_with_other_frameworks_counts_its_pairs():
    page = (DOCS / "agreement.md").read_text()
    pairs = json.loads((ROOT / "benchmarks" / "agreement.json").read_text())["pairs"]
    assert len({pair["peer"] for pair in pairs}) == 4
    assert f"Four frameworks and {len(pairs)} pairs were compared" in page
    parted = [pair for pair in pairs if pair["first_round_apart"] is not None]
    assert parted
    assert all(pair["corrected"]["first_round_apart"] is None for pair in parted)
