"""The main job, as a person starts it: real sweeps of a small study through the command."""

import json
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest

from suite.configurations.configuration import read
from suite.configurations.library import list_tuned
from suite.results.table import FILE
from suite.tracking.store import Store
from tests.support.commands import (
    SINGLY,
    STUDY,
    counts,
    cut_short,
    document,
    fault,
    histories,
    once,
    records,
    study_file,
    suite,
    suite_here,
)
from tests.support.contract import FIELDS
from trials.scoring.metrics import DERIVED

ENTRIES, TRIALS, SEEDS = 4, 6, 2
SUMMARY = """study name entries trials_finished trials_pruned trials_diverged trials_failed final_runs
seconds tracking_uri experiment_id storage"""
TAGS = """kind study sweep entry_id algorithm paper dataset model heterogeneity
partition_fingerprint seed trial_id origin status version"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the small study was swept, its summary in summary.json."""

    def make(folder: Path) -> None:
        finished = suite(
            "sweep", study_file(folder), "--json", "--set", "max_concurrent=2", cwd=folder
        )
        (folder / "summary.json").write_text(finished.stdout)

    return once(tmp_path_factory, "done", make)


@pytest.mark.slow("the sweep that all here look at, on two processes")
def test_summary_agrees_with_the_store(done: Path) -> None:
    summary = json.loads((done / "summary.json").read_text())
    assert set(summary) >= {*SUMMARY.split()}
    assert (summary["study"], summary["name"], summary["entries"]) == ("small", "small", ENTRIES)
    searched = [summary[f"trials_{s}"] for s in ("finished", "pruned", "diverged", "failed")]
    assert sum(searched) == ENTRIES * TRIALS
    assert counts(done) == {
        ("sweep", "FINISHED"): 1,
        ("search", "FINISHED"): ENTRIES * TRIALS,
        ("final", "FINISHED"): ENTRIES * SEEDS,
        ("leaderboard", "FINISHED"): ENTRIES,
    }
    assert summary["final_runs"] == ENTRIES * SEEDS


def test_records_carry_the_contract(done: Path) -> None:
    for run in records(done, kind="final") + records(done, kind="search"):
        assert set(run.tags) >= {*TAGS.split()}
        wanted = {"test_accuracy", "test_loss", "val_accuracy", "train_loss", "uploaded_bytes"}
        wanted |= {"downloaded_bytes", "client_steps"}
        if run.tags["kind"] == "final":
            assert {"lr", "rounds", "batch_size", "participation"} <= set(run.params)
            wanted |= {"gradient_passes", "test_top5_accuracy"}
        else:  # the table and the journal have the rest
            assert "lr" in run.params
            assert "rounds" not in run.params
        assert set(run.metrics) >= wanted
    trial_ids = [r.tags["trial_id"] for r in records(done) if "trial_id" in r.tags]
    assert len(trial_ids) == len(set(trial_ids))
    first = [r for r in records(done, kind="search") if r.tags["trial_id"].endswith("s0000")]
    assert len(first) == ENTRIES
    assert {r.tags["origin"] for r in first} == {"default"}


def test_the_table_alone_is_the_leaderboard(done: Path, tmp_path: Path) -> None:
    before = document(suite_here("leaderboard", "small", "--json", cwd=done))
    (tmp_path / "runs" / "small").mkdir(parents=True)
    shutil.copy(done / "runs" / "small" / FILE, tmp_path / "runs" / "small")
    after = document(suite_here("leaderboard", f"runs/small/{FILE}", "--json", cwd=tmp_path))
    assert after == before
    assert all(set(row) >= FIELDS for row in after["rows"])
    assert len(after["rows"]) == ENTRIES
    assert {"study", "metric", "direction", "protocol"} <= set(after)
    # ... and the tuned configurations come from it too.
    texts = {str(item.path): item.text() for item in list_tuned(tmp_path / "runs")}
    tuned = done / "runs" / "small" / "tuned"
    files = {str(path.relative_to(tuned)): path.read_text() for path in tuned.rglob("*.yaml")}
    assert texts == files


def test_a_tuned_file_repeats_its_final_run_to_the_bit(done: Path) -> None:
    final = records(done, kind="final", algorithm="folb")[0]
    (path,) = (done / "runs/small/tuned/digits" / final.tags["heterogeneity"]).rglob("folb.yaml")
    seed = final.tags["seed"]
    run = document(
        suite_here("run", "--tuned", path, "--seed", seed, "--json", "--no-record", cwd=done)
    )
    again = {entry["round"]: entry for entry in run["history"]}
    for entry in histories(done)[final.tags["trial_id"]][3]:
        for metric in entry.keys() - set(DERIVED):
            assert again[entry["round"]][metric] == entry[metric]
    assert read(path).scores["test_by_seed"][int(seed)] == final.metrics["test_score"]


