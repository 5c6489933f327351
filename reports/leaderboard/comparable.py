"""Final runs as they were recorded, and which of them may be compared with which.

Scenarios are matched by content, not by the study or sweep that asked: runs are one group when they answer
the same question (data set, model, heterogeneity level) on the same split (partition fingerprint),
under the same shared settings, tuned with the same number of trials. Groups that ask the same
question on other terms stay apart, and what differs is said.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.leaderboard.replication import Draw
from trials.run.spec import Scenario

Trials = Mapping[tuple[str, str], int]
"""Search trials of each (sweep, scenario), in one of its replicates."""


@dataclass(frozen=True)
class FinalRun:
    """One final run as it was recorded.

    `metric` is its name without `test_`, `score` the mean of the last three evaluations, or the
    untrained model's when `diverged`, which is also said of a run that has no finite mean of its
    metric. `reached` has `REACHED` of the first evaluation at or past the target, {} without one.
    `outside` says how the settings are not those that the algorithm's paper assumes, which makes the run
    a `reference`; `away` what its scenario lacks of the paper's own experiments. `spent` has its `COUNTED` totals, `worst` and `spread` the scores of the worst 10 % of
    clients and their standard deviation over clients.
    `curve` has (cost so far, score) of each evaluation, round 0 first, where runs are compared at
    equal cost. `split_index`, `partition` and `tuning` count the replicates of its entry; `validated` is its own
    validation score with the sign that more is better. `settings` (JSON) and `split` are what makes runs comparable, `page` where MLflow's pages
    show its leaderboard row.
    """

    sweep: str
    study: str
    entry_id: str
    algorithm: str
    paper: str
    scenario: Scenario
    metric: str
    seed: int
    diverged: bool
    score: float
    spent: Mapping[str, float]
    params: Mapping[str, Any]
    reached: Mapping[str, float] = field(default_factory=dict)
    reference: bool = False
    outside: str = ""
    away: str = ""
    curve: tuple[tuple[float, float], ...] = ()
    worst: float | None = None
    spread: float | None = None
    settings: str = "{}"
    split: str = ""
    run_id: str = ""
    page: str = ""
    warm: bool = False
    split_index: int = 0
    partition: int = 0
    tuning: int = 0
    validated: float | None = None

    @property
    def draw(self) -> Draw:
        """What it was drawn by."""
        return Draw(self.split_index, self.partition, self.tuning, self.seed)

    @property
    def replicate(self) -> tuple[int, ...]:
        """The independent search whose winner it repeats."""
        return self.draw[:-1]

    @property
    def question(self) -> tuple[Scenario, bool]:
        """What runs must share to be compared at all; warm-started ones are ranked apart."""
        return self.scenario, self.warm


@dataclass(frozen=True)
class ComparisonTerms:
    """On what terms a sweep answered a question; equal terms are comparable."""

    split: str
    settings: str
    trials: int

    def against(self, other: "ComparisonTerms") -> str:
        """The differences from other terms, in words."""
        found = []
        if self.split != other.split:
            found.append(f"another split (fingerprint {self.split} against {other.split})")
        mine, theirs = json.loads(self.settings), json.loads(other.settings)
        for key in sorted(mine.keys() | theirs):
            if mine.get(key) != theirs.get(key):
                found.append(f"{key} {mine.get(key)} against {theirs.get(key)}")
        if self.trials != other.trials:
            found.append(f"{self.trials} against {other.trials} search trials")
        return ", ".join(found)


Group = dict[str, list[FinalRun]]
"""The runs of comparable scenarios, by algorithm."""


def matched(runs: Sequence[FinalRun], trials: Trials) -> tuple[list[Group], list[str]]:
    """Comparable runs together, in order of first appearance, and what is to be said about those
    that are not.

    An algorithm that several sweeps answered for on equal terms counts once, with the last of them.
    """
    asked: dict[tuple[Scenario, bool], dict[str, list[FinalRun]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for run in runs:
        asked[run.question][run.sweep].append(run)
    groups, notes = [], []
    for (scenario, _), sweeps in asked.items():
        groups_here: dict[ComparisonTerms, Group] = {}
        first: dict[ComparisonTerms, str] = {}
        for sweep, part in sweeps.items():
            terms = _terms(part, trials)
            group = groups_here.setdefault(terms, {})
            for other, its_first in first.items():
                if other != terms and terms not in first:
                    what = terms.against(other)
                    notes.append(
                        f"{scenario}: {sweep} is not comparable with {its_first} and stands apart: {what}."
                    )
            first.setdefault(terms, sweep)
            mine: Group = defaultdict(list)
            for run in part:
                mine[run.algorithm].append(run)
            for algorithm, found in mine.items():
                if algorithm in group:
                    notes.append(
                        f"{scenario}: {algorithm} was tuned in {group[algorithm][0].sweep} and {sweep}; "
                        f"{sweep} counts."
                    )
                group[algorithm] = found
        groups += list(groups_here.values())
    return groups, notes


def _terms(part: Sequence[FinalRun], trials: Trials) -> ComparisonTerms:
    """The split is that of the first draw: where the partition varies, it varies with the seed."""
    lowest = min(part, key=lambda run: run.draw)
    most = max(trials.get((run.sweep, run.entry_id), 0) for run in part)
    return ComparisonTerms(lowest.split, lowest.settings, most)
