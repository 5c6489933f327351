"""Two sweeps side by side: where their studies differ, and what each algorithm came to in both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.leaderboard.board import Row
from reports.page.live import Frame, Live
from reports.page.page import render
from reports.snapshot import EntrySnapshot
from reports.table import Cell, Cells, Column, ColumnKind, Table, table
from reports.wording.words import mean_text, number, params_text
from trials.run.outcome import TrialKind

ABOUT = (
    "Score: the mean over final runs on test data, ± a 95 % interval. Validation: the best search trial. Shares are in "
    "percent. Whether a difference is more than chance is what a leaderboard of both says: `suite leaderboard` ranks sweeps "
    "together where they are comparable."
)
ALIKE = "The two studies are alike."


@dataclass(frozen=True)
class Compared:
    """A sweep that is compared: how it stands, and its study's keys with their values."""

    live: Live
    study: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.live.sweep.name

    @property
    def entries(self) -> dict[tuple[str, str], EntrySnapshot]:
        """Its entries by algorithm and scenario."""
        return {(entry.name, str(entry.scenario)): entry for entry in self.live.sweep.entries}

    def row(self, entry: EntrySnapshot) -> Row | None:
        """The leaderboard's row of an entry, where its final runs are all there."""
        rows = self.live.board.rows if self.live.board else ()
        return next((row for row in rows if row.entry_id == entry.entry_id), None)

    def winner(self, entry: EntrySnapshot) -> str:
        """The configuration of the best search trial of an entry."""
        scored = [
            (entry.sign * trial.score, params_text(trial.params))
            for trial in self.live.trials
            if trial.entry_id == entry.entry_id
            and trial.kind == TrialKind.SEARCH
            and trial.score is not None
        ]
        return max(scored)[1] if scored else ""


def page(names: Sequence[str], a: Compared | None, b: Compared | None, frame: Frame) -> str:
    """The page; where two sweeps are not given it asks for them."""
    return render(
        "compare.html",
        title="Compare sweeps",
        names=names,
        chosen=[one.name if one else "" for one in (a, b)],
        tables=[_studies(a, b), _entries(a, b)] if a and b else [],
        frame=frame,
        here="/compare",
        script="",
    )


def _studies(a: Compared, b: Compared) -> Table:
    keys = [key for key in {**a.study, **b.study} if a.study.get(key) != b.study.get(key)]
    rows: list[Cells] = [
        [key, *(Cell(_said(one.study.get(key)), look="cut") for one in (a, b))] for key in keys
    ]
    title = "What differs in their studies"
    return table(["key", a.name, b.name], rows, title=title, notes=[] if keys else [ALIKE])


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return params_text(value)
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "-" if value is None else str(value)


def _entries(a: Compared, b: Compared) -> Table:
    both = a.entries.keys() & b.entries.keys()
    order = [key for key in {**a.entries, **b.entries} if key in both]
    order += [key for key in {**a.entries, **b.entries} if key not in both]
    rows = [_row(key, a, b) for key in order]
    heads: list[Column | str] = [
        "algorithm",
        Column("scenario", ColumnKind.WORDS),
        *(
            Column(f"{part} {one.name}", better=1)
            for part in ("score", "validation")
            for one in (a, b)
        ),
        Column("score, second less first"),
        *(Column(f"configuration {one.name}", ColumnKind.WORDS) for one in (a, b)),
    ]
    return table(heads, rows, title="Algorithms", look="narrow", notes=[ABOUT])


def _row(key: tuple[str, str], a: Compared, b: Compared) -> Cells:
    """An algorithm in a scenario; empty where one of the sweeps has not got it."""
    entries = [(one, one.entries.get(key)) for one in (a, b)]
    found = [one.row(entry) if entry else None for one, entry in entries]
    first, second = found
    gap = None
    if first and second and first.metric == second.metric:
        apart = second.mean - first.mean
        gap = Cell("+" * (apart > 0) + number(apart, first.metric, 2), apart)
    return [
        *key,
        *(Cell(mean_text(row), row.mean) if row else "" for row in found),
        *(Cell(number(e.best, e.metric), e.best) if e else "" for _, e in entries),
        gap or "",
        *(Cell(one.winner(e) if e else "", look="cut") for one, e in entries),
    ]
