"""The third edition: its design is the one that was written down, and its analysis is what that says."""

import hashlib
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import edition
from tests.support.simulations import ROOT

TABLES = ROOT / "search_spaces" / "bank"
STUDIES = sorted((ROOT / "search_spaces" / "studies" / "edition3").glob("*.yaml"))


def test_the_design_is_the_one_that_was_written_before_its_runs():
    """Of each file all but its first line, which names a command."""
    content = b"".join(path.read_bytes().partition(b"\n")[2] for path in STUDIES)
    digest = hashlib.sha256(content).hexdigest()[:16]
    assert f"design: {digest}\n" in (ROOT / "docs" / "edition3.md").read_text()


SCENARIO = {"model": "logreg", "heterogeneity": "iid", "tuning": 0, "split": 0, "seconds": 1.0}


def finals(scores, study="e3", family="digits", seeds=2):
    """Final runs: scores[method][unit] of every seed."""
    return pd.DataFrame(
        {
            **SCENARIO, "kind": "final", "study": study, "family": family, "dataset": family, "partition": unit,
            "algorithm": method, "test_score": score + shift, "seed": seed, "trial_id": str(seed),
        }
        for method, values in scores.items()
        for unit, score in enumerate(values)
        for seed, shift in enumerate(np.linspace(-0.01, 0.01, seeds))
    )  # fmt: skip


def test_the_effect_is_the_paired_difference_with_a_corrected_t_interval():
    base = np.linspace(0.8, 0.9, 8)
    shifts = np.array([1, 2, 3, 4, 1, 2, 3, 4]) / 100
    trials = finals({"fedavg": base, "folb": base + shifts, "safl": base - shifts})
    table = edition.effects(edition.gaps(trials, {"e3": (3, 2)})).set_index("algorithm")
    assert table.gap.to_dict() == pytest.approx({"folb": 2.5, "safl": -2.5})
    half = stats.t.ppf(1 - 0.05 / 2 / 2, 7) * np.std(100 * shifts, ddof=1) / 8**0.5
    assert table.low["folb"] == pytest.approx(2.5 - half)
    assert table.high["safl"] == pytest.approx(-2.5 + half)
    cut = edition.gaps(trials.drop(index=[0]), {"e3": (3, 2)})
    assert len(cut) == 14, "a unit without all its final runs does not count"


def test_the_page_is_what_the_script_makes_of_the_shipped_tables():
    text = edition.page(pd.read_parquet(TABLES), edition.planned())
    assert (ROOT / "docs" / "results" / "edition3.md").read_text() == text
    said, _, _ = text.partition("## Answer")[2].partition(" Points of")
    assert said.strip() in (ROOT / "README.md").read_text()


def test_the_shipped_tables_are_small_and_sound():
    """Every column is described, and no trial is there twice."""
    assert sum(path.stat().st_size for path in TABLES.glob("*.parquet")) < 20e6
    trials = pd.read_parquet(TABLES)
    assert not trials.trial_id.isna().any()
    assert trials.family.nunique() >= 8
    assert set(trials.study) == {path.stem for path in TABLES.glob("*.parquet")}
    assert not trials[["study", "trial_id", "configuration", "seed"]].duplicated().any()
    told = (ROOT / "docs" / "edition3.md").read_text().partition("## Tables\n")[2]
    cells = re.findall(r"^\| (`.+?`) \|", told, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == set(trials.columns)
