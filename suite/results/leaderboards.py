"""Leaderboards and the audits of their rows: a function of tables and of what is asked of them (`Query`)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf, nan
from statistics import fmean
from typing import TYPE_CHECKING, Any

from reports.leaderboard.audit import Audit, audit, combined, findings
from reports.leaderboard.board import Leaderboard, Ongoing, Standing
from reports.leaderboard.leaderboard import COMPARED, leaderboard
from reports.wording.words import short
from suite.results.table import CURVES, PLAIN, EntryFacts, TableFacts
from suite.results.tables import KEYS, History, Row, Tables, each, is_lost, run_id, within
from suite.studies.replicates import confirms_of, finals_of, replicates_of
from suite.studies.samplers import LAG, searched_by
from suite.tracking.schema.tags import dumps
from trials.algorithms import is_named
from trials.common.errors import UserError, unknown
from trials.federated_data import UNREACHED
from trials.run.outcome import Status, reason
from trials.run.spec import Scenario
from trials.scoring import metrics
from trials.scoring.metrics import COSTS, COUNTED, REACHED, TASKS, direction

if TYPE_CHECKING:
    import pandas as pd

AT_THE_END = ("worst_clients", "client_spread", "personal", "fine_tuned", "unseen")
METRICS = ("score", "best", *AT_THE_END, "loss", "top5")
"""What `--metric` may ask for (docs/leaderboards.md), of which some are of the last evaluations only."""
IN_TURN = ["entry_id", "sweep", "split", "partition", "tuning", "seed"]
ADDED = "who adds some until a difference shows sees false ones in more than 5 % of boards"
NONE_YET = "there are no final runs yet: finish the sweep with --resume"
Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Query:
    """Which final runs, compared by what. `where` has values of columns, as texts; `sweep` (or the name of a study) and `studies` may be
    given too. Unless `interim`, scenarios whose final runs are not all there are compared by those that are. Raises `UserError`
    for a metric or a cost that there is none of.
    """

    sweep: str | None = None
    studies: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    metric: str = "score"
    target: float | None = None
    at: str = "rounds"
    interim: bool = True

    def __post_init__(self) -> None:
        for kind, name, choices in (("metric", self.metric, METRICS), ("cost", self.at, COSTS)):
            if name not in choices:
                raise unknown(kind, name, choices)
        if self.at != "rounds" and self.metric in AT_THE_END:
            raise UserError(
                f"metric {self.metric} is recorded at the end of runs only, so it cannot be compared at equal {self.at}"
            )

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with the values `where`, as far as there are such columns; an algorithm of a third party goes by its short
        name too. Raises `UserError` for what is no column of a table.
        """
        for name, value in self.where.items():
            if name not in PLAIN:
                raise unknown("column", name, PLAIN)
            if name in frame:
                same = is_named if name == "algorithm" else _is_written
                frame = frame.loc[[same(cell, value) for cell in frame[name]]]
        return frame


def _is_written(cell: Any, text: str) -> bool:
    """Return whether a value is written so by a person."""
    whole = int(cell) if isinstance(cell, float) and cell.is_integer() else cell
    return text in (str(whole), str(whole).lower())


def compared(row: Row, history: History, query: Query, own_target: float | None) -> dict[str, Any]:
    """Return what `query` asks of a final run (`COMPARED` of leaderboards), and those of its columns that are another's then: the
    costs until its target, its run. `own_target` is that of its study.
    """
    task, settings = row["metric"], json.loads(row["settings"])
    named = {"score": task, "best": f"best_{task}", "loss": "loss", "top5": "top5_accuracy"}
    end = {"worst_clients": "worst10", "client_spread": "spread"}.get(query.metric, query.metric)
    metric = named.get(query.metric, f"{TASKS[task].pooled}_{end}")
    name = f"test_{task if query.metric == 'best' else metric}"
    lost, score, curve = is_lost(row, name), row["test_score"], Curve()
    if query.metric != "score" or query.at != "rounds":
        own_score, curve = _course(row, history, query, name, lost)
        score = score if query.metric == "score" else own_score
    # Beside a score stands what is of the same evaluations.
    other = query.at != "rounds" or query.metric in ("best", "fine_tuned")
    clients = dict.fromkeys(("worst_clients", "client_spread"), nan) if other else {}
    reached = {key: row[key] for key in REACHED}
    if query.target is not None and (row["reached"] is None or own_target != query.target):
        reached = metrics.reach(history, task, query.target)
    if lost or query.target is None:
        reached = {}
    apart = {"partition_seed", "execution", "chunk", *json.loads(row["params"])}
    shared = {key: value for key, value in settings.items() if key not in apart}
    return {
        "compared": metric,
        "score": score,
        "lost": lost,
        "curve": () if lost else curve,
        "shared": dumps({"metric": settings.get("metric"), **shared}),
        "warm": row["warm_start"] is not None,
        "run_id": run_id(row),
        **clients,
        **dict.fromkeys(REACHED, nan),
        **reached,
    }


