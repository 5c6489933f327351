"""What running trials have reported so far: a small file beside the journal, for those who watch.

It is of this moment only. Nothing is rebuilt from it, it is written at most once a second, and a sweep that
ends removes it.
"""

import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, FiniteFloat, TypeAdapter

from suite.search.trial import TrialRequest
from trials.common.files import plain
from trials.run.result import TrialResult

FILE = "running.json"
SECONDS = 1.0
"""How often it is written at most."""
POINTS = 200
"""Evaluations of a trial that are told at most; of more, every second, third, ..."""
Curves = dict[str, list[tuple[int, FiniteFloat]]]
"""(round, validation metric) of each evaluation so far, by trial."""


class Reported(NamedTuple):
    """What the running trials of a sweep reported, where Ray's dashboard is ("": it has none), and the id
    of the sweep's experiment in MLflow ("": nobody knows).
    """

    trials: Curves = {}
    dashboard: Annotated[str, Field(pattern=r"^(https?://[^\s]+)?$")] = ""
    experiment: Annotated[str, Field(pattern=r"^\d*$")] = ""


_FORM = TypeAdapter(Reported)


class Running:
    """Writes what the running trials of a sweep have reported; `metrics` are those of the entries, and
    `experiment` is where MLflow has them.
    """

    def __init__(self, folder: Path, metrics: Mapping[str, str], experiment: str = "") -> None:
        self.path, self.metrics, self._dashboard = folder / FILE, metrics, ""
        self._experiment = experiment
        self._curves: dict[str, tuple[str, Sequence[Mapping[str, float]]]] = {}
        self._next = 0.0

    def joined(self, dashboard: str) -> None:
        """A cluster runs the trials; Ray's own page is at this address, "" where it has none."""
        self._dashboard = dashboard

    def began(self, request: TrialRequest) -> None:
        """A trial runs."""
        self._say(request, ())

    def reported(self, request: TrialRequest, outcome: TrialResult) -> None:
        """A trial has said more."""
        self._say(request, outcome.history)

    def _say(self, request: TrialRequest, history: Sequence[Mapping[str, float]]) -> None:
        self._curves[request.trial_id] = f"val_{self.metrics[request.entry_id]}", history
        if time.monotonic() >= self._next:
            self._write()

    def over(self, request: TrialRequest) -> None:
        """A trial runs no more."""
        self._curves.pop(request.trial_id, None)

    def close(self) -> None:
        """Nothing runs any more."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    @property
    def now(self) -> Reported:
        """What is known at this moment."""
        curves = {
            trial_id: _thinned([(e["round"], e[key]) for e in list(history) if _shown(e, key)])
            for trial_id, (key, history) in self._curves.copy().items()
        }
        return Reported(curves, self._dashboard, self._experiment)

    def _write(self) -> None:
        text = json.dumps(self.now._asdict())
        part = self.path.with_suffix(".part")
        with suppress(OSError):  # no sweep ends because nobody can watch it
            part.write_text(text)
            part.replace(self.path)
        self._next = time.monotonic() + SECONDS


def _thinned(points: list[Any]) -> list[Any]:
    step = -(-len(points) // POINTS) or 1
    return points[::step]


def _shown(entry: Mapping[str, float], key: str) -> bool:
    return math.isfinite(entry.get(key, math.nan))


def read(folder: Path) -> Reported:
    """What the running trials of the sweep in a folder reported; nothing where none runs, or where a file is
    there that no sweep wrote.
    """
    with suppress(OSError, ValueError):
        text = plain(folder / FILE, "running trials").read_text(encoding="utf-8")
        return _FORM.validate_json(text)
    return Reported()
