"""What running trials have reported so far: a small file beside the journal, for those who watch.

It is of this moment only. Nothing is rebuilt from it, it is written at most once a second, and a sweep that
ends removes it.
"""

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import FiniteFloat, TypeAdapter

from suite.search.trial import TrialRequest
from suite.yaml_files import write_whole
from trials.common.files import plain
from trials.run.result import TrialResult

FILE = "running.json"
SECONDS = 1.0
"""How often it is written at most."""
POINTS = 200
"""Evaluations of a trial that are told at most; of more, every second, third, ..."""
LEAST = 0.05
"""No pace is told before so much of a trial is done: of less, the time left is anything."""
Points = list[tuple[int, FiniteFloat]]
"""(round, validation metric) of each evaluation of a trial so far."""


class Reported(NamedTuple):
    """What the running trials of a sweep reported, where Ray's dashboard is ("": it has none), the id
    of the sweep's experiment in MLflow ("": nobody knows), how many processes run trials, the sum of the shares of
    their rounds that trials have done, trials per second (None: nobody knows), and the hardware and its load, in words.
    """

    trials: dict[str, Points] = {}
    dashboard: str = ""
    experiment: str = ""
    processes: int = 0
    shares: FiniteFloat = 0.0
    per_second: FiniteFloat | None = None
    hardware: str = ""


_FORM = TypeAdapter(Reported)


@dataclass
class Eta:
    """Trials per second since the first of them said something: starting up is no trial.

    Whatever runs at that moment is taken to be as far as the one that spoke, so the rate does not begin with
    a machine full of trials that all end at once.
    """

    since: float | None = None
    done: float = 0.0

    def begin(self, now: float, share: float, running: int) -> None:
        """Note that a trial has done this share of its rounds while so many run; only the first call counts."""
        if self.since is None:
            self.since, self.done = now, share * max(1, running)

    def rate(self, now: float, done: float) -> float | None:
        """Return trials per second, where `done` counts running trials by their share; None while nobody knows."""
        if self.since is None or now <= self.since or done - self.done < LEAST:
            return None
        return (done - self.done) / (now - self.since)


@dataclass
class _Trial:
    """A running trial: its process, its metric, the share of its rounds that is done, and what it reported."""

    process: str
    key: str
    share: float = 0.0
    history: Sequence[Mapping[str, float]] = ()

    @property
    def curve(self) -> Points:
        history = [e for e in list(self.history) if math.isfinite(e.get(self.key, math.nan))]
        step = -(-len(history) // POINTS) or 1
        return [(int(entry["round"]), entry[self.key]) for entry in history[::step]]


class Running:
    """Keeps and writes what the running trials of a sweep have reported, and their pace. `entries` has the metric and
    the rounds of each; `experiment` is where MLflow has them.
    """

    def __init__(
        self, folder: Path, entries: Mapping[str, tuple[str, int]], experiment: str = ""
    ) -> None:
        self.path, self.entries, self.experiment = folder / FILE, entries, experiment
        self._dashboard = self._hardware = ""
        self._trials: dict[str, _Trial] = {}
        self._pace, self._over, self._next = Eta(), 0, 0.0

    def joined(self, dashboard: str, hardware: str) -> None:
        """Note the hardware of the cluster and the address of Ray's own page, "" where it has none."""
        self._dashboard, self._hardware = dashboard, hardware

    def began(self, request: TrialRequest, process: str) -> None:
        """Note that a trial runs, in a process that others of a pack may share."""
        metric, _ = self.entries[request.entry_id]
        self._trials[request.trial_id] = _Trial(process, f"val_{metric}")
        self._written()

    def reported(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Note that a trial has said more."""
        metric, rounds = self.entries[request.entry_id]
        trial = self._trials.setdefault(request.trial_id, _Trial("", f"val_{metric}"))
        trial.share, trial.history = outcome.last_round / rounds, outcome.history
        self._pace.begin(time.monotonic(), trial.share, len(self._trials))
        self._written()

    def over(self, request: TrialRequest) -> None:
        """Note that a trial has ended."""
        self._pace.begin(time.monotonic(), 1.0, len(self._trials))
        self._over += 1
        self.stopped(request)

    def stopped(self, request: TrialRequest) -> None:
        """Note that a trial runs no more, and may start again."""
        self._trials.pop(request.trial_id, None)

    def close(self) -> None:
        """Remove the file: nothing runs any more."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    @property
    def now(self) -> Reported:
        """What is known at this moment."""
        trials = self._trials.copy()
        shares = sum(trial.share for trial in trials.values())
        return Reported(
            trials={trial_id: trial.curve for trial_id, trial in trials.items()},
            dashboard=self._dashboard,
            experiment=self.experiment,
            processes=len({trial.process for trial in trials.values()}),
            shares=shares,
            per_second=self._pace.rate(time.monotonic(), self._over + shares),
            hardware=self._hardware and f"{self._hardware}; {load()}",
        )

    def _written(self) -> None:
        if time.monotonic() >= self._next:
            with suppress(OSError):  # no sweep ends because nobody can watch it
                write_whole(self.path, json.dumps(self.now._asdict()))
            self._next = time.monotonic() + SECONDS


def load() -> str:
    """Say how busy the machine of the sweep is: processes that run or wait (mean of a minute), memory in use."""
    told = f"load {os.getloadavg()[0]:.1f}"
    with suppress(OSError, KeyError, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        total = kilobytes["MemTotal"]
        used = total - kilobytes["MemAvailable"]
        told += f", {used / 1e6:.1f} of {total / 1e6:.0f} GB of memory in use"
    return told


def read(folder: Path) -> Reported:
    """Return what the running trials of the sweep in a folder reported; nothing where none runs, or where a file
    is there that no sweep wrote.
    """
    with suppress(OSError, ValueError):
        text = plain(folder / FILE, "running trials").read_text(encoding="utf-8")
        return _FORM.validate_json(text)
    return Reported()
