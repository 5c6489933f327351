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


SCENARIO = {
    "classes": 10,
    "model": "logreg",
    "heterogeneity": "iid",
    "tuning": 0,
    "split": 0,
    "seconds": 1.0,
}


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


def searched(method, unit, cost, val, test):
    """A search trial of 4 rounds with these curves at rounds 1 to 4."""
    return {
        **SCENARIO, "kind": "search", "study": "e3", "family": "digits", "dataset": "digits", "partition": unit,
        "algorithm": method, "rounds": 4, "status": "finished", "bytes": cost,
        "evaluations": np.arange(1, 5), "val_curve": np.array(val), "test_curve": np.array(test),
    }  # fmt: skip


def test_at_equal_bytes_a_method_that_sends_more_has_fewer_rounds_and_its_own_configuration():
    """folb sends 160 bytes where fedavg sends 100: it has 2.5 of 4 rounds, where its other trial validates best."""
    late, early = [0.1, 0.2, 0.9, 0.9], [0.5, 0.7, 0.7, 0.7]  # 0.55 and 0.7 after 2.5 rounds
    rows = [
        searched("fedavg", 0, 100, [0.6] * 4, [0.5, 0.6, 0.6, 0.6]),
        searched("folb", 0, 160, late, [0.1, 0.2, 0.8, 0.8]),
        searched("folb", 0, 160, early, [0.4, 0.6, 0.7, 0.7]),
    ]
    trials = pd.concat(
        [finals({"fedavg": [0.8], "folb": [0.8]}), pd.DataFrame(rows)], ignore_index=True
    )
    whole = edition.gaps(trials, {"e3": (2, 2)})
    (at_bytes,) = edition.at_equal(trials, whole, "bytes").gap
    assert at_bytes == pytest.approx(100 * (0.65 - 0.6)), "half-way from 0.6 to 0.7"
    (at_rounds,) = edition.at_equal(trials, whole, None).gap
    assert at_rounds == pytest.approx(100 * (0.8 - 0.6))


def test_a_scenario_of_chance_is_void_and_tau_is_over_all_halves_of_the_families():
    """Ten classes, so chance is 0.1; folb is ahead in three families, safl behind in all but one."""
    trials = pd.concat(
        finals({"fedavg": [0.5] * 8, "folb": [0.5 + folb] * 8, "safl": [0.4] * 8}, family=family)
        for family, folb in zip("abcdef", [0.1, 0.1, 0.1, -0.1, -0.1, -0.1], strict=True)
    )
    noise = np.linspace(-0.05, 0.05, 8)
    lost = finals({"fedavg": 0.11 + noise, "folb": 0.1 + noise, "safl": [0.1] * 8}, family="g")
    whole = edition.gaps(pd.concat([trials, lost]), {"e3": (3, 2)})
    left = edition.without(pd.concat([trials, lost]), whole)
    assert [key[1] for key in left] == ["g"]
    table = edition.effects(whole, left)
    means = edition.over_families(table).set_index("algorithm")
    assert means.families.to_dict() == {"folb": 6, "safl": 6}
    # 18 of 20 halves have folb at +-10/3 and swap it with fedavg, tau 1/3; two have it at +-10, once beside safl, tau-b 0
    assert edition.halves(table) == (pytest.approx(0.3), 20)


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
