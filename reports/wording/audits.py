"""Audits of leaderboard rows in words: a line of facts for each row, and what was found with its mend."""

from collections.abc import Sequence

from reports.leaderboard.audit import PER_HYPERPARAMETER, Audit, Finding
from reports.leaderboard.board import Row
from reports.table import Column, ColumnKind
from reports.wording.words import label, listed, number

FOUND = {
    "edge": "Winner at an edge of its range",
    "rising": "Best still rising in the last tenth of the trials",
    "diverged": "Many trials diverged",
    "few": f"Fewer than {PER_HYPERPARAMETER} trials per hyperparameter",
}
"""The kinds of findings as the begin of a line."""

ABOUT = (
    "Searched 2 in 16: 2 hyperparameters, 16 trials. Lead: how far the best configuration is ahead of the second "
    "on validation data. Noise: how much its score varies with the seed (standard deviation). As good: other "
    "configurations that are closer to it than that. Last tenth: how much the last tenth of the trials "
    "improved the best. All three are in the unit of the score."
)
"""What the columns of `facts` mean."""
TITLE = "Audit of the searches"
NAMED = 3
"""How many rows of one finding are named."""

HEAD = (
    Column("algorithm", ColumnKind.NAME),
    Column("scenario", ColumnKind.NAME),
    Column("searched"),
    Column("diverged"),
    Column("lead"),
    Column("noise"),
    Column("as good"),
    Column("last tenth"),
    Column("at an edge", ColumnKind.WORDS),
)


def facts(rows: Sequence[Row]) -> list[list[str]]:
    """A line for each audited row, under `HEAD`."""
    scenarios = _scenarios(rows)
    return [
        [label(row), scenarios[row.group], *_facts(row.audit, row.metric)]
        for row in rows
        if row.audit is not None
    ]


def found(rows: Sequence[Row]) -> list[tuple[str, list[str]]]:
    """What was found of all rows: (the command that mends it, what that is), the wider ranges first.

    Of each kind the first `NAMED` rows are named; `facts` has all.
    """
    scenarios, commands = _scenarios(rows), dict[str, dict[str, list[str]]]()
    for kind in FOUND:
        for row in rows:
            for finding in row.audit.findings if row.audit else ():
                if finding.kind == kind:
                    who = f"{label(row)} {scenarios[row.group]}".strip()
                    named = commands.setdefault(finding.command, {}).setdefault(kind, [])
                    named.append(_named(who, label(row), finding))
    return [
        (
            command,
            [
                f"{FOUND[kind]}: {listed(list(dict.fromkeys(who)), NAMED)}."
                for kind, who in by.items()
            ],
        )
        for command, by in commands.items()
    ]


def _named(who: str, short: str, finding: Finding) -> str:
    if finding.kind == "few":  # the same in all scenarios
        return short
    return f"{who} ({finding.text})" if finding.kind == "edge" else who


def _facts(audit: Audit, metric: str) -> list[str]:
    searched = "" if audit.hyperparameters is None else f"{audit.hyperparameters} in {audit.trials}"
    return [
        searched,
        f"{audit.diverged_share:.0%}" if audit.diverged_share else "",
        number(audit.margin, metric),
        number(audit.noise, metric),
        "" if audit.as_good is None else str(audit.as_good),
        f"+{number(audit.late_gain, metric)}" if audit.late_gain else "",
        ", ".join(f"{e.name} {e.end}{' (limit)' * e.closed}" for e in audit.edges or ()),
    ]


def _scenarios(rows: Sequence[Row]) -> dict[tuple[object, ...], str]:
    """The groups' names, of what is not the same in all of them."""
    groups = list(dict.fromkeys(row.group for row in rows))
    parts = [[*group.scenario, group.sweeps] for group in groups]
    differ = [i for i in range(4) if len({part[i] for part in parts}) > 1]
    return {
        group: " ".join(part[i] for i in differ) for group, part in zip(groups, parts, strict=True)
    }
