"""A sweep followed by its journal: what was added is read once, and what it adds up to is right."""

import asyncio
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response

from reports.page import live
from reports.page.live import Frame, home_page
from suite.sweeps import running
from suite.sweeps.journal import file as journal
from suite.sweeps.journal.events import Begun, Died, Recorded, SweepState
from suite.sweeps.journal.paths import MARKER
from suite.sweeps.running import Reported, Running
from suite.sweeps.status import Followed
from suite.watch.pages import Pages
from suite.watch.views import Views
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
    before = followed.version
    outcome.history.append({"round": 5, "val_accuracy": 0.4})
    written.reported(request, outcome)
    assert followed.version == before
    now[0] += 1
    written.reported(request, outcome)
    assert followed.version != before
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


def look(pages: Pages, etag: str = "") -> Response:
    """A browser's question for what has changed."""
    headers = [(b"host", b"127.0.0.1")] + [(b"if-none-match", etag.encode())] * bool(etag)
    scope = {"type": "http", "headers": headers, "path_params": {"name": "night"}}
    scope |= {"scheme": "http", "path": "/", "query_string": b""}
    return asyncio.run(pages.sweep_parts(Request(scope)))


def test_a_look_without_news_reads_no_line_and_renders_nothing(
    sweep: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, (first, _) = sweep
    rendered, refreshed, taken = [], [], []
    for of, name, seen in (
        (live, "live_parts", rendered),
        (Followed, "refresh", refreshed),
        (SweepState, "_take", taken),
    ):
        real = getattr(of, name)
        monkeypatch.setattr(
            of, name, lambda *given, real=real, seen=seen: (seen.append(given), real(*given))[1]
        )
    pages = Pages(Views(folder.parent, None, "http://127.0.0.1:5000"))
    etag = look(pages).headers["ETag"]
    assert [len(seen) for seen in (rendered, refreshed, taken)] == [1, 1, 1]
    for _ in range(3):
        assert look(pages, etag).status_code == 304
    assert [len(seen) for seen in (rendered, refreshed, taken)] == [1, 1, 1]
    news = [asked(first, 0), *ended(asked(first, 0), 1.0, 0.5)]
    add(folder, *news)
    assert look(pages, etag).status_code == 200
    assert [len(seen) for seen in (rendered, refreshed, taken)] == [2, 2, 4], "what is new alone"


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


def test_a_damaged_sweep_hides_no_other(sweep: tuple[Path, list[str]]) -> None:
    folder, _ = sweep
    shutil.copytree(folder, folder.parent / "day")
    add(folder, torn=b"soup\n")
    (folder / MARKER).touch()
    views = Views(folder.parent, None, "")
    found, board, faults = views.home()
    assert [one.sweep.name for one in found] == ["day"]
    assert board is not None
    assert {standing.sweep for standing in board.board.interim} == {"day"}
    assert len(faults) == 1
    assert faults[0].startswith(f"journal {folder}/journal.jsonl, line 2: it is no JSON object. ")
    assert f'<p class="note">journal {folder}/' in home_page(found, board, Frame(), faults)
    with pytest.raises(UserError):
        views.sweep("night")
    assert views.sweep("day").sweep.planned == 10


def test_a_journal_that_was_replaced_is_read_anew(sweep: tuple[Path, list[str]]) -> None:
    folder, (first, second) = sweep
    whole = (folder / "journal.jsonl").read_bytes()
    add(folder, asked(second, 0), torn=b"soup\n")
    (folder / MARKER).touch()
    views = Views(folder.parent, None, "")
    with pytest.raises(UserError):
        views.sweep("night")
    (folder / "journal.part").write_bytes(whole + line(asked(first, 0)) + line(asked(first, 1)))
    (folder / "journal.part").replace(folder / "journal.jsonl")
    views.sweep("night")
    requests = views._followed["night"].state.requests
    assert [(request.entry_id, request.index) for request in requests] == [(first, 0), (first, 1)]
