"""The progress display: what a terminal and a log file are shown."""

import io

import pytest
from rich.console import Console

from suite.search.trial import TrialRequest
from suite.studies.entries import make_entries
from suite.studies.study import read_study
from suite.sweeps import running as running_module
from suite.sweeps.journal.events import Begun, Requested, SweepState, ended
from suite.sweeps.progress import Progress
from suite.sweeps.running import Running
from suite.sweeps.status import standing
from trials.run.outcome import Status, TrialKind
from trials.run.result import TrialResult

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
        begun = Begun(
            study_name=name, study=content, lag=4, planned=planned, id="id", entries=about
        )
        self.state.add(begun)
        self.running = Running(dict.fromkeys(self.ids, ("accuracy", 50)))
        super().__init__(lambda: standing(name, self.state, True, *self.running.now()))

    def request(self, entry: int, index: int) -> TrialRequest:
        trial = f"{self.ids[entry]}-s{index:04d}"
        return TrialRequest(trial, self.ids[entry], TrialKind.SEARCH, index, "sampled", {}, 0, 0)

    def began(self, entry: int, index: int) -> None:
        request = self.request(entry, index)
        if request.trial_id not in self.state.requested:
            self.state.add(Requested(request=request))
        self.running.began(request)

    def reported(self, entry: int, index: int, at: int) -> None:
        history = [{"round": at, "val_accuracy": 0.5}]
        self.running.reported(
            self.request(entry, index), TrialResult(Status.RUNNING, history=history)
        )

    def ended(self, entry: int, index: int, status: str = "finished", value: float = 0.5) -> None:
        self.running.over(self.request(entry, index))
        self.take_end(entry, index, status, value)

    def take_end(self, entry: int, index: int, status: str, value: float) -> None:
        """As the journal tells of it."""
        outcome = TrialResult(Status(status), intermediates={50: value})
        for event in ended(self.request(entry, index).trial_id, outcome, at=1.0):
            self.state.add(event)

    @property
    def line(self) -> str:
        return self._line(self.look())

    @property
    def table(self) -> object:
        return self._table(self.look())


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_live_table_fits_and_counts(shown: Shown, width: int) -> None:
    for index, status in enumerate(("finished", "pruned", "diverged", "finished")):
        shown.began(0, index)
        shown.ended(0, index, status, 0.5 + index / 10)
    shown.began(1, 0)
    console = Console(width=width, height=40, file=io.StringIO())
    console.print(shown.table)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    first = next(line for line in lines if "fedavg" in line)
    assert [part for part in first.split() if part[0].isdigit()] == ["4/17", "1", "1", "80.0"]
    assert all(name in lines[1] for name in ("done", "running", "pruned", "diverged", "best val"))
    text = " ".join(lines[-3:])
    assert f"4/{TRIALS} trials" in text
    assert "1 running" in text
    assert "left" in text


def test_many_cells_are_cut_to_the_screen(shown: Shown) -> None:
    shown._console = Console(width=100, height=13, file=io.StringIO())
    console = Console(width=100, height=13, file=io.StringIO())
    console.print(shown.table)
    assert f"... and {ENTRIES - 5} more entries" in console.file.getvalue()


def test_trials_of_an_earlier_session_do_not_count_as_speed(shown: Shown) -> None:
    for index in range(5):
        shown.state.add(Requested(request=shown.request(0, index)))
        shown.take_end(0, index, "finished", 0.5)
    shown.state.add(shown.state.begun)
    assert f"5/{TRIALS} trials" in shown.line
    assert "0 trials/min" in shown.line


def test_what_is_still_written_is_said_when_nothing_runs(shown: Shown) -> None:
    shown.unrecorded = 3
    assert "recorded" not in shown.line, "of the sweep itself, before it has trials"
    shown.began(0, 0)
    assert "recorded" not in shown.line
    shown.ended(0, 0, "finished", 0.5)
    assert "0 running" in shown.line
    assert shown.line.endswith(", 3 still to be recorded")


def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the display takes for the time, in its one element."""
    now = [1000.0]
    monkeypatch.setattr(running_module.time, "monotonic", lambda: now[0])
    return now


def test_starting_up_is_no_trial(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """30 s of start-up, then two at once, a second each: 2 trials/s, not 4 in 32 s."""
    now = clock(monkeypatch)
    for index in range(2):
        shown.began(0, index)
    now[0] += 30
    assert "left" not in shown.line
    for step in range(3):
        now[0] += 1
        for index in (2 * step, 2 * step + 1):
            shown.began(0, index)
        for index in (2 * step, 2 * step + 1):
            shown.ended(0, index, "finished", 0.5)
    # 6 of 238 in the first 33 s: (6 - 2) / 2 s = 2/s, 232 left.
    assert "120 trials/min, about 2 min left" in shown.line


def test_long_trials_tell_the_pace_before_any_of_them_ends(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two trials of 50 rounds: at 5 after the start, 10 s later at 10: 2 x 5 rounds in 10 s are 0.02/s."""
    now = clock(monkeypatch)
    for entry in (0, 1):
        shown.began(entry, 0)
    now[0] += 40
    shown.reported(0, 0, 5)
    shown.reported(1, 0, 5)
    now[0] += 10
    for entry in (0, 1):
        shown.reported(entry, 0, 10)
    # 238 - 0.4 trials at 0.02/s are 11880 s.
    assert shown.line.endswith("2 running, 1 trials/min, about 3.3 h left")


def table(shown: Shown, width: int = 80, height: int = 24) -> list[str]:
    shown._console = Console(width=width, height=height, file=io.StringIO())
    console = Console(width=width, height=height, file=io.StringIO())
    console.print(shown.table)
    return console.file.getvalue().splitlines()


def test_every_row_of_a_small_terminal_is_another_one(shown: Shown) -> None:
    """Fourteen entries on 80 x 24, what they have in common in the head; no column is empty."""
    for entry in range(ENTRIES):
        shown.began(entry, 0)
        shown.ended(entry, 0, "finished", 0.5)
    lines = table(shown)
    assert len(lines) <= 24
    rows = [line.split("│")[1].strip() for line in lines if "/17" in line]
    assert len(set(rows)) == ENTRIES
    assert {"fedavg · iid", "fedavg · labels(2)"} <= set(rows)
    assert "entry (digits · logreg)" in lines[1]
    assert not any(state in lines[1] for state in ("pruned", "diverged", "failed"))


def test_a_scenario_that_is_done_says_so_once(
    shown: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    for entry in range(ENTRIES):
        for index in range(PER_ENTRY):
            shown.began(entry, index)
            shown.ended(entry, index, "finished", (50 + entry) / 100)
        shown._show()
    said = capsys.readouterr().err.splitlines()
    said = [line for line in said if " is done" in line]
    assert said == [
        "quickstart: digits · logreg · iid is done, best on validation: fedumf 56.0 %",
        "quickstart: digits · logreg · labels(2) is done, best on validation: fedumf 63.0 %",
    ]
