"""The journal: what was written is there after a crash, and one process writes it."""

import json
import math
import os
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.execution.stop_signal import HaltedError
from suite.sweeps.journal import file as module
from suite.sweeps.journal.file import Journal, begins, line, peek, raw_lines, shortened
from trials.common.errors import UserError

EVENTS = [
    {"event": "begin", "format": 3, "study": {"algorithms": ["folb"], "target": None, "lr": 1e-5}},
    {"event": "request", "trial_id": "a-s0000", "params": {"lr": 0.1, "variant": "plain"}},
    {"event": "end", "trial_id": "a-s0000", "error": "line\nof a traceback · é \u2028 \x85"},
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sweep" / "journal.jsonl"


def write(path, events):
    journal = Journal(path)
    for event in events:
        journal.write(**event)
    journal.close()


def test_round_trip_over_several_sessions(path):
    write(path, EVENTS[:1])
    write(path, EVENTS[1:])
    journal = Journal(path)
    assert journal.size == path.stat().st_size
    journal.close()
    assert peek(path) == EVENTS
    assert len(path.read_text().split("\n")) == len(EVENTS) + 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(JSON, max_size=4), st.binary(max_size=9).filter(lambda b: b"\n" not in b))
def test_whatever_is_written_survives_a_torn_line(tmp_path, values, torn):
    """Line breaks of all kinds, floats to the last bit, and garbage at the end."""
    path = tmp_path / "journal.jsonl"
    path.unlink(missing_ok=True)
    expected = [{"event": "e", "value": value} for value in values]
    write(path, expected)
    with path.open("ab") as file:
        file.write(torn)
    write(path, [{"event": "last"}])
    assert peek(path) == [*expected, {"event": "last"}]


def test_numbers_that_are_none_survive(path):
    write(path, [{"event": "e", "value": [float("nan"), float("inf")]}])
    write(path, [{"event": "f"}])
    first, second = peek(path)
    assert math.isnan(first["value"][0])
    assert first["value"][1] == math.inf
    assert second == {"event": "f"}


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_line_is_cut_and_writing_goes_on(path, cut):
    write(path, EVENTS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    kept = whole[:-cut].count(b"\n")
    assert peek(path) == EVENTS[:kept]
    journal = Journal(path)
    assert journal.size == path.stat().st_size
    journal.write("more", number=1)
    journal.close()
    assert peek(path) == [*EVENTS[:kept], {"event": "more", "number": 1}]


def test_a_file_of_another_writer_loses_nothing(path):
    """Lines are kept as they are, also when we would have spaced them differently."""
    path.parent.mkdir()
    path.write_text("".join(json.dumps(event, indent=None) + "\n" for event in EVENTS))
    write(path, [{"event": "more"}])
    assert peek(path) == [*EVENTS, {"event": "more"}]


def test_peek_at_nothing(path):
    assert peek(path) == []
    assert not path.parent.exists()


def test_peek_beside_a_writer(path):
    journal = Journal(path)
    journal.write(**EVENTS[0])
    assert peek(path) == EVENTS[:1]
    journal.close()


def test_a_second_writer_is_refused(path):
    journal = Journal(path)
    journal.write(**EVENTS[0])
    with pytest.raises(UserError, match="another process is running this sweep"):
        Journal(path)
    journal.write(**EVENTS[1])
    journal.close()
    assert peek(path) == EVENTS[:2]
    Journal(path).close()


def test_a_line_is_on_the_disk_when_write_returns(path, monkeypatch):
    seen = []
    original = os.fsync

    def spy(fd):
        original(fd)
        seen.append((os.fstat(fd).st_ino, path.read_bytes().count(b"\n")))

    monkeypatch.setattr(os, "fsync", spy)
    journal = Journal(path)
    for event in EVENTS:
        journal.write(**event)
    journal.close()
    inode = path.stat().st_ino
    assert seen == [(inode, 1), (inode, 2), (inode, 3)]


def test_threads_do_not_mix_lines(path):
    """The driver and the recorder write at the same time."""
    journal = Journal(path)

    def work(name):
        for i in range(40):
            journal.write("e", name=name, i=i, text="x" * 500)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    events = peek(path)
    for name in "abc":
        assert [event["i"] for event in events if event["name"] == name] == list(range(40))


def test_how_a_sweep_began_is_read_without_the_rest(tmp_path):
    """Each session's line; what else there is may be damaged, and the last line torn."""
    first, second = (
        line("begin", {"format": 3, "study_name": name}) + b"\n" for name in ("a", "b")
    )
    path = tmp_path / "journal.jsonl"
    path.write_bytes(first + b"soup\n" + second + first[:20])
    assert [told["study_name"] for told in begins(path)] == ["a", "b"]


def test_of_a_trial_that_ended_the_last_evaluation_is_read_briefly(path):
    """Whatever its error says, and however long its history is."""
    error = 'told "history":[{"a":1},{"b":2}],"intermediates":{} }],"intermediates":'
    entries = [{"round": r, "val_accuracy": r / 7} for r in range(3)]
    told = {"intermediates": {"2": 0.5}, "error": error}
    histories = [entries, entries[:1], []]
    ends = [
        {"event": "end", "trial_id": str(i), "status": "failed", "history": history, **told}
        for i, history in enumerate(histories)
    ]
    write(path, [*EVENTS, *ends])
    brief = [{**end, "history": end["history"][-1:]} for end in ends]
    assert [json.loads(shortened(raw)) for _, raw in raw_lines(path)] == [*EVENTS, *brief]


def test_the_journal_ends_with_what_the_disk_took(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("request", trial_id="a")
    real = module.os.write
    monkeypatch.setattr(module.os, "write", lambda fd, line: real(fd, line[:7]))
    with pytest.raises(HaltedError, match=r"journal\.jsonl cannot be written: No space left"):
        journal.write("end", trial_id="a")
    monkeypatch.undo()
    with pytest.raises(HaltedError, match="No space left"):
        journal.write("end", trial_id="a")
    journal.close()
    Journal(tmp_path / "journal.jsonl").close()
    assert [event["trial_id"] for event in peek(tmp_path / "journal.jsonl")] == ["a"]
    whole = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert len(whole) == 1
