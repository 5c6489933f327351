"""Tuned configurations of a store and of imported files, and which of them match."""

import shlex
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from reports.frames import frame
from reports.leaderboard.board import Row
from reports.leaderboard.statistics import interval
from reports.table import Column, ColumnKind, Table, table
from reports.wording.words import params_text, short
from suite.configurations import configuration as tuned
from suite.configurations.configuration import Tuned
from suite.console import say
from suite.results.final_runs import number as number_of
from suite.results.final_runs import run_id, spec_of
from suite.results.table import FILE, TrialTable, read
from suite.results.tables import Tables, nothing_in, records
from suite.tracking.tables import RecordedTable, recorded_tables
from trials import algorithms
from trials.common.errors import UserError, unknown
from trials.run.scenario import SPELLING

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 10
"""Choices that a message names at most."""


class TunedList(list[Tuned]):
    """Tuned configurations, those of a data set and level together, of these the best validated first."""

    def __repr__(self) -> str:
        lines = (f"{t.algorithm} on {t.scenario}: {params_text(t.params)}" for t in self)
        return "\n".join(lines) or "no tuned configuration"

    def _repr_html_(self) -> str:
        from reports.page.notebook import html

        return html([self.table])

    @property
    def table(self) -> Table:
        """The table of `suite tuned list`."""
        columns = (
            Column("algorithm", ColumnKind.NAME),
            Column("scenario", ColumnKind.NAME),
            Column("val"),
            Column("test"),
            Column("params", ColumnKind.WORDS),
            Column("from", ColumnKind.NAME),
        )
        rows = []
        for item in self:
            scores = [item.scores.get(f"{part}_{item.task.metric}") for part in ("val", "test")]
            texts = [f"{v:z.4f}" if isinstance(v, int | float) else "" for v in scores]
            source = str(item.provenance.get("sweep", "a file"))
            name, scenario = short(item.algorithm), str(item.scenario)
            rows.append([name, scenario, *texts, params_text(item.params), source])
        return table(columns, rows, essential=5)

    def to_pandas(self) -> "pd.DataFrame":
        """A row a configuration, with columns such as `params.lr` and `scores.val_accuracy`."""
        return frame(item.model_dump(mode="json") for item in self)


def tuned_of(tables: Tables, row: Row, rows: Sequence[Row]) -> Tuned:
    """Return the tuned configuration behind a row of a leaderboard of these tables; `rows` are all of the board."""
    of, key = tables.facts[row.sweep], (row.sweep, row.entry_id)
    ordered = records(tables.finals.sort_values("seed"))
    finals = [final for final in ordered if run_id(final) in row.chosen]
    first, searches = finals[0], tables.searches[key]
    spec = spec_of(first)
    confirming = int((searches["kind"] == "confirm").sum())
    scores = [final["test_score"] for final in finals]
    mean, between = row.mean, [row.ci_low, row.ci_high]
    if len(row.chosen) < len(row.runs):  # the row is about several tunings, the file about one
        mean, between = fmean(scores), [*interval(scores)]
        confirming //= len(row.by_replicate)
    source = searches.loc[searches["trial_id"] == first["source"], "val_score"]
    code = {name: of.code[name] for name in spec.code if name in of.code}
    return Tuned(
        algorithm=spec.algorithm,
        **spec.scenario.names(),
        params=spec.params,
        settings=spec.settings,
        scores={
            f"val_{first['metric']}": number_of(source.iloc[0]) if len(source) else None,
            f"test_{first['metric']}": mean,
            "test_interval_95": between,
            "test_by_seed": {final["seed"]: final["test_score"] for final in finals},
        },
        budget={
            "trials": row.trials,
            **({"confirming": confirming} if confirming else {}),
            **({"tunings": row.tunings} if row.tunings > 1 else {}),
            **({"partitions": row.partitions} if row.partitions > 1 else {}),
            "rounds": spec.settings.rounds,
            "sampler": of.study["sampler"],
            "scheduler": of.study["scheduler"],
        },
        provenance={
            "study": row.study,
            "sweep": row.sweep,
            "origin": first["origin"],
            **({"warm_start": first["warm_start"]} if first["warm_start"] else {}),
            **({"code": code} if code else {}),
            "search_trial": first["source"],
            "suite_version": first["version"],
            "partition_fingerprint": first["partition_fingerprint"],
            "date": tuned.today(),
            **({"board": _standing(row, rows)} if row.rank is not None else {}),
            "runs": [run_id(final) for final in finals],
        },
    )


