"""Final runs as they were recorded, and which of them may be compared with which.

Scenarios are matched by content, not by the study or sweep that asked: runs are one group when they answer
the same question (data set, model, heterogeneity level) on the same split (partition fingerprint),
under the same shared settings, tuned with the same number of trials. Groups that ask the same
question on other terms stay apart, and what differs is said.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
    a `reference`; `away` what its scenario lacks of the paper's own experiments. `spent` has its `COUNTED` totals,
    `worst` and `spread` the scores of the worst 10 % of clients and their standard deviation over clients.
    `curve` has (cost so far, score) of each evaluation, round 0 first, where runs are compared at
    equal cost. `split_index`, `partition` and `tuning` count the replicates of its entry; `validated` is its own
    validation score with the sign that more is better. `settings` (JSON) and `split` are what makes runs comparable,
    `page` where MLflow's pages show its leaderboard row.
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


class ComparisonTerms(NamedTuple):
    """On what terms a sweep answered a question; equal terms are comparable."""

    split: str
    settings: str
    trials: int

    def against(self, other: "ComparisonTerms") -> str:
        """Say how other terms differ."""
        differences = []
        if self.split != other.split:
            differences.append(f"another split (fingerprint {self.split} against {other.split})")
        mine, theirs = json.loads(self.settings), json.loads(other.settings)
        for key in sorted(mine.keys() | theirs):
            if mine.get(key) != theirs.get(key):
                differences.append(f"{key} {mine.get(key)} against {theirs.get(key)}")
        if self.trials != other.trials:
            differences.append(f"{self.trials} against {other.trials} search trials")
        return ", ".join(differences)


Group = dict[str, list[FinalRun]]
"""The runs of comparable scenarios, by algorithm."""


def matched(runs: Sequence[FinalRun], trials: Trials) -> tuple[list[Group], list[str]]:
    """Return comparable runs together, in order of first appearance, and what is to be said about those
    that are not.

    An algorithm that several sweeps answered for on equal terms counts once, with the last of them.
    """
    # Warm-started runs are another question.
    asked: dict[tuple[Scenario, bool], dict[str, list[FinalRun]]] = {}
    for run in runs:
        asked.setdefault((run.scenario, run.warm), {}).setdefault(run.sweep, []).append(run)
    groups: list[Group] = []
    notes: list[str] = []
    for (scenario, _), sweeps in asked.items():
        alike: dict[ComparisonTerms, Group] = {}
        first: dict[ComparisonTerms, str] = {}
        for sweep, answers in sweeps.items():
            terms = _terms(answers, trials)
            if terms not in first:
                notes += [
                    f"{scenario}: {sweep} is not comparable with {earlier} and stands apart: {terms.against(other)}."
                    for other, earlier in first.items()
                ]
                first[terms] = sweep
            group = alike.setdefault(terms, {})
            for algorithm in dict.fromkeys(run.algorithm for run in answers):
                if algorithm in group:
                    before = group[algorithm][0].sweep
                    notes.append(
                        f"{scenario}: {algorithm} was tuned in {before} and {sweep}; {sweep} counts."
                    )
                group[algorithm] = [run for run in answers if run.algorithm == algorithm]
        groups += alike.values()
    return groups, notes


def _terms(answers: Sequence[FinalRun], trials: Trials) -> ComparisonTerms:
    """Return the terms of a sweep. The split is that of the first draw: where the partition varies, it varies with the
    seed.
    """
    lowest = min(answers, key=lambda run: run.draw)
    most = max(trials.get((run.sweep, run.entry_id), 0) for run in answers)
    return ComparisonTerms(lowest.split, lowest.settings, most)
