"""What a sweep did not write it neither removes nor overwrites."""

import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.results.table import TrialTable, read, write
from suite.sweeps import sweep as sweep_module
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.recording import SweepRecording
from suite.sweeps.sweep import Sweep
from suite.tracking.store import Store
from tests.support.commands import document, fault, records, runs_of, suite_here
from tests.support.foreign import contents, little, play, put, swept
from trials.common.errors import UserError


def test_a_folder_in_the_storage_that_holds_files_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "runs" / "proj" / "thesis.txt")
    put(tmp_path / "runs" / "diary" / "journal.jsonl", b'{"day": 1}\n{"day": 2')
    before = contents(tmp_path)
    for name in ("proj", "diary"):
        for resume in ((), ("--resume",)):
            done = suite_here("sweep", "smoke", "--name", name, *resume, cwd=tmp_path, code=2)
            assert f"runs/{name} holds files" in fault(done)
        assert "unknown sweep" in fault(suite_here("stop", name, cwd=tmp_path, code=2))
    assert suite_here("status", "--json", cwd=tmp_path).stdout.strip() == "[]"
    assert contents(tmp_path) == before


FOREIGN = [
    "ck/s/model.pt.damaged",
    "ck/s/0123456789ab-s0000.pt",
    "ck/notes.txt",
    "runs/s/thesis.txt",
    "runs/s/tuned/digits/iid/logreg/mine.yaml",
    "runs/s/tuned/digits/iid/logreg/fedavg.yaml",
    "runs/s/checkpoints/model.pt",
    "runs/s/tune/notes.txt",
    "runs/other/journal.jsonl",
]
ACTIONS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(FOREIGN)),
    st.tuples(st.sampled_from(["sweep", "resume", "extend"]), st.integers(0, 4)),
    st.tuples(st.just("refused"), st.none()),
)


@settings(max_examples=12)
@given(st.booleans(), st.lists(ACTIONS, min_size=3, max_size=8))
def test_whatever_a_sweep_does_files_of_others_stay(elsewhere: bool, actions: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        place = SweepPaths(root / "runs", "s", checkpoints=str(root / "ck") if elsewhere else None)
        theirs: dict[str, bytes] = {}
        for number, (action, value) in enumerate(actions):
            if action != "put":
                with suppress(UserError):
                    act(place, action, value)
            elif not (root / value).exists():
                theirs[value] = put(root / value, f"mine {number}".encode()).read_bytes()
            assert theirs.items() <= contents(root).items(), (action, value)


def act(place: SweepPaths, action: str, value: int | None) -> None:
    """A command on a sweep, cut short after `value` trials where it has one."""
    if action == "refused":
        with patch.object(Sweep, "_drive", side_effect=UserError("no node is large enough")):
            Sweep("s", little(), place, resume=place.begun).run(SimpleNamespace())
        return
    trials = 4 if action == "extend" else 2
    sweep = Sweep("s", little(trials=trials), place, resume=action != "sweep")
    result = play(sweep, 10**6 if value is None else value)
    if not result.ending:
        ids = tuple(sweep.search.requests)
        left = (Path(path).name for path in contents(place.storage.parent))
        assert not [name for name in left if name.startswith(ids)]


def test_a_sweep_that_is_refused_before_its_first_trial_leaves_no_folder(tmp_path: Path) -> None:
    place = SweepPaths(tmp_path / "runs", "s", checkpoints=str(tmp_path / "ck"))
    with pytest.raises(UserError, match="no node"):
        act(place, "refused", None)
    assert not place.folder.exists()
    assert not (tmp_path / "ck").exists() or not list((tmp_path / "ck").iterdir())
    play(Sweep("s", little(), place))


def test_a_folder_of_checkpoints_is_one_sweeps_alone(tmp_path: Path) -> None:
    """Another one of its name has another, and files of others in it stay."""
    one, two = (SweepPaths(tmp_path / root, "s", checkpoints=str(tmp_path / "ck")) for root in "ab")
    play(Sweep("s", little(), one), 1)
    (own,) = (tmp_path / "ck").iterdir()
    before = contents(own)
    play(Sweep("s", little(), two))
    assert contents(tmp_path / "ck") == {
        f"{own.name}/{name}": text for name, text in before.items()
    }
    put(own / "notes.txt")
    for trials in (2, 4):
        play(Sweep("s", little(trials=trials), one, resume=True))
        assert set(contents(own)) == {"notes.txt"}


def test_a_name_is_quoted_in_a_uri_and_a_storage_is_its_owner_s_alone(tmp_path: Path) -> None:
    place = SweepPaths(tmp_path / "runs", "a #1 50%?", checkpoints=(tmp_path / "ck").as_uri())
    sweep = Sweep("s", little(), place)
    play(sweep, 1)
    assert (tmp_path / "ck" / f"a #1 50%?-{sweep.id[:8]}").is_dir()
    assert [path.stat().st_mode & 0o777 for path in (place.storage, place.folder)] == [0o700] * 2


def test_records_of_a_sweep_whose_folder_is_gone_stay(tmp_path: Path) -> None:
    place = swept(tmp_path)
    before = {run.run_id for run in records(tmp_path)}
    place.folder.rename(tmp_path / "aside")
    with pytest.raises(UserError, match="whose folder is gone"):
        play(Sweep("s", little(), place))
    assert {run.run_id for run in records(tmp_path)} == before
    assert not place.folder.exists()


class CutError(BaseException):
    """A kill."""


TWO = {"heterogeneity": ["iid", "labels(2)"]}


@pytest.mark.parametrize(
    "where", [(SweepRecording, "_publish"), (Store, "delete"), (sweep_module, "write")]
)
def test_a_harvest_cut_off_leaves_the_former_one_whole(tmp_path: Path, where: Any) -> None:
    """Its tuned configurations are told from later ones by their date."""
    place = swept(tmp_path, **TWO)
    table = read(place.table)
    former = [
        entry.model_copy(update={"tuned": entry.tuned.replace("date: '", "date: 'former ")})
        for entry in table.facts.entries
    ]
    facts = table.facts.model_copy(update={"entries": former})
    write(place.table, TrialTable(facts, table.whole()))

    def tuned() -> list[bool]:
        done = suite_here("tuned", "list", "--json", cwd=tmp_path)
        return sorted(t["provenance"]["date"].startswith("former") for t in document(done))

    finish = Sweep._finish

    def finishes(sweep: Sweep) -> None:
        with patch.object(*where, side_effect=CutError), pytest.raises(CutError):
            finish(sweep)

    with patch.object(Sweep, "_finish", finishes):
        play(Sweep("s", little(**TWO), place, resume=True))
    assert tuned() == [True] * 2
    board = suite_here("leaderboard", "--json", cwd=tmp_path)
    assert len(document(board)["rows"]) == 2
    play(Sweep("s", little(**TWO), place, resume=True))
    assert tuned() == [False] * 2
    assert len(runs_of(Store(None, place.storage), kind="leaderboard")) == 2
