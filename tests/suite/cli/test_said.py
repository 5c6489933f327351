"""What a sweep says of itself: how it searched, and which rows are outside their paper's setting."""

from pathlib import Path

import pytest

from suite.tracking.store import Store
from tests.support.commands import document, runs_of, study_file, suite_here
from tests.support.simulations import ROOT

ONE = """
{algorithms: [fedavg, defed], datasets: [digits], models: [logreg], heterogeneity: [iid],
trials: 4, seeds: 2, settings: {rounds: 2, clients: 4, participation: 0.5, execution: batched}}
"""
BLIND = "random search (tpe models from trial 9 on; budget 4)"


def test_the_plan_shows_start_up_lag_and_what_can_be_modelled(tmp_path: Path):
    path = study_file(tmp_path, ONE)
    plan = document(suite_here("sweep", path, "--dry-run", "--json", cwd=tmp_path))
    assert (plan["sampler"], plan["startup"], plan["lag"]) == ("tpe", 5, 4)
    assert (plan["modelled_from"], plan["searched_by"]) == (9, BLIND)
    assert [entry["modelled"] for entry in plan["entries"]] == [0, 0]
    assert f"{BLIND}: 0 modelled suggestions in 2 of 2 entries" in plan["warnings"]
    text = suite_here("sweep", path, "--dry-run", cwd=tmp_path).stdout
    for words in (BLIND, "at most 0 of its 4 trials", "Warning:"):
        assert words in text


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> tuple[Path, str]:
    """A sweep of ONE, and what it said."""
    folder = tmp_path_factory.mktemp("said")
    done = suite_here("sweep", study_file(folder, ONE), cwd=folder)
    return folder, done.stderr


def test_a_sweep_its_board_and_its_report_call_it_random_search(swept):
    folder, said = swept
    assert f"{BLIND}: 0 modelled suggestions in 2 of 2 entries" in said
    board = document(suite_here("leaderboard", "--json", cwd=folder))
    assert board["searched"] == {"small": BLIND}
    for form in ("md", "latex"):
        text = suite_here("leaderboard", "--format", form, cwd=folder).stdout
        assert f"Searched by {BLIND}." in text
    page = Path(suite_here("report", cwd=folder).stdout.strip())
    assert BLIND in (folder / page).read_text(), "provenance"


def test_a_method_outside_its_paper_s_setting_is_shown_and_not_ranked(swept):
    folder, said = swept
    reason = "participation is 0.5, its paper's 1.0: neighbours exchange models"
    assert f"defed is shown unranked: {reason}" in said
    board = document(suite_here("leaderboard", "--json", cwd=folder))
    ranks = {row["algorithm"]: row["rank"] for row in board["rows"]}
    assert ranks == {"fedavg": 1, "defed": None}
    assert [row["outside"][:20] for row in board["rows"]] == ["", "participation is 0.5"]
    shown = suite_here("leaderboard", "--format", "md", cwd=folder).stdout
    assert "| - | defed (own models) |" in shown
    assert f"Note: defed is outside its paper's setting and not ranked: {reason}" in shown


def test_all_that_is_recorded_is_documented(swept):
    page = (ROOT / "docs" / "table.md").read_text()
    runs = runs_of(Store(None, swept[0] / "runs"))
    tags = {name for run in runs for name in run.tags}
    assert [name for name in sorted(tags) if f"`suite.{name}`" not in page] == []
    trials = [r for r in runs if r.tags["kind"] in ("search", "final")]
    metrics = {name.removeprefix("average_") for run in trials for name in run.metrics}
    metrics -= {"val_accuracy_min", "val_accuracy_max"}  # written as `val_...`
    assert [name for name in sorted(metrics) if f"`{name}`" not in page] == []
