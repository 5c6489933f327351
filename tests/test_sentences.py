"""Sentences with numbers are held to what they are of: the code, a study, or a page that a command wrote."""

import itertools
import json
import re
from collections import defaultdict
from statistics import fmean

import pytest
import yaml

from reports.claims.metrics import metric
from suite.studies.initial_design import shared_draw
from suite.studies.study import read_study
from tests.support.pages import section
from tests.support.simulations import ROOT
from trials.algorithms import ALGORITHMS

DOCS = ROOT / "docs"
PLANNED = ROOT / "search_spaces" / "studies" / "edition3"
REPRODUCE = (DOCS / "reproduce.md").read_text()


def test_the_readme_counts_the_methods():
    (count,) = re.findall(r"references, (\d+) in all", (ROOT / "README.md").read_text())
    assert int(count) == len(ALGORITHMS)


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
    rows = re.findall(r"^\| `(\S+)` \|.* ± ", (DOCS / "data.md").read_text(), re.MULTILINE)
    assert set(study["datasets"]) <= set(rows)
    assert len(study["algorithms"]) == 7
    assert len(rows) == 9
    assert "Seven methods were tuned on each of nine natural federations" in said


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
