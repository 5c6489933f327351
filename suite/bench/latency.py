"""`suite bench latency`: how long commands take from a cold process, against what they may take."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from suite.studies.study import read_study
from suite.tracking import on_its_own
from trials.errors import UserError
from trials.machine import usable_cpus

LIBRARIES = ("torch", "mlflow")
"""Imports that commands wait for, timed beside them: what cannot be spared."""
BUDGETS: dict[tuple[str, ...], float] = {
    ("--help",): 0.3,
    ("list", "algorithms"): 1.0,
    ("status",): 1.0,
    ("tuned", "list"): 4.0,
    ("leaderboard",): 4.0,
    ("report",): 4.0,
    ("run",): 6.0,
}
"""Seconds that commands may take on an idle core, byte-compiled."""
SWEEP = 45.0
"""Seconds that a sweep of the quickstart may take on two."""
_PLACELESS = ("--help", "list")
_SUITE = (sys.executable, "-c", "from suite.cli.app import main; main()")


def latency(study: str, runs: int) -> dict[str, Any]:
    """The median seconds of `runs` cold processes each, one command after the other: imports, a sweep of
    the study, and what reads the first such sweep. Raises `UserError` when a command fails, or there is no such study.
    """
    read_study(study, {})
    folder = Path(tempfile.mkdtemp(prefix="suite-bench-"))
    seconds: dict[str, list[float]] = defaultdict(list)
    try:
        for number in range(runs):
            for name in LIBRARIES:
                command = (sys.executable, "-c", f"import {name}")
                seconds[f"import {name}"].append(_seconds(command))
            place = ("--storage", str(folder / str(number)), "--name", "measured")
            seconds[f"sweep {study}"].append(_seconds((*_SUITE, "sweep", study, *place)))
            there = ("--storage", str(folder / "0"))
            for words in BUDGETS:
                where = () if words[0] in _PLACELESS else there
                seconds[" ".join(words)].append(_seconds((*_SUITE, *words, *where)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    budgets = {" ".join(words): budget for words, budget in BUDGETS.items()}
    if study == "quickstart":
        budgets["sweep quickstart"] = SWEEP
    return {
        "runs": runs,
        "cores": usable_cpus(),
        "commands": [_row(name, found, budgets.get(name)) for name, found in seconds.items()],
    }


def _row(name: str, found: Sequence[float], budget: float | None) -> dict[str, Any]:
    middle = median(found)
    return {
        "command": name,
        "seconds": round(middle, 2),
        "fastest": round(min(found), 2),
        "slowest": round(max(found), 2),
        "budget": budget,
        "met": None if budget is None else middle <= budget,
    }


def _seconds(command: Sequence[str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=on_its_own(),
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        words = " ".join(command[len(_SUITE) :])
        raise UserError(f"`suite {words}`, to be measured, failed:\n{done.stderr[-1000:]}")
    return seconds
