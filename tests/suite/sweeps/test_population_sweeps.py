"""Population-based training in real sweeps: every recorded run is what its schedule gives from round 0."""

import signal
from pathlib import Path
from typing import Any

import pytest

from suite.configurations.configuration import read
from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.sweeps.journal import peek
from suite.tracking.store import Store
from tests.support.commands import (
    Here,
    cut_short,
    document,
    histories,
    records,
    study_file,
    suite,
    suite_here,
)
from trials.schedule import is_schedule
from trials.spec import TrialSpec
from trials.trial import run

STUDY = """
algorithms: [fedprox]
datasets: [digits]
models: [logreg]
heterogeneity: ["labels(2)"]
trials: 8
seeds: 2
seed: 5
scheduler: pbt
settings: {rounds: 6, clients: 4, participation: 1.0, execution: batched}
"""
TIMES = ("round_seconds", "evaluation_seconds", "val_score", "test_score")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished sweep, two trials at a time."""
    folder = tmp_path_factory.mktemp("pbt")
    args = ("--name", "s", "--max-concurrent", 2)
    suite_here("sweep", study_file(folder, STUDY), *args, cwd=folder)
    return folder


def evolved(folder: Path) -> list[Any]:
    return [r for r in records(folder, kind="search") if r.tags["origin"] == "evolved"]


def test_every_recorded_run_is_its_schedule_run_from_round_0(done: Path) -> None:
    store = Store(None, done / "runs")
    runs = [*records(done, kind="search"), *records(done, kind="final")]
    assert len(runs) == len({r.tags["trial_id"] for r in runs}) == 10
    for found in runs:
        simulation, _ = run(TrialSpec.model_validate_json(found.tags["spec"]))
        for metric in sorted(set(found.metrics) - set(TIMES)):
            expected = [(int(e["round"]), e[metric]) for e in simulation.history if metric in e]
            whole = found.tags.kind == "final" or metric in ("val_accuracy", "test_accuracy")
            wanted = expected if whole else expected[-1:]
            assert store.history(found.run_id, metric) == wanted, metric
    copies = evolved(done)
    assert len(copies) >= 2, "at least one stop replaced its worst quarter"
    for found in copies:
        assert is_schedule(found.params["lr"])
        assert found.tags["source"].startswith(found.tags["cell"])


def test_the_journal_has_every_stop_and_no_checkpoint_is_left(done: Path) -> None:
    events = peek(done / "runs/s/journal.jsonl")
    stood = [e for e in events if e["event"] == "stand"]
    assert sorted(max(map(int, e["intermediates"])) for e in stood) == [2] * 8 + [4] * 8
    generations = [e["asks"] for e in events if e["event"] == "generation"]
    assert [{ask["until"] for ask in asks} for asks in generations] == [{4}, {None}]
    assert not (done / "runs/s/checkpoints").exists()


def test_finals_and_the_tuned_file_replay_the_schedule(done: Path) -> None:
    (path,) = (done / "runs/s/tuned").rglob("fedprox.yaml")
    tuned, finals = read(path), records(done, kind="final")
    assert is_schedule(tuned.params["lr"]), "the best of this study is one that evolved"
    assert {f.params["lr"] for f in finals} == {tuned.params["lr"]}
    assert (tuned.provenance["origin"], tuned.budget["scheduler"]) == ("evolved", "pbt")
    final = finals[0]
    args = ["run", "--config", path, "--seed", final.tags["seed"], "--json", "--no-record"]
    history = document(suite_here(*args, cwd=done))["history"]
    scores = [entry["test_accuracy"] for entry in history[-3:]]
    assert sum(scores) / 3 == final.metrics["test_score"]
    replayed = document(suite_here("replay", evolved(done)[0].run_id, "--json", cwd=done))
    assert replayed["identical"]


def test_schedules_are_shown_everywhere(done: Path) -> None:
    rates = read_leaderboard(Store(None, done / "runs"), Query()).rows[0].params["lr"]
    short = ",".join(
        f"{float(value):.3g}@{start}"
        for value, _, start in (piece.partition("@") for piece in rates.split(","))
    )

    def said(*args: Any) -> Here:
        return suite_here(*args, cwd=done)

    for form in ("md", "csv", "html"):
        assert f"lr={short}" in said("leaderboard", "--format", form).stdout, form
    assert "fedprox" in said("leaderboard", "--format", "latex").stdout
    assert document(said("leaderboard", "--json"))["rows"][0]["params"]["lr"] == rates
    assert document(said("tuned", "list", "--json"))[0]["params"]["lr"] == rates
    assert f"lr: {rates}" in said("tuned", "show").stdout
    entry = ["--dataset", "digits", "--heterogeneity", "labels(2)"]
    recommended = document(said("tuned", "recommend", *entry, "--json"))
    assert recommended["configuration"]["params"]["lr"] == rates
    page = Path(document(said("report", "--json"))["page"])
    assert "Of a schedule its last value" in (done / page).read_text()


def test_a_population_cannot_grow(done: Path) -> None:
    args = ["sweep", "small.yaml", "--name", "s", "--resume", "--trials", 9]
    said = suite_here(*args, cwd=done, code=2).stderr
    assert "trials = 9: a population that has begun cannot grow; it had 8" in said


@pytest.mark.faults
def test_killed_between_two_stops_and_resumed_one_at_a_time_it_is_the_same(
    done: Path, tmp_path: Path
) -> None:
    args = ["sweep", study_file(tmp_path, STUDY), "--name", "s", "--max-concurrent", 1]
    journal = tmp_path / "runs/s/journal.jsonl"
    cut = {"ends": 9, "event": "stand", "signal": signal.SIGKILL}
    assert cut_short(*args, cwd=tmp_path, journal=journal, **cut) == -signal.SIGKILL
    kinds = [event["event"] for event in peek(journal)]
    assert 9 <= kinds.count("stand") < 16, "killed after the first stop, before the second"
    assert kinds.count("generation") == 1
    suite(*args, "--resume", cwd=tmp_path)
    assert histories(tmp_path) == histories(done)