def _standing(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """The rank of a row among those that are ranked with it, whether it may be the best, and what its audit found."""
    ranked = [one for one in rows if one.group == row.group and one.rank is not None]
    found = [one.text for one in row.audit.findings] if row.audit else []
    return {
        "rank": row.rank,
        "of": len(ranked),
        "may_be_best": row.within_noise,
        "audit": found if row.audit else None,
    }


def tuned_in(tables: Iterable[TrialTable]) -> list[Tuned]:
    """Return the tuned configurations of sweeps that have ended."""
    return [
        tuned.parse(entry.tuned, f"sweep {table.facts.name}, {entry.name}")
        for table in tables
        for entry in table.facts.entries
        if entry.tuned
    ]


def list_tuned(storage: Path, tracking_uri: str | None = None) -> list[Tuned]:
    """Return every tuned configuration: the sweeps' of a storage, or of a tracking server, then imported files. No trial is read."""
    found: list[Tuned] = []
    if tracking_uri is None:
        places = [partial(read, path) for path in sorted(storage.glob(f"*/{FILE}"))]
    else:
        places = [partial(_fetched, table) for table in recorded_tables(tracking_uri)]
    for place in places:
        try:
            found += tuned_in([place()])
        except UserError as error:
            say(str(error))
    return found + [tuned.read(path) for path in sorted((storage / "imported").rglob("*.yaml"))]


def _fetched(table: RecordedTable) -> TrialTable:
    return read(table.download())


def known(storage: Path, tracking_uri: str | None) -> list[Tuned]:
    """Return every tuned configuration; raises `UserError` where there is neither a sweep nor an imported file."""
    found = list_tuned(storage, tracking_uri)
    if not found and tracking_uri is None and not any(storage.glob(f"*/{FILE}")):
        raise UserError(nothing_in(storage))
    return found


def select_tuned(
    found: list[Tuned],
    algorithm: str | None = None,
    dataset: str | None = None,
    model: str | None = None,
    level: str | None = None,
) -> TunedList:
    """The configurations that match every name given: scenario by scenario, as they first come, and of
    each the best validation score first; those tuned by clients' own scores, which are no others', last.
    """
    given = {"algorithm": algorithm, "dataset": dataset, "model": model, "heterogeneity": level}
    spelling = {"algorithm": algorithms.canonical, **SPELLING}
    wanted = {part: spelling[part](name) for part, name in given.items() if name is not None}
    asked = wanted.pop("algorithm", None)
    if asked is not None:
        named = {item.algorithm for item in found} | set(algorithms.known())
        if not any(algorithms.is_named(name, asked) for name in named):
            raise unknown("algorithm", asked, map(algorithms.label, named))
    matching = [
        item
        for item in found
        if all(getattr(item, part) == name for part, name in wanted.items())
        and (asked is None or algorithms.is_named(item.algorithm, asked))
    ]
    levels = list(dict.fromkeys(item.data_level for item in matching))

    def order(item: Tuned) -> tuple[int, bool, float]:
        personal = item.settings.metric != "pooled"
        return levels.index(item.data_level), personal, item.loss

    return TunedList(sorted(matching, key=order))


def best_of(found: TunedList) -> Tuned:
    """The best validated of configurations of one scenario; raises `UserError` where they are of several,
    between which no score decides.
    """
    levels = list(dict.fromkeys(item.data_level for item in found))
    if len(levels) > 1:
        choices = [
            shlex.join(["--dataset", dataset, "--heterogeneity", level])
            for dataset, level in levels[:SHOWN]
        ]
        more = [f"and {len(levels) - SHOWN} more"] * (len(levels) > SHOWN)
        about = (
            "what matches was tuned on several data sets or levels, whose scores cannot be compared: "
            "name one of"
        )
        raise UserError("\n  ".join((about, *choices, *more)))
    return found[0]
