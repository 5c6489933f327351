"""What search trials have from their entry, and what leaderboards have of search trials."""

import json
from pathlib import Path
from typing import Any

import pytest

from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.results.report import read
from suite.sweeps.sweep import Sweep
from suite.tracking.schema.inherited import Inherited, common, own
from suite.tracking.store import Store
from tests.support.foreign import little, play, swept

SPEC = {"params": {}, "seed": 0, "settings": {"rounds": 3, "batch_size": 32}}
ENTRY = {
    "kind": "entry",
    "entry_name": "n",
    "outside": "o",
    "metric": "mse",
    "spec": json.dumps(SPEC),
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"outside": None},
        {"metric": "accuracy", "device": "cpu"},
        {"spec": json.dumps({**SPEC, "seed": 3, "params": {"lr": 0.1}})},
        {"spec": json.dumps({**SPEC, "settings": {"rounds": 3, "batch_size": 8}})},
    ],
)
def test_a_trial_has_all_of_its_tags(change: dict[str, str | None]):
    """Those that its entry does without, or has otherwise, among them."""
    shared = common(ENTRY)
    tags = {**ENTRY, "kind": "search", **change}
    tags = {name: text for name, text in tags.items() if text is not None}
    found = Inherited(own(tags, shared), shared)
    assert {**found, "spec": json.loads(found["spec"])} == {
        **tags,
        "spec": json.loads(tags["spec"]),
    }
    assert len(found) == len(tags)


def test_a_search_trial_records_what_is_its_own(tmp_path: Path):
    swept(tmp_path)
    store = Store(None, tmp_path / "runs")
    (found, *_) = store.find(kind="search")
    recorded = store.client.get_run(found.run_id).data
    assert "suite.metric" not in recorded.tags
    assert found.tags.metric == "accuracy"
    assert found.tags.spec.settings.rounds == 2
    assert found.fault == ""
    assert dict(store.get(found.run_id).tags) == dict(found.tags)
    assert store.history(found.run_id, "uploaded_bytes") == [(2, found.metrics["uploaded_bytes"])]
    assert [at for at, _ in store.history(found.run_id, "val_accuracy")] == [0, 1, 2]
    assert "peer_bytes" not in found.metrics


def test_a_leaderboard_of_a_sweep_that_has_ended_reads_no_search_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    paths = swept(tmp_path, trials=4, seeds=2)
    whole = read(Store(None, paths.storage), Query("s"), "").board
    asked = []
    find = Store.find

    def noting(self: Store, **tags: Any) -> Any:
        asked.append(tags.get("kind"))
        return find(self, **tags)

    monkeypatch.setattr(Store, "find", noting)
    board = read_leaderboard(Store(None, paths.storage), Query("s"))
    assert "search" not in asked
    assert board == whole  # which was read from the trials' runs
    (curves,) = board.budgets
    ends = {name: curve[-1] for name, curve in curves.expected.items()}
    assert ends == pytest.approx({row.algorithm: row.mean for row in board.rows})
    assert board.rows[0].selected is not None
    play(Sweep("s", little(trials=6, seeds=2), paths, resume=True), most=1)
    read_leaderboard(Store(None, paths.storage), Query("s"))
    assert "search" in asked  # it goes on


def test_a_finished_sweep_that_is_resumed_writes_nothing_anew(tmp_path: Path):
    """But for what is gone: a row, a tuned file, or a search trial's run."""
    paths = swept(tmp_path, trials=3, seeds=2)
    store = Store(None, paths.storage)

    def runs() -> dict[str, str]:
        return {run.run_id: run.tags["kind"] for run in store.find()}

    before = runs()
    board = play(Sweep("s", little(trials=3, seeds=2), paths, resume=True)).leaderboard
    assert runs() == before
    assert board == read_leaderboard(store, Query("s"))
    (tuned,) = (paths.folder / "tuned").rglob("*.yaml")
    text = tuned.read_text()
    tuned.unlink()
    store.delete(next(run_id for run_id, kind in before.items() if kind == "search"))
    play(Sweep("s", little(trials=3, seeds=2), paths, resume=True))
    kinds = sorted(runs().values())
    assert kinds == sorted(before.values())
    assert tuned.read_text().splitlines()[:3] == text.splitlines()[:3]
    again = [run for run in store.find(kind="search") if run.run_id not in before]
    assert [at for at, _ in store.history(again[0].run_id, "val_accuracy")] == [0, 1, 2]
