"""What a report is made of, as plain data; who reads the store fills it in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reports.leaderboard.board import Contest, Leaderboard

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Curve:
    """The test scores of one final run by evaluation; `replicate` are the split, partition and tuning that it is of."""

    group: Contest
    algorithm: str
    seed: int
    rounds: tuple[int, ...]
    scores: tuple[float, ...]
    sent_bytes: tuple[float, ...]
    replicate: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class Failure:
    """A run that crashed, diverged or has no finite test score, with the end of its error, or what was
    not finite, and where MLflow shows it.
    """

    name: str
    kind: str
    status: str
    error: str
    page: str


@dataclass(frozen=True)
class SweepFacts:
    """Where numbers come from: the study as it was run, versions, seeds, fingerprints; and its `setting`:
    rounds, clients, participation, date, duration and budget.
    """

    name: str
    study: str
    study_yaml: str
    facts: Mapping[str, str]
    page: str
    setting: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportData:
    """Everything that a report shows; `server` is where MLflow's pages are. `trials` has the search trials (replicate, number, status,
    val_score) and `tuned` the files by sweep and entry.
    """

    board: Leaderboard
    curves: tuple[Curve, ...] = ()
    trials: Mapping[tuple[str, str], "pd.DataFrame"] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    sweeps: tuple[SweepFacts, ...] = ()
    tuned: Mapping[tuple[str, str], str] = field(default_factory=dict)
    server: str = "http://127.0.0.1:5000"