def _course(row: Row, history: History, query: Query, name: str, lost: bool) -> tuple[float, Curve]:
    """Return the score that is asked for, of a lost run what it counts with instead, and its course by the cost that is equal."""
    wanted = {name, *COSTS[query.at]}
    evaluations = [entry for entry in history if wanted & entry.keys()]
    needed = [] if lost else [name]
    for metric in [*needed, *([metrics.CLOCK] if query.at == "seconds" else [])]:
        if not any(metric in entry for entry in evaluations):
            hint = ": give the level +speed(sigma)" if metric == metrics.CLOCK else ""
            where = f"{row['dataset']}, {row['heterogeneity']}, suite {row['version']}"
            raise UserError(f"{metric} is not recorded in sweep {row['sweep']!r} ({where}){hint}")
    first = metrics.untrained(evaluations, name)
    values = [entry.get(name, first) for entry in evaluations]
    if query.metric == "best":
        values = list(accumulate(values, metrics.best_of(direction(row["metric"]))))
    costs = [metrics.cost_until(entry, query.at) for entry in evaluations]
    if lost:
        score = first
    elif query.metric == "best":
        score = values[-1]
    else:
        score = fmean(values[1:][-metrics.LAST :])
    return score, () if query.at == "rounds" else tuple(zip(costs, values, strict=True))


def read_leaderboard(tables: Tables, query: Query | None = None) -> Leaderboard:
    """Return the leaderboard of the sweeps that are asked for, all by default; `target` defaults to that of their studies. Scenarios whose
    final runs are not all there stand under `interim`. Raises `UserError` where there are no runs, or a metric was not recorded.
    """
    query = query or Query()
    return board_of(tables.of(query.sweep, query.studies), query)


def board_of(tables: Tables, query: Query) -> Leaderboard:
    """Return the leaderboard of all of these tables; raises as `read_leaderboard` does."""
    if not tables.tables:  # none of them can be read, which was said
        raise UserError(NONE_YET)
    entries, finals = query.rows(tables.entries), query.rows(tables.finals)
    going = entries[entries["going"] & query.interim]
    sound = finals[(finals["status"] != Status.FAILED) & ~within(finals, going)]
    standing = _standings(tables, going)
    notes = [_note(tables, finals, entry) for entry in each(without_row(tables, query))]
    if sound.empty and not standing:
        none = NONE_YET if tables.finals.empty else "no final run has all of these values"
        raise UserError("\n".join(["there is no row to show", *notes]) if notes else none)
    board = _ranked(tables, query, sound)
    if sound.empty:
        names = dict.fromkeys(row.metric.removeprefix("val_") for row in standing)
        board = replace(
            board,
            study=", ".join(sorted({row.study for row in standing})),
            metric=", ".join(f"test_{name}" for name in names),
            direction=", ".join(map(direction, names)),
        )
    shown = {row.sweep for row in board.rows or standing}
    ways = {name: searched(facts) for name, facts in tables.facts.items() if name in shown}
    cut = [f"{name} was {facts.cut}." for name, facts in tables.facts.items() if facts.cut]
    for name, facts in tables.facts.items():
        if facts.looks:
            counts = ", ".join(map(str, facts.looks))
            cut.append(f"{name} was ranked before with {counts} final runs an entry; {ADDED}.")
    firsts = finals.drop_duplicates(["dataset", "heterogeneity"])
    unreached = [
        f"{run.dataset} · {run.heterogeneity}: {line}."
        for run in each(firsts)
        for line in str(run.data_note).splitlines()
        if line.startswith(UNREACHED)
    ]
    notes = [*cut, *board.notes, *notes, *unreached]
    return replace(board, interim=standing, notes=tuple(notes), searched=ways)


def without_row(tables: Tables, query: Query) -> pd.DataFrame:
    """Return the entries that are asked for and have no final run that came to its end, of scenarios that do not go on."""
    entries, finals = query.rows(tables.entries), query.rows(tables.finals)
    ended = finals[finals["status"] != Status.FAILED]
    return entries[~within(entries, ended) & ~(entries["going"] & query.interim)]


def _note(tables: Tables, finals: pd.DataFrame, entry: Any) -> str:
    """Say why an entry has no row."""
    ran = finals[(finals["sweep"] == entry.sweep) & (finals["entry_id"] == entry.entry_id)]
    tried = tables.searches.get((entry.sweep, entry.entry_id), ran)
    kind, runs = ("final runs", ran) if len(ran) else ("trials", tried)
    ends = Counter(runs["status"]).items()
    counts = ", ".join(f"{count} {end}" for end, count in ends) or "there are none"
    why = next((f" ({reason(error)})" for error in reversed([*runs["error"]]) if error), "")
    begin = f"{Scenario.of(entry)}: {short(entry.algorithm)} has no row, since none of its {kind}"
    return f"{begin} in {entry.sweep} came to an end: {counts}{why}."


