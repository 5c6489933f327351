"""Sweeps that confirm, search several times and start warm, killed for real at several moments."""

import signal
from pathlib import Path

import pytest

from tests.support.commands import cut_short, histories, study_file, suite_here, to_its_end

JOURNAL = "runs/small/journal.jsonl"
STUDY = """
algorithms: [folb]
datasets: [digits]
models: [logreg]
heterogeneity: [iid, dirichlet(0.3)]
trials: 6
seeds: 2
sampler: {sampler}
{more}
settings: {{rounds: 6, clients: 4, participation: 1.0, execution: batched}}
"""
WARM = """
algorithm: folb
dataset: digits
model: logreg
heterogeneity: labels(2)
params: {lr: 0.3}
"""
CONFIRMED = """
confirm: {best: 2, seeds: 1}
warm_start: warm.yaml
"""


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("sampler", "more"),
    [
        ("tpe", CONFIRMED),
        ("gp", "confirm: {best: 2, seeds: 1}"),
        ("tpe", "tunings: 2\npartitions: 2"),
        ("line", CONFIRMED),
    ],
)
def test_a_killed_sweep_ends_as_one_that_was_not(tmp_path: Path, sampler: str, more: str) -> None:
    """The warm configuration is the journal's: its file is gone when the sweep goes on."""
    text, whole, cut = STUDY.format(sampler=sampler, more=more), tmp_path / "a", tmp_path / "b"
    for folder in (whole, cut):
        folder.mkdir()
        (folder / "warm.yaml").write_text(WARM)
    to_its_end("sweep", study_file(whole, text), cwd=whole, journal=whole / JOURNAL)
    command = ["sweep", study_file(cut, text)]
    journal = cut / JOURNAL
    cut_short(*command, cwd=cut, journal=journal, ends=5, signal=signal.SIGKILL)
    (cut / "warm.yaml").unlink()
    cut_short(*command, "--resume", cwd=cut, journal=journal, ends=14, signal=signal.SIGKILL)
    to_its_end(*command, "--resume", "--set", "max_concurrent=1", cwd=cut, journal=journal)
    assert histories(cut) == histories(whole)


@pytest.mark.slow("a process is killed")
@pytest.mark.timeout(1800)
def test_tpe_killed_past_its_start_up_suggests_what_it_would_have(tmp_path: Path) -> None:
    """FOLB's psi exists under one variant only. Trials of the other run when it is killed, and the next one has it."""
    whole, cut = tmp_path / "a", tmp_path / "b"
    command = ["sweep", "small.yaml", "--set", "trials=13", "--set", "seeds=1", "--set", "rounds=2"]
    for folder in (whole, cut):
        folder.mkdir()
        study_file(folder, STUDY.format(sampler="tpe", more="").replace(", dirichlet(0.3)", ""))
    suite_here(*command, cwd=whole)
    journal = cut / JOURNAL
    cut_short(*command, cwd=cut, journal=journal, ends=12, signal=signal.SIGKILL, event="request")
    suite_here(*command, "--resume", cwd=cut)
    assert histories(cut) == histories(whole)
