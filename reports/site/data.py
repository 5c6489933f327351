"""What a board's site is made of, as plain data; who reads the stores and bundles fills it in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.charts.data import ReportData
from reports.leaderboard.board import Contest, Leaderboard
from trials.algorithm import Range

Entry = tuple[str, str]
"""Sweep and entry of a row."""


@dataclass(frozen=True)
class MethodFacts:
    """What is known of a method: what its docstring says (`formulas`, `facts`), what its paper takes for granted and
    published, its hyperparameters' ranges, defaults and both in words. Of a third party's nothing but the
    ranges it was searched in.
    """

    name: str
    paper: str = ""
    summary: str = ""
    formulas: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    requires: Sequence[str] = ()
    published: Sequence[str] = ()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Spec:
    """The file that a row's number comes from, as text, and the options with which `suite run` repeats its
    first final run from it.
    """

    text: str
    options: str


@dataclass(frozen=True)
class Winner:
    """What one search of a method in a scenario chose."""

    group: Contest
    algorithm: str
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """Where records came from: a store or a published bundle, and facts about it."""

    name: str
    facts: Mapping[str, str]


@dataclass(frozen=True)
class SiteData:
    """Everything that a site shows: `report` at equal rounds, `at` the leaderboards at equal rounds, steps and
    bytes, a `Spec` for each row, the studies' text by sweep, what all searches chose, the documents of
    `suite reproduce`.
    """

    report: ReportData
    at: Mapping[str, Leaderboard]
    specs: Mapping[Entry, Spec]
    studies: Mapping[str, str]
    methods: Mapping[str, MethodFacts]
    winners: Sequence[Winner]
    papers: Sequence[Mapping[str, Any]]
    sources: Sequence[Source]