def searched(facts: TableFacts) -> str:
    """Return the words for how a sweep found its configurations."""
    return searched_by(facts.study["sampler"], facts.study["trials"], LAG)


def _ranked(tables: Tables, query: Query, finals: pd.DataFrame) -> Leaderboard:
    """Return the rows of final runs with their audits."""
    import pandas as pd

    studies = {name: facts.study for name, facts in tables.facts.items()}
    own: dict[str, Any] = {name: study.get("target") for name, study in studies.items()}
    targets = {own[sweep] for sweep in finals["sweep"]} - {None}
    if query.target is None and len(targets) == 1:
        query = replace(query, target=next(iter(targets)))
    # As studies list their scenarios, whichever trials ended first; of equal ones the older sweep is first.
    places = {"entry_id": tables.entries["entry_id"].unique().tolist(), "sweep": [*studies]}
    finals = finals.sort_values(
        IN_TURN, key=lambda c: c.map(places[c.name].index) if c.name in places else c
    )
    # Rows have scores at equal rounds, and the costs until the targets of their studies; curves have the rest.
    other_target = query.target is not None and targets != {query.target}
    more = other_target or (query.metric, query.at) != ("score", "rounds")
    histories = tables.histories(CURVES[1:]) if more else {}
    rows = []
    about = tables.entries[[*KEYS, "page", "own_models", "test_samples"]]
    for run in finals.merge(about, on=KEYS).to_dict("records"):
        history = histories.get((run["sweep"], run["trial_id"]), [])
        rows.append(run | compared(run, history, query, own[run["sweep"]]))
    runs = pd.DataFrame(rows, columns=[*finals, *COMPARED])
    runs = runs.fillna(dict.fromkeys(COUNTED, 0.0))
    margins = {study.get("margin") for study in studies.values()}
    margin = margins.pop() if len(margins) == 1 and query.metric in ("score", "best") else None
    trials = {
        key: int(tried.groupby("replicate").size().max()) for key, tried in tables.searches.items()
    }
    board = leaderboard(runs, trials, query.target, query.at, margin)
    entries = {(row.sweep, row.entry_id): row.entry for row in each(tables.entries)}
    ran, audited = dict(iter(finals.groupby(KEYS))), []
    for row in board.rows:
        key, facts = (row.sweep, row.entry_id), None
        if key in tables.searches:
            facts = _audit(tables.searches[key], ran[key], entries[key])
            facts = replace(facts, findings=findings(facts))
        audited.append(replace(row, audit=facts))
    return replace(board, rows=tuple(audited))


def _standings(tables: Tables, entries: pd.DataFrame) -> tuple[Standing, ...]:
    """Return how entries of scenarios that go on stand, scenario after scenario in the order of the study, best first; those without
    a score and references last.
    """
    scores: dict[Ongoing, list[float]] = defaultdict(list)
    standings: list[tuple[Standing, float]] = []
    for row in each(entries):
        trials, study = tables.searches.get((row.sweep, row.entry_id)), row.facts.study
        params, best, score = {}, None, -inf
        if trials is not None:
            done = trials[(trials["status"] == Status.FINISHED) & (trials["kind"] == "search")]
            done, sign = done[done["val_score"].notna()], TASKS[row.metric].sign
            if len(done):  # of equal ones the first
                first = done.iloc[int((sign * done["val_score"]).argmax())]
                params, best = json.loads(first["params"]), float(first["val_score"])
                score = -inf if row.reference else sign * best
        shared = {k: v for k, v in row._asdict().items() if k in Standing.__dataclass_fields__}
        search = {
            "metric": f"val_{row.metric}",
            "rank": None,
            "best": best,
            "trials": 0 if trials is None else len(trials),
            "planned": study["trials"] * replicates_of(study) + confirms_of(study),
            "seeds": finals_of(study),
            "params": params,
        }
        standing = Standing(**shared | search)
        scores[standing.group].append(score)
        standings.append((standing, score))
    order = [*scores]
    standings.sort(key=lambda pair: (order.index(pair[0].group), -pair[1]))
    return tuple(
        replace(row, rank=1 + sum(other > score for other in scores[row.group]))
        if score > -inf
        else row
        for row, score in standings
    )


def _audit(trials: pd.DataFrame, finals: pd.DataFrame, entry: EntryFacts) -> Audit:
    """Return the facts of an entry's searches, each of whose winners ran again in some of `finals`."""
    sign, audits = TASKS[entry.metric].sign, []
    for replicate, own in trials[trials["kind"] == "search"].groupby("replicate"):
        ran = finals[finals["replicate"] == replicate]
        winner = int(ran["number"].iloc[0]) if len(ran) else None
        params = json.loads(ran["params"].iloc[0]) if len(ran) else {}
        scores = [*ran["val_score"].dropna()]
        audits.append(audit(own, winner, params, entry.space, scores, sign))
    return combined(audits)
