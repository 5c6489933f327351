"""What the driver is given: where trials come from, on what data, with which resources."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from suite.execution.resources import Resources
from suite.execution.stop_signal import Control
from suite.search.trial import TrialRequest
from suite.studies.entry import Entry
from trials.datasets.base import Dataset
from trials.run.outcome import TrialResult
from trials.run.spec import TrialSpec


class TrialSource(Protocol):
    """What hands out trials: a sweep's search, a fixed list of runs. `requests` are all that were handed out, by id."""

    requests: dict[str, TrialRequest]

    def next(self) -> tuple[TrialRequest, bool] | None:
        """Return the next trial and whether it is new; None when there is none now."""

    def spec(self, request: TrialRequest) -> TrialSpec:
        """Return the trial that a request runs."""

    @property
    def exhausted(self) -> bool:
        """Whether nothing will be asked any more."""

    @property
    def code(self) -> Collection[str]:
        """The names in trials; some may load third-party code."""


@dataclass
class Hooks:
    """What the driver calls when a trial is handed out (is it new?), has ended, or has lost its process. All may raise
    `HaltedError`, which ends the run, as `control` does.

    A trial that `died` (a signal, its node or Ray ended its process) runs `again` from its checkpoint; one that died too
    often has no end, so that whoever resumes the run has it again. `began` is called with the name of a trial's process,
    which a pack shares, `reported` whenever a trial has said more, `waits` with what all trials wait for ("": for nothing).
    """

    asked: Callable[[TrialRequest, bool], None]
    ended: Callable[[TrialRequest, TrialResult], None]
    control: Control
    died: Callable[[TrialRequest, TrialResult, bool], None] = lambda request, outcome, again: None
    reported: Callable[[TrialRequest, TrialResult], None] = lambda request, outcome: None
    began: Callable[[TrialRequest, str], None] = lambda request, process: None
    waits: Callable[[str], None] = lambda reason: None


@dataclass(frozen=True)
class ExecutionPlan:
    """Trials to run until their source is exhausted, or `hooks.control` ends it.

    `data` are the data sets by `TrialSpec.dataset_key`; the driver empties it. `folder` is for Tune's own
    files, `checkpoints` the path or URI of the folder that all nodes reach. `scheduler` stops search
    trials of `entries`; `ended` are those that are over. By the entry's id, `memory` estimates the bytes of a trial, and
    `packs` is the largest number that begin together in a process (default: one). `model` is where a trial writes its
    final models, None if they are not kept. `alone`: trials may run in this process, where only one runs at a time.
    """

    source: TrialSource
    data: dict[str, Dataset]
    resources: Resources
    hooks: Hooks
    folder: Path
    checkpoints: str
    entries: Sequence[Entry] = ()
    scheduler: str = "none"
    ended: Mapping[str, TrialResult] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    packs: Mapping[str, int] = field(default_factory=dict)
    model: Callable[[TrialRequest], str | None] = lambda request: None
    alone: bool = False
