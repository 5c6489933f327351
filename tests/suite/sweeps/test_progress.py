"""The progress display: what a terminal and a log file are shown."""

import io

import pytest
from rich.console import Console

from suite.search.trial import TrialRequest
from suite.studies.entries import make_entries
from suite.studies.study import read_study
from suite.sweeps import status as status_module
from suite.sweeps.journal.events import Begun, Requested, SweepState, ended
from suite.sweeps.progress import Progress
from suite.sweeps.status import Running, standing
from trials.run.outcome import Status, TrialKind, TrialResult

ENTRIES, PER_ENTRY = 14, 17
TRIALS = ENTRIES * PER_ENTRY


class Shown(Progress):
    """The display of a sweep of which `began`, `reported` and `ended` tell."""

    def __init__(self) -> None:
        name, study = read_study("quickstart", {})
        entries = make_entries(study, name)[:ENTRIES]
        self.ids = [entry.id for entry in entries]
        planned = dict.fromkeys(self.ids, PER_ENTRY)
        about = {entry.id: entry.about() for entry in entries}
        self.state = SweepState()
        content = study.model_dump(mode="json")
        self.state.add(
            Begun(study_name=name, study=content, lag=4, planned=planned, id="id", entries=about)
        )
        self.running = Running(dict.fromkeys(self.ids, ("accuracy", 50)))
        super().__init__(name, lambda: standing(name, self.state, True, *self.running.now()))

    def began(self, entry: int, index: int) -> TrialRequest:
        trial = f"{self.ids[entry]}-s{index:04d}"
        search = TrialKind.SEARCH
        request = TrialRequest(trial, self.ids[entry], search, index, "sampled", {}, 0, 0)
        self.state.add(Requested(request=request))
        self.running.began(request)
        return request

    def ended(self, request: TrialRequest, status: str = "finished", value: float = 0.5) -> None:
        self.running.over(request)
        outcome = TrialResult(Status(status), intermediates={50: value})
        for event in ended(request.trial_id, outcome, at=1.0):
            self.state.add(event)

    @property
    def line(self) -> str:
        return self._line(self.look())

    def table(self, width: int) -> list[str]:
        console = Console(width=width, height=24, file=io.StringIO())
        console.print(self._table(self.look()))
        return console.file.getvalue().splitlines()


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.mark.parametrize("width", [80, 160])
def test_the_live_table_fits_counts_and_names_each_entry(shown: Shown, width: int) -> None:
    """What all entries have in common is in the head, and no column is empty."""
    for index, status in enumerate(("finished", "pruned", "diverged", "finished")):
        shown.ended(shown.began(0, index), status, 0.5 + index / 10)
    shown.began(1, 0)
    lines = shown.table(width)
    assert max(map(len, lines)) <= width
    assert f"4/{TRIALS} runs" in lines[0]
    assert "1 running" in lines[0]
    head = next(line for line in lines if "entry (digits · logreg)" in line)
    assert all(name in head for name in ("done", "running", "pruned", "diverged", "best val"))
    assert "failed" not in head
    rows = [line.split("│")[1].strip() for line in lines if "/17" in line]
    assert len(set(rows)) == ENTRIES
    first = next(line for line in lines if "fedavg · iid" in line)
    assert [part for part in first.split() if part[0].isdigit()] == ["4/17", "1", "1", "80.0"]


def test_what_is_still_written_is_said_when_nothing_runs(shown: Shown) -> None:
    shown.unrecorded = 3
    request = shown.began(0, 0)
    assert "recorded" not in shown.line
    shown.ended(request)
    assert "0 running" in shown.line
    assert shown.line.endswith(", 3 still to be recorded")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the display takes for the time, in its one element."""
    now = [1000.0]
    monkeypatch.setattr(status_module.time, "monotonic", lambda: now[0])
    return now


def test_starting_up_is_no_trial(shown: Shown, clock: list[float]) -> None:
    """30 s of start-up, then two at once, a second each: 2 trials/s, not 4 in 32 s."""
    clock[0] += 30
    assert "left" not in shown.line
    for step in range(3):
        pair = [shown.began(0, index) for index in (2 * step, 2 * step + 1)]
        clock[0] += 1
        for request in pair:
            shown.ended(request)
    # 6 of 238 in the first 33 s: (6 - 2) / 2 s = 2/s, 232 left.
    assert "120 runs/min, about 2 min left" in shown.line
