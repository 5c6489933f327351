"""`suite status`: pace, time left and best scores, of a journal written by hand."""

from pathlib import Path

import pytest

from reports.snapshot import spell
from suite.search.trial import TrialRequest
from suite.studies.entries import make_entries
from suite.sweeps.journal.events import Begun, Event, Requested, ended
from suite.sweeps.journal.file import Journal
from suite.sweeps.running import Eta
from tests.support.commands import document, suite_here
from tests.support.searches import a_study
from trials.run.outcome import Status, TrialKind
from trials.run.result import TrialResult

STUDY = a_study(algorithms=["fedavg", "fedprox"], trials=6, seeds=2)
ENTRIES = make_entries(STUDY, "test")


def write(storage: Path) -> Journal:
    """Two trials at once, a second each, after 100 s of start-up; of 16 there are 6, one is no number."""
    journal = Journal(storage / "small" / "journal.jsonl")
    about = {entry.id: entry.about() for entry in ENTRIES}
    content = STUDY.model_dump(mode="json")
    planned = {entry.id: 8 for entry in ENTRIES}
    events: list[Event] = [
        Begun(study_name="mine", study=content, lag=4, planned=planned, id="id", entries=about)
    ]
    scores = {0: (0.5, 0.6), 1: (0.8, 0.55), 2: (0.7, None)}
    for index, values in scores.items():
        requests = [
            TrialRequest(f"{e.id}-s000{index}", e.id, TrialKind.SEARCH, index, "sampled", {}, 0, 0)
            for e in ENTRIES
        ]
        events += [Requested(request=request) for request in requests]
        for request, value in zip(requests, values, strict=True):
            status = Status.DIVERGED if value is None else Status.FINISHED
            outcome = TrialResult(status, intermediates={} if value is None else {5: value})
            events += ended(request.trial_id, outcome, at=100.0 + index)
    journal.write(*events)
    return journal


def test_it_has_the_pace_the_time_left_and_the_best(tmp_path):
    journal = write(tmp_path / "runs")
    found = document(suite_here("status", "small", "--json", cwd=tmp_path))
    # (6 - 2) trials between 100 and 102 s; 10 are left.
    assert (found["per_minute"], found["seconds_left"]) == (120.0, 5.0)
    assert [(e["algorithm"], e["best"], e["trials"]) for e in found["best"]] == [
        ("fedavg", 0.8, 3),
        ("fedprox", 0.6, 2),
    ]
    text = suite_here("status", "small", cwd=tmp_path).stdout.splitlines()
    assert text[0].startswith(
        "small: 6/16 trials (5 finished, 1 diverged), 0 recorded; running, 120 trials/min, "
        "about 5 s left, last event "
    )
    assert text[1:] == ["  digits · logreg · iid: best on validation fedavg 0.8000, fedprox 0.6000"]
    journal.close()
    found = document(suite_here("status", "small", "--json", cwd=tmp_path))
    assert (found["running"], found["seconds_left"]) == (False, None)


def test_a_new_session_has_a_pace_of_its_own(tmp_path):
    journal = write(tmp_path / "runs")
    study = STUDY.model_dump(mode="json")
    journal.write(Begun(study_name="mine", study=study, lag=4, planned={}, id="id", entries={}))
    found = document(suite_here("status", "small", "--json", cwd=tmp_path))
    assert (found["per_minute"], found["seconds_left"]) == (None, None)
    journal.close()


def test_a_pace_is_not_known_before_anything_moved():
    pace = Eta()
    assert pace.rate(10.0, 5.0) is None
    pace.begin(10.0, 1.0, 4)
    pace.begin(11.0, 1.0, 1)
    assert pace.rate(10.0, 4.0) is None
    assert pace.rate(12.0, 4.0) is None
    assert pace.rate(12.0, 4.04) is None, "a resumed trial's first rounds on a busy machine"
    assert pace.rate(12.0, 8.0) == 2.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (5900, "98 min"), (12600, "3.5 h")],
)
def test_a_time_is_said_as_people_do(seconds, text):
    assert spell(seconds) == text
