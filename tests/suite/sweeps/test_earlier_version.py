"""A sweep that version 0.1 began, one trial of it still running, goes on in this version."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from suite.execution.cluster import Resources
from suite.search.sweep_search import SweepSearch
from suite.studies.entries import make_entries
from suite.studies.opening import OWN
from suite.studies.study import Study
from suite.sweeps.events import Asked, read
from suite.sweeps.paths import SweepPaths
from suite.sweeps.request import SweepRequest
from tests.support.searches import Player

JOURNAL = Path(__file__).with_name("journal_of_0_1.jsonl")
TRIALS, SEEDS, ENTRIES = 10, 2, ["89b04a47", "c1351840", "e3b47b43", "fa5c7408"]
pytestmark = pytest.mark.usefixtures("in_this_process")


def lines(journal: Path, *events: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in journal.read_text().splitlines()]
    return [line for line in found if not events or line["event"] in events]


def test_its_journal_is_gone_on_with(tmp_path: Path) -> None:
    old = SweepPaths(tmp_path, "old")
    old.folder.mkdir()
    old.journal.write_bytes(JOURNAL.read_bytes())
    begun = lines(JOURNAL, "ask")
    assert len(begun) == 1 + len(lines(JOURNAL, "end")), "one ran when it was cut off"
    result = SweepRequest("smoke", old, resume=True).open().run(Resources(max_concurrent=1))
    assert old.journal.read_bytes().startswith(JOURNAL.read_bytes())
    ended = [line["trial_id"] for line in lines(old.journal, "end")]
    asked = lines(old.journal, "ask")
    assert sorted(ended) == sorted(ask["trial_id"] for ask in asked)
    assert len(set(ended)) == len(ended)
    assert Counter((ask["cell"], ask["kind"]) for ask in asked) == {
        (entry, kind): number
        for entry in ENTRIES
        for kind, number in (("search", TRIALS), ("final", SEEDS))
    }
    assert {line["trial_id"] for line in lines(old.journal, "recorded")} == set(ended)
    assert result.ending == ""
    assert result.leaderboard is not None
    assert sorted(row.cell for row in result.leaderboard.rows) == ENTRIES
    assert {(row.trials, row.seeds) for row in result.leaderboard.rows} == {(TRIALS, SEEDS)}
    first, *_, last = lines(old.journal, "begin")
    assert "opening" not in first
    assert last["opening"] == OWN
    study = Study.model_validate(read(first).study)
    player = Player(SweepSearch(make_entries(study, "old"), study, opening=OWN))
    anew = {ask.trial_id: Asked(ask) for ask in player.play().asks("search")}
    for ask in asked:
        if ask["kind"] == "search":
            assert anew[ask["trial_id"]] == read(ask), "what its version asked from the beginning"
