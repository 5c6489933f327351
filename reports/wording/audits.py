"""Audits of leaderboard rows in words: a line of facts for each row, and what was found."""

from collections.abc import Sequence
from itertools import compress

from reports.leaderboard.audit import PER_HYPERPARAMETER, Audit
from reports.leaderboard.board import Leaderboard, Row
from reports.table import Column, ColumnKind, Table, table
from reports.wording.words import label, listed, number

KINDS = {
    "edge": "Winner at an edge of its range",
    "rising": "Best still rising in the last tenth of the trials",
    "diverged": "Many trials diverged",
    "few": f"Fewer than {PER_HYPERPARAMETER} trials per hyperparameter",
}
"""The kinds of findings as the begin of a line."""
MENDS = (
    "suite sweep STUDY --name NAME --resume --trials N searches longer, "
    "suite sweep STUDY --name OTHER --set search.lr=LOW..HIGH in a wider range"
)
ABOUT = (
    "Searched 2 in 16: 2 hyperparameters, 16 trials. Lead: how far the best configuration is ahead of the second "
    "on validation data. Noise: how much its score varies with the seed (standard deviation). As good: other "
    "configurations that are closer to it than that. Last tenth: how much the last tenth of the trials "
    "improved the best. All three are in the unit of the score."
)
"""What the columns mean."""
TITLE = "Audit of the searches"
NAMED = 3
"""How many rows of one finding are named."""
HEADS = ("searched", "diverged", "lead", "noise", "as good", "last tenth")


def audit_table(board: Leaderboard) -> Table | None:
    """Return how fair the searches were, a line for each audited row, without columns in which nothing stands; None where
    no row is audited.
    """
    scenarios = _scenarios(board.rows)
    columns = [Column("algorithm", ColumnKind.NAME), Column("scenario", ColumnKind.NAME)]
    columns += [*map(Column, HEADS), Column("at an edge", ColumnKind.WORDS)]
    rows = [
        [label(row), scenarios[row.group], *_facts(row.audit, row.metric)]
        for row in board.rows
        if row.audit is not None
    ]
    if not rows:
        return None
    kept = [any(cells) for cells in zip(*rows, strict=True)]
    shown = (compress(row, kept) for row in rows)
    return table([*compress(columns, kept)], map(list, shown), essential=2)


def _facts(audit: Audit, metric: str) -> list[str]:
    searched = "" if audit.hyperparameters is None else f"{audit.hyperparameters} in {audit.trials}"
    return [
        searched,
        f"{audit.diverged_share:.0%}" if audit.diverged_share else "",
        number(audit.margin, metric),
        number(audit.noise, metric),
        "" if audit.as_good is None else str(audit.as_good),
        f"+{number(audit.late_gain, metric)}" if audit.late_gain else "",
        ", ".join(f"{e.name} {e.end}{' (limit)' * (e.wider is None)}" for e in audit.edges or ()),
    ]


def findings(rows: Sequence[Row]) -> list[str]:
    """Return what was found of all rows, a line a kind, in which the first `NAMED` rows are named."""
    scenarios, kinds = _scenarios(rows), dict[str, list[str]]()
    for kind in KINDS:
        for row in rows:
            for finding in row.audit.findings if row.audit else ():
                if finding.kind == kind:
                    who = label(row)
                    if kind != "few":  # which is the same in all scenarios
                        who = f"{who} {scenarios[row.group]}".strip()
                    who += f" ({finding.text})" if kind == "edge" else ""
                    kinds.setdefault(kind, []).append(who)
    return [f"{KINDS[k]}: {listed([*dict.fromkeys(names)], NAMED)}." for k, names in kinds.items()]


def _scenarios(rows: Sequence[Row]) -> dict[tuple[object, ...], str]:
    """Return the groups' names, of what is not the same in all of them."""
    parts = {row.group: (*row.scenario, row.sweeps) for row in rows}
    differ = [len(set(names)) > 1 for names in zip(*parts.values(), strict=True)]
    return {group: " ".join(compress(names, differ)) for group, names in parts.items()}
