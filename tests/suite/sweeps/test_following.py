"""A sweep followed by its journal: what was added is read once, and what it adds up to is right."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from suite.sweeps import running
from suite.sweeps.journal import file as journal
from suite.sweeps.journal.events import Begun, Died, Recorded, SweepState
from suite.sweeps.running import Reported, Running
from suite.sweeps.status import Followed
from tests.support.journals import STUDY, add, asked, ended, line
from tests.support.searches import a_study, entries_of
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialKind
from trials.run.result import TrialResult


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """As while a process runs the sweep."""
    held = journal.Journal(folder / "journal.jsonl")
    yield
    held.close()


@pytest.fixture
def sweep(tmp_path: Path) -> tuple[Path, list[str]]:
    """A folder with a journal that has begun, and the ids of its entries."""
    entries = entries_of(**STUDY)
    study = a_study(**STUDY).model_dump(mode="json")
    folder = tmp_path / "night"
    folder.mkdir()
    planned, about = {e.id: 5 for e in entries}, {e.id: e.about() for e in entries}
    begun = Begun(study_name="quick", study=study, lag=2, planned=planned, id="x", entries=about)
    (folder / "journal.jsonl").write_bytes(line(begun))
    return folder, [entry.id for entry in entries]


def test_only_what_is_new_is_read_and_a_torn_line_waits(
    sweep: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, (first, _) = sweep
    followed = Followed(folder)
    found = followed.refresh()
    assert (found.planned, len(found.entries), followed.state.requests) == (10, 2, [])
    whole = line(asked(first, 0))
    add(folder, torn=whole[:20])
    followed.refresh()
    assert followed.state.requests == []
    taken, take = [], SweepState._take
    monkeypatch.setattr(
        SweepState, "_take", lambda self, path, raw: (taken.append(raw), take(self, path, raw))
    )
    add(folder, torn=whole[20:])
    followed.refresh()
    assert taken == [whole], "the line alone, and once"
    followed.refresh()
    assert len(taken) == 1


def test_counts_scores_and_failures(sweep: tuple[Path, list[str]]) -> None:
    folder, (first, second) = sweep
    requests = [asked(first, i) for i in range(4)]
    other, final = asked(second, 0), asked(second, 0, TrialKind.FINAL)
    add(
        folder,
        *requests,
        other,
        final,
        ended(requests[0], 100.0, 0.5),
        ended(requests[1], 102.0, 0.9, Status.PRUNED),
        ended(requests[2], 104.0, None, Status.FAILED),
        ended(final, 106.0, 0.8),
        Died(trial_id=requests[3].request.trial_id, round=7, error="Killed\n"),
    )
    found = Followed(folder).refresh()
    one, two = found.entries
    assert one.counts == {"search": 3, "finished": 1, "pruned": 1, "failed": 1}
    assert two.counts == {"final": 1, "finished": 1}
    half, *others = one.scores
    assert (half, one.best) == (0.5, 0.5)
    assert [math.isnan(score) for score in others] == [True, True], "only trials at full rounds"
    assert found.failures == [
        (requests[2].request.trial_id, "failed", "ValueError: no"),
        (requests[3].request.trial_id, "died at round 7", "Killed"),
    ]
    assert not found.over


def test_what_running_trials_report_is_there_at_most_once_a_second(
    sweep: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, (first, _) = sweep
    now = [100.0]
    monkeypatch.setattr(running.time, "monotonic", lambda: now[0])
    request = asked(first, 0).request
    outcome = TrialResult(
        Status.RUNNING, history=[{"round": 0, "val_accuracy": 0.1, "val_loss": 2}]
    )
    written = Running(folder, {first: ("accuracy", 50)}, "7")
    written.joined("http://127.0.0.1:8265", "2 CPUs")
    written.reported(request, outcome)
    add(folder, asked(first, 0))
    followed = Followed(folder)
    with locked(folder):
        found = followed.refresh()
    assert found.entries[0].running == {request.trial_id: [(0, 0.1)]}
    assert (found.dashboard, found.experiment) == ("http://127.0.0.1:8265", "7")
    assert found.hardware.startswith("2 CPUs; load ")
    before = (folder / running.FILE).read_text()
    outcome.history.append({"round": 5, "val_accuracy": 0.4})
    written.reported(request, outcome)
    assert (folder / running.FILE).read_text() == before
    now[0] += 1
    written.reported(request, outcome)
    assert (folder / running.FILE).read_text() != before
    with locked(folder):
        found = followed.refresh()
    assert found.entries[0].running == {request.trial_id: [(0, 0.1), (5, 0.4)]}
    assert followed.refresh().entries[0].running == {}, "no process runs the sweep"
    written.over(request)
    written.close()
    with locked(folder):
        assert followed.refresh().entries[0].running == {}
    assert sorted(path.name for path in folder.iterdir()) == ["journal.jsonl", "journal.lock"]


def test_long_curves_are_thinned(sweep: tuple[Path, list[str]]) -> None:
    folder, (first, _) = sweep
    history = [{"round": i, "val_accuracy": i / 1000} for i in range(1000)]
    request = asked(first, 0).request
    Running(folder, {first: ("accuracy", 50)}).reported(
        request, TrialResult(Status.RUNNING, history=history)
    )
    points = running.read(folder).trials
    assert points[request.trial_id] == [(i, i / 1000) for i in range(0, 1000, 5)]


def test_a_final_run_counts_once_it_is_recorded_and_once(sweep: tuple[Path, list[str]]) -> None:
    folder, (first, _) = sweep
    search, final = asked(first, 0), asked(first, 0, TrialKind.FINAL)
    name = final.request.trial_id
    add(folder, search, ended(search, 1.0, 0.5), final, ended(final, 2.0, 0.5))
    followed = Followed(folder)
    found = followed.refresh()
    assert (found.seeds, found.entries[0].recorded) == (2, 0)
    for trial, run in ((search.request.trial_id, "a"), (name, "b"), (name, "c")):
        add(folder, Recorded(trial_id=trial, run_id=run))
    assert followed.refresh().entries[0].recorded == 1


def test_scores_stand_in_the_order_the_trials_were_asked(sweep: tuple[Path, list[str]]) -> None:
    folder, (first, _) = sweep
    requests = [asked(first, i) for i in range(3)]
    add(folder, *requests, *(ended(requests[i], 1.0 + i, i / 10) for i in (2, 0, 1)))
    assert Followed(folder).refresh().entries[0].scores == (0.0, 0.1, 0.2)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "[" * 100_000,
        '{"dashboard": "", "trials": [1]}',
        '{"dashboard": "", "trials": {"a": [[0, "<b>"]]}}',
        '{"dashboard": "", "trials": {"a": [[0, NaN]]}}',
        '{"of": "a later version"}',
    ],
)
def test_a_file_that_no_sweep_wrote_is_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / running.FILE).write_text(content)
    assert running.read(tmp_path) == Reported()


@pytest.mark.parametrize(
    "raw", [b"soup", b"[1]", b'{"event": "end"}', b'{"event": "begin", "format": 3}']
)
def test_a_line_that_no_sweep_wrote_is_said_each_time(
    sweep: tuple[Path, list[str]], raw: bytes
) -> None:
    folder, (first, _) = sweep
    add(folder, asked(first, 0), torn=raw + b"\n")
    followed = Followed(folder)
    for _ in range(2):
        with pytest.raises(UserError, match=r"journal\.jsonl, line 3: .*\. It is damaged, or "):
            followed.refresh()
