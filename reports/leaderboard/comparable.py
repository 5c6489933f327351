"""Which final runs may be compared with which.

Scenarios are matched by content, not by the study or sweep that asked: runs are one group when they answer
the same question (data set, model, heterogeneity level) on the same split (partition fingerprint),
under the same shared settings, tuned with the same number of trials. Groups that ask the same
question on other terms stay apart, and what differs is said.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.leaderboard.replication import Draw
from trials.run.spec import Scenario

if TYPE_CHECKING:
    import pandas as pd

Trials = Mapping[tuple[str, str], int]
"""Search trials of each (sweep, scenario), in one of its replicates."""


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


Group = dict[str, list[Any]]
"""The final runs of comparable scenarios by algorithm, each a row with its columns as attributes."""


def matched(runs: "pd.DataFrame", trials: Trials) -> tuple[list[Group], list[str]]:
    """Return comparable runs together, in order of first appearance, and what is to be said about those
    that are not.

    An algorithm that several sweeps answered for on equal terms counts once, with the last of them.
    """
    groups: list[Group] = []
    notes: list[str] = []
    # Warm-started runs are another question.
    for question, asked in runs.groupby([*Scenario._fields, "warm"], sort=False):
        scenario = Scenario(*map(str, question[:-1]))
        alike: dict[ComparisonTerms, Group] = {}
        first: dict[ComparisonTerms, str] = {}
        for sweep in asked["sweep"].unique():
            answers = asked[asked["sweep"] == sweep]
            terms = _terms(answers, trials)
            if terms not in first:
                notes += [
                    f"{scenario}: {sweep} is not comparable with {earlier} and stands apart: {terms.against(other)}."
                    for other, earlier in first.items()
                ]
                first[terms] = sweep
            group = alike.setdefault(terms, {})
            for algorithm in answers["algorithm"].unique():
                own = answers[answers["algorithm"] == algorithm]
                if algorithm in group:
                    before = group[algorithm][0].sweep
                    notes.append(
                        f"{scenario}: {algorithm} was tuned in {before} and {sweep}; {sweep} counts."
                    )
                group[algorithm] = [*own.itertuples(index=False)]
        groups += alike.values()
    return groups, notes


def _terms(answers: "pd.DataFrame", trials: Trials) -> ComparisonTerms:
    """Return the terms of a sweep. The split is that of the first draw: where the partition varies, it varies with the
    seed.
    """
    first = answers.sort_values([*Draw._fields]).iloc[0]
    entries = answers[["sweep", "entry_id"]].itertuples(index=False, name=None)
    most = max(trials.get(entry, 0) for entry in entries)
    return ComparisonTerms(first["partition_fingerprint"], first["shared"], most)
