"""The journal: what was written is there after a crash, one process writes it, and watchers keep nobody from it."""

import math
import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from suite.execution.stop_signal import HaltedError
from suite.search.trial import TrialRequest, ValidationResult
from suite.sweeps.journal import events as module
from suite.sweeps.journal.events import (
    Begun,
    Cut,
    Event,
    Journal,
    Requested,
    SweepState,
    ended,
    is_locked,
    outcomes,
)
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialKind, TrialResult

STUDY = {"algorithms": ["folb"], "target": None, "scheduler": "asha", "constraints": {}}
STUDY |= dict.fromkeys(("seeds", "tunings", "partitions", "splits"), 1)
ENTRIES = {"a": {"metric": "accuracy"}}
BEGUN = Begun(study_name="s", study=STUDY, lag=4, planned={"a": 9}, id="id", entries=ENTRIES)


def asked(index: int = 0, **params: Any) -> Requested:
    trial = TrialRequest(f"a-s{index:04d}", "a", TrialKind.SEARCH, index, "default", params, 0, 0)
    return Requested(request=trial)


ERROR = 'line\nof a traceback · é \u2028 \x85 {"event":"curve",'
HISTORY = [{"round": r, "loss": r / 7, "val_accuracy": r / 9} for r in range(3)]
FAILED = TrialResult(Status.FAILED, HISTORY, {1: 0.4, 2: 0.5}, error=ERROR)
EVENTS: list[Event] = [BEGUN, asked(lr=0.1, variant="plain"), *ended("a-s0000", FAILED, at=1.5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sweep" / "journal.jsonl"


def write(path: Path, events: list[Event]) -> SweepState:
    """Write these in a session of their own; what the journal adds up to then."""
    journal = Journal(path, SweepState())
    for event in events:
        journal.write(event)
    journal.close()
    return journal.state


def lines(path: Path) -> list[Event]:
    return [module.EVENTS.validate_json(raw) for raw in path.read_bytes().splitlines()]


def test_round_trip_over_several_sessions(path: Path) -> None:
    write(path, EVENTS[:1])
    state = write(path, EVENTS[1:])
    assert lines(path) == EVENTS
    assert SweepState().read(path).ended == state.ended
    whole = dict(outcomes(path, state.ended))
    assert whole == {"a-s0000": FAILED}
    kinds = [type(value) for value in whole["a-s0000"].history[1].values()]
    assert kinds == [int, float, float], "as they were"


def test_numbers_that_are_none_survive(path: Path) -> None:
    result = TrialResult(Status.DIVERGED, [{"round": 0, "loss": math.inf}], {0: math.nan})
    write(path, [BEGUN, asked(), *ended("a-s0000", result)])
    ((_, got),) = outcomes(path, {"a-s0000"})
    assert repr(got) == repr(result)


@pytest.mark.parametrize("cut", [*range(1, 400, 57), 10**9])
def test_a_torn_last_line_is_cut_and_writing_goes_on(path: Path, cut: int) -> None:
    write(path, EVENTS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    kept = whole[:-cut].count(b"\n")
    assert SweepState().read(path).lines == kept
    write(path, [BEGUN])
    assert lines(path) == [*EVENTS[:kept], BEGUN]


def test_a_trial_whose_end_is_torn_runs_again(path: Path) -> None:
    """Its curve was whole; the next one takes its place."""
    assert write(path, EVENTS[:-1]).ended == {}
    again = TrialResult(Status.FINISHED, [{"round": 0, "loss": 1.0}], {0: 1.0})
    write(path, ended("a-s0000", again))
    assert dict(outcomes(path, {"a-s0000"})) == {"a-s0000": again}


def test_a_state_has_of_a_trial_what_its_search_goes_by(path: Path) -> None:
    """No curve is even parsed."""
    write(path, EVENTS)
    expected = ValidationResult(Status.FAILED, 0.5, {1: 0.4, 2: 0.5}, {}, at=2)
    assert SweepState().read(path).ended == {"a-s0000": expected}
    path.write_bytes(path.read_bytes().replace(b'"history":[{"round":0', b'"history":[[oops'))
    assert SweepState().read(path).ended == {"a-s0000": expected}
    with pytest.raises(UserError, match="line 3: "):
        dict(outcomes(path, {"a-s0000"}))


def test_only_what_is_new_is_read_and_a_torn_line_waits(path: Path) -> None:
    write(path, [BEGUN])
    new = asked().model_dump_json().encode() + b"\n"
    state = SweepState().read(path)
    for part, count in ((new[:20], 0), (new[20:], 1), (b"", 1)):
        with path.open("ab") as file:
            file.write(part)
        assert len(state.read(path).requests) == count


def test_a_second_writer_is_refused(path: Path) -> None:
    assert not is_locked(path)
    journal = Journal(path, SweepState())
    assert is_locked(path)
    with pytest.raises(UserError, match="another process is running this sweep"):
        Journal(path, SweepState())
    journal.close()
    assert not is_locked(path)


def watch(path: Path) -> None:
    while True:
        is_locked(path)


def test_who_watches_keeps_no_sweep_from_starting(path: Path) -> None:
    """A shared lock on the journal itself refused three of 8,372."""
    write(path, [])
    fork = multiprocessing.get_context("fork")
    watchers = [fork.Process(target=watch, args=(path,)) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(300):
            write(path, [])
    finally:
        for watcher in watchers:
            watcher.kill()
            watcher.join()


def test_a_line_is_on_the_disk_when_write_returns(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, original = [], os.fsync

    def spy(fd: int) -> None:
        original(fd)
        seen.append((os.fstat(fd).st_ino, path.read_bytes().count(b"\n")))

    monkeypatch.setattr(os, "fsync", spy)
    write(path, EVENTS[:2])
    journal = Journal(path, SweepState())
    journal.write(*EVENTS[2:])
    journal.close()
    inode = path.stat().st_ino
    assert seen == [(inode, 1), (inode, 2), (inode, 4)], "a curve and its end go together"


def test_threads_do_not_mix_lines(path: Path) -> None:
    """The driver and the recorder write at the same time."""
    write(path, [BEGUN])
    journal = Journal(path, SweepState())

    def work(name: str) -> None:
        for i in range(40):
            journal.write(Cut(planned={name: i}, why="x" * 500), Cut(planned={}))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    plans = [event.planned for event in lines(path) if isinstance(event, Cut) and event.why]
    for name in "abc":
        assert [plan[name] for plan in plans if name in plan] == [*range(40)]


def test_the_journal_ends_with_what_the_disk_took(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, [BEGUN])
    journal = Journal(path, SweepState())
    real = module.os.write
    monkeypatch.setattr(module.os, "write", lambda fd, line: real(fd, line[:7]))
    with pytest.raises(HaltedError, match="No space left"):
        journal.write(asked())
    monkeypatch.undo()
    with pytest.raises(HaltedError, match="No space left"):
        journal.write(asked())
    assert not journal.state.requests
    journal.close()
    write(path, [])
    assert lines(path) == [BEGUN]
