"""A person's own command is told when a sweep ends or needs somebody."""

import os
import subprocess
from collections.abc import Callable

from suite.console import say
from suite.execution.stop_signal import HaltedError
from suite.sweeps.result import Result

SECONDS = 60
"""How long the command may take."""


def told(command: str | None, name: str, run: Callable[[], Result]) -> Result:
    """The result of `run`; how it ended is told to the shell command, where there is one. Raises as `run` does."""
    try:
        result = run()
    except HaltedError as error:
        tell(command, name, "halted", f"{error}. {error.remedy}")
        raise
    failed = result.summary.trials_failed
    state = result.ending or ("failed" if failed else "finished")
    trials = f"{result.summary.final_runs} final runs in {result.summary.seconds:.0f} s"
    tell(command, name, state, trials + (f", {failed} trials failed" if failed else ""))
    return result


def tell(command: str | None, name: str, state: str, message: str) -> None:
    """Run the command with SUITE_SWEEP, SUITE_STATE and SUITE_MESSAGE in its environment, and the message on its
    standard input. What does not work is said, and ends nothing.
    """
    if command is None:
        return
    line = f"{name} {state}: {message}"
    given = {"SUITE_SWEEP": name, "SUITE_STATE": state, "SUITE_MESSAGE": line}
    try:
        done = subprocess.run(
            command,
            shell=True,
            input=f"{line}\n",
            text=True,
            env={**os.environ, **given},
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"--notify {command}: {error}")
    else:
        if done.returncode:
            say(f"--notify {command}: it exited with {done.returncode}")
