"""The progress display: the line that a terminal and a log are shown."""

import pytest

from suite.search.trial import TrialRequest
from suite.sweeps import progress
from suite.sweeps.journal.events import Begun, Requested, SweepState, ended
from suite.sweeps.progress import Progress, Running
from suite.sweeps.status import standing
from trials.run.outcome import Status, TrialKind, TrialResult

ENTRY = {"algorithm": "fedavg", "metric": "accuracy"}


class Shown(Progress):
    """The display of a sweep of one entry of which `began` and `ended` tell."""

    def __init__(self) -> None:
        self.state, self.running = SweepState(), Running({"a": ("accuracy", 50)})
        study = {"scheduler": "none", "seeds": 2}
        self.state.add(
            Begun(
                study_name="s",
                study=study,
                lag=4,
                planned={"a": 238},
                id="id",
                entries={"a": ENTRY},
            )
        )
        super().__init__(lambda: standing("s", self.state, True, *self.running.now()))

    def began(self, index: int) -> TrialRequest:
        search = TrialKind.SEARCH
        request = TrialRequest(f"a-s{index:04d}", "a", search, index, "sampled", {}, 0, 0)
        self.state.add(Requested(request=request))
        self.running.began(request)
        return request

    def ended(self, request: TrialRequest, status: Status = Status.FINISHED) -> None:
        self.running.stopped(request, over=True)
        for event in ended(request.trial_id, TrialResult(status, intermediates={50: 0.5}), at=1.0):
            self.state.add(event)

    @property
    def now(self) -> str:
        return self.line(self.look())


def test_the_line_counts_and_says_what_is_still_written_when_nothing_runs() -> None:
    shown = Shown()
    for index, status in enumerate((Status.FINISHED, Status.PRUNED, Status.FINISHED)):
        shown.ended(shown.began(index), status)
    shown.unrecorded = 3
    request = shown.began(3)
    assert shown.now.startswith("s: 3/238 runs (2 finished, 1 pruned), 1 running, ")
    shown.ended(request)
    assert "0 running" in shown.now
    assert shown.now.endswith(", 3 still to be recorded")


def test_starting_up_is_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 s of start-up, then two at once, a second each: 2 trials/s."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = Shown()
    now[0] += 30
    assert "left" not in shown.now
    for step in range(3):
        pair = [shown.began(index) for index in (2 * step, 2 * step + 1)]
        now[0] += 1
        for request in pair:
            shown.ended(request)
    assert "120 runs/min, about 2 min left" in shown.now
