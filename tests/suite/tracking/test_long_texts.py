"""Texts longer than MLflow takes, and more experiments than it gives at once."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from suite.configurations.library import list_tuned
from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.search.sweep_search import SweepSearch
from suite.search.trial import InitialConfiguration, ValidationResult
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.recording.finish import Finish
from suite.sweeps.recording.runs import SweepRecording
from suite.sweeps.request import resumed_study
from suite.sweeps.sweep import Sweep
from suite.tracking.schema.long_texts import PART, parted, whole
from suite.tracking.schema.tags import Tags
from suite.tracking.store import Store
from tests.support.foreign import little, outcome, play
from tests.support.searches import entries_of

LONG = "Why this study is as it is, in many words. " * 700
"""30 kB."""


@pytest.mark.parametrize("length", [0, 1, PART - 1, PART, PART + 1, 3 * PART, 5 * PART + 7])
def test_a_text_of_any_length_comes_back(length):
    text = "".join(chr(97 + i % 26) for i in range(length))
    parts = parted({"x": text, "y": "z"})
    assert max(map(len, parts.values())) <= PART
    assert whole(parts) == {"x": text, "y": "z"}


def test_what_a_longer_text_left_behind_is_no_part_of_a_shorter():
    left = parted({"x": "a" * (3 * PART)})
    assert whole({**left, **parted({"x": "b" * PART})}) == {"x": "b" * PART}


def test_a_name_that_only_looks_like_a_part_is_a_name():
    assert whole({"x.2": "text"}) == {"x.2": "text"}


def test_tags_and_params_are_recorded_whole(tmp_path):
    store = Store(None, tmp_path)
    run_id = store.create(store.experiment("e"), "name", {"kind": "run", "made": LONG})
    store.log(run_id, {"param": LONG}, tags={"logged": LONG[1:]})
    found = store.get(run_id)
    assert (found.tags["made"], found.tags["logged"]) == (LONG, LONG[1:])
    assert found.params == {"param": LONG}
    assert not [name for name in found.tags if "." in name]
    store.log(run_id, tags={"made": "short"})
    assert store.get(run_id).tags["made"] == "short"


def test_a_sweep_of_a_long_study_is_read_and_resumed(tmp_path):
    place = SweepPaths(tmp_path / "runs", "s")
    play(Sweep("s", little(description=LONG), place, resume=False))
    store = Store(None, place.storage)
    assert Tags.study_json.value(store.find(kind="sweep")[0].tags)["description"] == LONG
    assert len(read_leaderboard(store, Query("s")).rows) == 1
    name, study = resumed_study(place, {"seeds": 2}) or ("", None)
    assert study is not None
    summary = play(Sweep(name, study, place, resume=True)).summary
    assert summary.final_runs == 2
    (row,) = read_leaderboard(Store(None, place.storage), Query("s")).rows
    assert row.seeds == 2


def test_a_long_tuned_configuration_is_listed(tmp_path):
    """Its provenance says where it started from, whatever that is called."""
    study, entries = little(), entries_of(settings=little().settings.model_dump())
    warm = {one.id: [InitialConfiguration("warm", one.space.default(), LONG)] for one in entries}
    search, store = SweepSearch(entries, study, 1, {}), Store(None, tmp_path)
    recording, ended = SweepRecording(store, "s", "s", study, search, warm, {}, "id", None), {}
    recording.open()
    while found := search.next():
        ask, _ = found
        done = outcome(search.spec(ask))
        recording.record(ask, done)
        search.end(ask.trial_id, ValidationResult.of(done))
        ended[ask.trial_id] = done
    finals = {trial_id for trial_id in ended if not search.requests[trial_id].counted}
    Finish(recording, tmp_path / "tuned").bring_in(ended, {}, finals)
    (tuned,) = list_tuned(store, tmp_path)
    assert tuned.provenance["warm_start"] == LONG
    (path,) = (tmp_path / "tuned").rglob("*.yaml")
    assert path.read_text() == tuned.text()
    assert (
        store.client.get_run(store.find(kind="leaderboard")[0].run_id)
        .data.tags["mlflow.note.content"]
        .endswith("the whole is in this run's tags")
    )


def test_runs_are_found_beside_more_than_a_thousand_experiments(tmp_path):
    store = Store(None, tmp_path)
    mine = store.create(store.experiment("mine"), "name", {"kind": "sweep", "sweep": "mine"})
    _experiments(tmp_path / "mlflow.db", 1001)
    store = Store(None, tmp_path)
    assert [run.run_id for run in store.find(sweep="mine")] == [mine]
    assert store.get(mine).run_id == mine
    assert len(store.experiments()) == 1003


def _experiments(database: Path, number: int) -> None:
    """Put so many newer experiments into a store."""
    ahead = 10**15
    rows = [(1000 + i, f"e{i}", "active", ahead + i, ahead + i) for i in range(number)]
    names = "experiment_id, name, lifecycle_stage, creation_time, last_update_time"
    with closing(sqlite3.connect(database)) as made, made:
        made.executemany(f"insert into experiments ({names}) values (?, ?, ?, ?, ?)", rows)