def test_replay_is_identical(done: Path) -> None:
    run = records(done, kind="search")[-1]
    repeated = document(suite_here("replay", run.run_id[:12], "--json", cwd=done))
    assert (repeated["identical"], repeated["differences"]) == (True, [])
    (sweep,) = records(done, kind="sweep")
    for run_id in (sweep.run_id, "nope"):
        assert run_id in fault(suite_here("replay", run_id, cwd=done, code=2))


def test_one_at_a_time_gives_the_same_numbers(done: Path, tmp_path: Path) -> None:
    suite_here("sweep", study_file(tmp_path), *SINGLY, cwd=tmp_path)
    assert histories(tmp_path) == histories(done)


@pytest.mark.slow("a process is killed, and two start")
def test_a_sweep_cut_short_twice_resumes_to_the_same_end(done: Path, tmp_path: Path) -> None:
    command = ["sweep", study_file(tmp_path), "--set", "max_concurrent=2"]
    journal = tmp_path / "runs" / "small" / "journal.jsonl"
    cut = partial(cut_short, cwd=tmp_path, journal=journal)
    assert cut(*command, ends=6, signal=signal.SIGINT) == 130
    assert "--resume" in (tmp_path / "log").read_text()
    assert not [run for run in records(tmp_path) if run.status == "RUNNING"]
    assert "sweep 'small' exists in runs" in fault(suite_here(*command, cwd=tmp_path, code=2))
    assert cut(*command, "--resume", ends=14, signal=signal.SIGKILL) == -9
    assert not (tmp_path / "runs/small/tuned").exists()
    suite_here(*command, "--resume", cwd=tmp_path)
    assert counts(tmp_path) == counts(done)
    assert histories(tmp_path) == histories(done)


def test_a_finished_sweep_is_extended(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "copy")
    folder = tmp_path / "copy"
    store = Store(None, folder / "runs")
    aside = records(folder, kind="final")[0]
    store.log(aside.run_id, tags={"kind": "superseded"})  # as by an extension that chose another
    more = ("--resume", "--trials", TRIALS + 2, "--seeds", SEEDS + 1, "--json")
    extended = suite_here("sweep", folder / "small.yaml", *more, *SINGLY, cwd=folder)
    summary = document(extended)
    assert summary["trials_finished"] + summary["trials_diverged"] == ENTRIES * (TRIALS + 2)
    assert len(records(folder, kind="search")) == ENTRIES * (TRIALS + 2)
    assert len(records(folder, kind="final")) == ENTRIES * (SEEDS + 1) == summary["final_runs"]
    assert len(records(folder, kind="leaderboard")) == ENTRIES
    old, new = histories(done), histories(folder)
    assert all(new[i] == old[i] for i in old if i in new and old[i][0] == "search")
    board = document(suite_here("leaderboard", "--json", cwd=folder))
    assert {row["seeds"] for row in board["rows"]} == {SEEDS + 1}
    assert {row["trials"] for row in board["rows"]} == {TRIALS + 2}


def test_early_stopping_stops_search_trials_only(tmp_path: Path) -> None:
    path = study_file(tmp_path, STUDY.replace("scheduler: none", "scheduler: asha"))
    args = ("--trials", 10, "--json", *SINGLY)
    summary = document(suite_here("sweep", path, *args, cwd=tmp_path))
    assert summary["trials_pruned"] > 0
    assert summary["trials_pruned"] + summary["trials_finished"] == ENTRIES * 10
    assert {r.tags["status"] for r in records(tmp_path, kind="final")} == {"finished"}
    pruned = [r for r in records(tmp_path, kind="search") if r.tags["status"] == "pruned"]
    assert len(pruned) == summary["trials_pruned"]


def test_a_crashing_algorithm_fails_its_trials_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from trials.algorithms.fedavg import FedAvg\n"
        "@dataclass(frozen=True)\n"
        "class Broken(FedAvg):\n"
        '    """Raises in round 3."""\n'
        "    def round(self, state, fed):\n"
        "        if fed.round == 3:\n"
        "            raise ZeroDivisionError('as it must')\n"
        "        return super().round(state, fed)\n"
    )
    path = study_file(tmp_path)
    names = f"fedavg,{tmp_path / 'mine.py'}:Broken"
    level = ("--heterogeneity", "iid", "--trials", 2)
    args = ("--algorithms", names, *level, "--json", *SINGLY)
    finished = suite_here("sweep", path, *args, cwd=tmp_path, code=1)
    assert document(finished)["trials_failed"] == 2
    failed = [r for r in records(tmp_path, kind="search") if r.tags["status"] == "failed"]
    assert len(failed) == 2
    assert all("as it must" in r.tags["error"] for r in failed)
    board = document(suite_here("leaderboard", "--json", cwd=tmp_path))
    assert [row["algorithm"] for row in board["rows"]] == ["fedavg"]
