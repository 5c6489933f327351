"""A person's own command is told how a sweep ended."""

from pathlib import Path

import pytest

from suite.execution.stop_signal import HaltedError
from suite.sweeps.notify import tell, told
from suite.sweeps.result import Result, Summary


def result(failed: int = 0, ending: str = "") -> Result:
    counts = {
        "trials_finished": 6,
        "trials_pruned": 0,
        "trials_diverged": 0,
        "trials_failed": failed,
    }
    summary = Summary(
        study="quick", name="night", entries=2, **counts, final_runs=4, final_runs_diverged=0,
        seconds=12.3, tracking_uri="", experiment_id="", storage="",
    )  # fmt: skip
    return Result(summary, None, ending, None)


@pytest.mark.parametrize(
    ("ended", "line"),
    [
        (result(), "night finished: 4 final runs in 12 s"),
        (result(failed=2), "night failed: 4 final runs in 12 s, 2 trials failed"),
        (result(ending="stopped"), "night stopped: 4 final runs in 12 s"),
    ],
)
def test_the_command_gets_how_it_ended(tmp_path: Path, ended: Result, line: str) -> None:
    heard = tmp_path / "heard"
    command = f'cat > "{heard}"; printf "%s|%s|%s" "$SUITE_SWEEP" "$SUITE_STATE" "$SUITE_MESSAGE" >> "{heard}"'
    assert told(command, "night", lambda: ended) is ended
    assert heard.read_text() == f"{line}\nnight|{line.split()[1][:-1]}|{line}"


def test_who_is_needed_is_told_of_a_fault(tmp_path: Path) -> None:
    heard = tmp_path / "heard"

    def halts() -> Result:
        raise HaltedError("the disk is full")

    with pytest.raises(HaltedError):
        told(f'cat > "{heard}"', "night", halts)
    assert heard.read_text().startswith("night halted: the disk is full. Nothing is lost")


def test_a_command_that_fails_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    tell("exit 3", "night", "finished", "all")
    assert capsys.readouterr().err == "--notify exit 3: it exited with 3\n"
    tell(None, "night", "finished", "all")
