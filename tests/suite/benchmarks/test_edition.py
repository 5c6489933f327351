"""The third edition: its design is the one that was written down, and its analysis is what that says."""

import hashlib
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import edition
import plots
from suite.studies.entries import make_entries
from suite.studies.study import read_study
from tests.support.simulations import ROOT
from trials import datasets

TABLES = ROOT / "search_spaces" / "bank"
STUDIES = sorted((ROOT / "search_spaces" / "studies" / "edition3").glob("*.yaml"))


def test_the_design_is_the_one_that_was_written_before_its_runs():
    """Of each file all but its first line, which names a command."""
    content = b"".join(path.read_bytes().partition(b"\n")[2] for path in STUDIES)
    digest = hashlib.sha256(content).hexdigest()[:16]
    assert f"design: {digest}\n" in (ROOT / "docs" / "edition3.md").read_text()


def test_the_design_has_the_scenarios_families_and_units_that_it_names():
    page, scenarios, families, convolutional = (
        (ROOT / "docs" / "edition3.md").read_text(),
        0,
        set(),
        0,
    )
    for path in STUDIES:
        name, study = read_study(str(path), {})
        assert f"| `{name}` |" in page
        made = make_entries(study, name)
        assert "fedavg" in study.algorithms
        assert len(study.replicates) >= 4
        of = {entry.scenario for entry in made}
        scenarios += len(of)
        families |= {datasets.family(scenario.dataset) for scenario in of}
        convolutional += sum(s.model.startswith(("lenet5", "feddc_cnn")) for s in of)
    assert (scenarios, len(families) >= 8, convolutional) == (37, True, 4)


def finals(scores, study="e3", family="digits", seeds=2):
    """Final runs: scores[method][unit] of every seed."""
    return pd.DataFrame(
        {
            "kind": "final", "study": study, "family": family, "dataset": family, "model": "logreg",
            "heterogeneity": "iid", "tuning": 0, "partition": unit, "split": 0, "seconds": 1.0,
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


def test_a_unit_without_all_its_final_runs_does_not_count():
    trials = finals({"fedavg": [0.8] * 8, "folb": [0.9] * 8})
    whole = edition.gaps(trials, {"e3": (2, 2)})
    assert len(whole) == 8
    assert len(edition.gaps(trials.drop(index=[0]), {"e3": (2, 2)})) == 7
    assert edition.gaps(trials[trials.algorithm == "folb"], {"e3": (2, 2)}).empty


def test_few_units_say_nothing_of_methods():
    few = edition.page(finals({"fedavg": [0.8] * 7, "folb": [0.9] * 7}), {"e3": (2, 2)})
    assert "of these configurations" in few
    assert "| ahead |" not in few
    enough = edition.page(
        finals({"fedavg": [0.8] * 8, "folb": np.linspace(0.9, 0.92, 8)}), {"e3": (2, 2)}
    )
    assert "| ahead |" in enough
    assert "Too few families are complete to say anything of methods beyond" in enough
    assert "nothing is said" in edition.page(finals({"fedavg": [0.8]}), {"other": (2, 2)})


def many(scores):
    """Finals of six families."""
    return pd.concat([finals(scores, family=name) for name in "abcdef"], ignore_index=True)


def halved(trials):
    return edition.halves(trials, edition.gaps(trials, {"e3": (3, 2)}))


def test_halves_of_units_and_seeds_rank_alike_or_not():
    """Even units say folb < fedavg < safl, odd ones the same or the reverse; of a unit half the seeds are seen."""
    level = [0.8] * 8
    ahead, behind = [0.9] * 8, [0.7] * 8
    same = many({"fedavg": level, "folb": behind, "safl": ahead})
    assert halved(same) == (1.0, 3)
    turned = many({"fedavg": level, "folb": [0.9, 0.7] * 4, "safl": [0.7, 0.9] * 4})
    assert halved(turned) == (-1.0, 3)
    few = finals({"fedavg": level, "folb": behind, "safl": ahead})
    assert halved(few) is None


def searched(method, unit, cost, val, test):
    """A search trial of 4 rounds with these curves at rounds 1 to 4."""
    return {
        "kind": "search", "study": "e3", "family": "digits", "dataset": "digits", "model": "logreg",
        "heterogeneity": "iid", "tuning": 0, "partition": unit, "split": 0, "seconds": 1.0,
        "algorithm": method, "rounds": 4, "status": "finished", "bytes": cost,
        "evaluations": np.arange(1, 5), "val_curve": np.array(val), "test_curve": np.array(test),
    }  # fmt: skip


def test_at_equal_bytes_a_method_that_sends_twice_has_half_the_rounds_and_its_own_configuration():
    """folb sends 200 bytes where fedavg sends 100: it has rounds 1 and 2, where its other trial validates best."""
    late, early = [0.1, 0.2, 0.9, 0.9], [0.5, 0.7, 0.7, 0.7]
    rows = [
        searched("fedavg", 0, 100, [0.6] * 4, [0.5, 0.6, 0.6, 0.6]),
        searched("folb", 0, 200, late, [0.1, 0.2, 0.8, 0.8]),
        searched("folb", 0, 200, early, [0.4, 0.6, 0.7, 0.7]),
    ]
    trials = pd.concat(
        [finals({"fedavg": [0.8], "folb": [0.8]}), pd.DataFrame(rows)], ignore_index=True
    )
    whole = edition.gaps(trials, {"e3": (2, 2)})
    (at_bytes,) = edition.at_equal(trials, whole, "bytes").gap
    assert at_bytes == pytest.approx(100 * (0.6 - 0.6))
    (at_rounds,) = edition.at_equal(trials, whole, None).gap
    assert at_rounds == pytest.approx(100 * (0.8 - 0.6))


def test_the_answer_over_families_and_its_picture(tmp_path):
    level = [0.8] * 8
    trials = many({"fedavg": level, "folb": [0.7] * 8, "safl": list(np.linspace(0.79, 0.81, 8))})
    for number, name in enumerate("abcdef"):
        trials.loc[trials.family == name, "test_score"] += (
            number / 1000 * (trials.algorithm == "folb")
        )
    table = edition.effects(edition.gaps(trials, {"e3": (3, 2)}))
    said = edition.answer(table)
    assert "over 6 families of data, folb is behind FedAvg; safl is not shown to differ" in said
    assert "folb -9.75 [" in said
    assert "safl +0.00 [" in said
    assert "Of 6 scenarios, folb is ahead in 0 and behind in 6" in said
    plots.edition(table, edition.over_families(table), tmp_path / "e.svg")
    assert "folb" in (tmp_path / "e.svg").read_text()


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
