"""Leaderboards and the audits of their rows, made from tables by a `Query`."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, product, starmap
from math import inf, nan
from operator import attrgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any

from reports.leaderboard.audit import Audit, audit, combined, findings
from reports.leaderboard.board import Leaderboard, Ongoing, Standing
from reports.leaderboard.leaderboard import COMPARED, leaderboard
from reports.wording.words import short
from suite.results.table import (
    CURVES,
    KEYS,
    PLAIN,
    History,
    Key,
    Row,
    Tables,
    each,
    is_lost,
)
from suite.studies.replicates import confirms_of, finals_of, replicates_of
from suite.studies.samplers import LAG, searched_by
from suite.tracking.tags import dumps
from trials.algorithms import is_named
from trials.common.errors import UserError, unknown
from trials.common.mappings import only, without
from trials.federated_data import UNREACHED
from trials.run.outcome import Status, reason
from trials.run.spec import Scenario
from trials.scoring import metrics
from trials.scoring.metrics import COSTS, COUNTED, REACHED, TASKS, direction

if TYPE_CHECKING:
    import pandas as pd

AT_THE_END = ("worst_clients", "client_spread", "personal", "fine_tuned", "unseen")
METRICS = ("score", "best", *AT_THE_END, "loss", "top5")
"""The values of `--metric` (docs/leaderboards.md). Those in `AT_THE_END` are measured at a run's last evaluations only."""
RUN_ORDER = ["entry_id", "sweep", "split", "partition", "tuning", "seed"]
ABOUT = [*KEYS, "facts", "going", "page", "own_models", "test_samples"]
"""The columns that final runs take from the table of their entries."""
ADDED = "adding runs until a difference shows finds false ones in more than 5 % of leaderboards"
NONE_YET = "there are no final runs yet: finish the sweep with --resume"
Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Query:
    """The final runs to compare (`where`: values by column), the metric, and the cost at which runs are compared (`at`),
    such as rounds. `target` is a test score to reach. Raises `UserError` for unknown names.
    """

    where: Mapping[str, Any] = field(default_factory=dict)
    metric: str = "score"
    target: float | None = None
    at: str = "rounds"

    def __post_init__(self) -> None:
        names = [("metric", self.metric, METRICS), ("cost", self.at, COSTS)]
        for kind, name, choices in [*names, *product(["column"], self.where, [PLAIN])]:
            if name not in choices:
                raise unknown(kind, name, choices)
        if self.at != "rounds" and self.metric in AT_THE_END:
            raise UserError(f"metric {self.metric} is measured only at the end: omit --at")

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of `frame` whose columns have the values of `self.where`, compared as text. Ignore columns that `frame` lacks."""
        for name, value in self.where.items():
            if name == "algorithm":  # the class name of third-party code suffices
                frame = frame.loc[[is_named(cell, str(value)) for cell in frame[name]]]
            elif name in frame:
                # Pandas has floats for the whole numbers of a column with missing values.
                cells = frame[name].astype(str).str.lower().str.removesuffix(".0")
                frame = frame[cells == str(value).lower().removesuffix(".0")]
        return frame


def read_leaderboard(tables: Tables, query: Query | None = None) -> Leaderboard:
    """Return the leaderboard of the final runs that `query` selects (None: all). Also rank unfinished scenarios
    provisionally. Raise `UserError` if there is nothing to rank, or the metric was not recorded.
    """
    query = query or Query()
    entries, finals = query.rows(tables.entries), query.rows(tables.finals)
    ended = finals[finals["status"] != Status.FAILED].merge(tables.entries[ABOUT], on=KEYS)
    ranked, with_runs = ended[~ended["going"]], {*map(tuple, ended[KEYS].to_numpy())}
    going = entries[entries["going"]]
    standing, notes = _standings(tables, going), []
    for entry in each(entries[~entries["going"]]):
        if (entry.sweep, entry.entry_id) not in with_runs:
            notes.append(_note(tables, entry))
    if ranked.empty and not standing:
        none = NONE_YET if tables.finals.empty else "no final run has all of these values"
        raise UserError("\n".join(["there is no row to show", *notes]) if notes else none)
    board = _ranked(tables, query, ranked)
    shown = set(map(attrgetter("sweep"), (*board.rows, *standing)))
    cuts, looks, studies, searched = list[str](), list[str](), set[str](), dict[str, str]()
    for sweep in only(tables.facts, shown).values():
        if sweep.cut:
            cuts.append(f"{sweep.name} was {sweep.cut}.")
        if sweep.looks:
            counts = ", ".join(map(str, sweep.looks))
            before = f"{sweep.name} was ranked before with {counts} final runs per entry"
            looks.append(f"{before}; {ADDED}.")
        studies.add(sweep.study_name)
        searched[sweep.name] = searched_by(sweep.study["sampler"], sweep.study["trials"], LAG)
    notes = [*cuts, *looks, *board.notes, *notes]
    for run in each(finals.drop_duplicates(["dataset", "heterogeneity"])):
        for text in str(run.data_note).splitlines():
            if text.startswith(UNREACHED):
                notes.append(f"{run.dataset} · {run.heterogeneity}: {text}.")
    names = going["metric"].unique()
    return replace(
        board,
        metric=board.metric or ", ".join(map("test_{}".format, names)),
        direction=board.direction or ", ".join(map(direction, names)),
        study=board.study or ", ".join(sorted(studies)),
        interim=standing,
        notes=tuple(notes),
        searched=searched,
    )


def _note(tables: Tables, entry: Any) -> str:
    """Return a sentence that says why an entry has no row in the leaderboard."""
    finals = tables.finals
    runs = finals[(finals["sweep"] == entry.sweep) & (finals["entry_id"] == entry.entry_id)]
    if runs.empty:
        runs = tables.searches.get((entry.sweep, entry.entry_id), runs)
    ends = ", ".join(starmap("{1} {0}".format, Counter(runs["status"]).items()))
    errors = runs["error"].dropna()
    why = "" if errors.empty else f" ({reason(errors.iloc[-1])})"
    name = f"{Scenario.of(entry)}: {short(entry.algorithm)}"
    return f"{name} has no row, since none of its runs in {entry.sweep} succeeded: {ends or 'no runs'}{why}."


def _ranked(tables: Tables, query: Query, finals: pd.DataFrame) -> Leaderboard:
    """Return the leaderboard of the final runs. Each row has an audit, which tells whether the search was fair."""
    import pandas as pd

    targets, margins = set[Any](), set[Any]()
    for name in finals["sweep"].unique():
        study = tables.facts[name].study
        targets.add(study.get("target"))
        margins.add(study.get("margin"))
    if query.target is None and len(targets - {None}) == 1:
        query = replace(query, target=(targets - {None}).pop())
    # Entries stay in the order of their study, and runs of one entry in the order in which sweeps began.
    orders = {"entry_id": tables.entries["entry_id"].unique().tolist(), "sweep": [*tables.facts]}
    finals = finals.sort_values(
        RUN_ORDER, key=lambda c: c.map(orders[c.name].index) if c.name in orders else c
    )
    # Rows have only scores at equal rounds. Other comparisons need the curves.
    more = query.target is not None or (query.metric, query.at) != ("score", "rounds")
    histories = tables.histories(CURVES[1:]) if more else dict[Key, History]()
    rows = []
    for run in finals.to_dict("records"):
        rows.append(_compared(run, histories.get((run["sweep"], run["trial_id"]), []), query))
    runs = pd.DataFrame(rows, columns=[*dict.fromkeys([*finals, *COMPARED])])
    runs = runs.fillna(dict.fromkeys(COUNTED, 0.0))
    margin = margins.pop() if len(margins) == 1 and query.metric in ("score", "best") else None
    searches, trials = tables.searches, dict[Key, int]()
    for key, tried in searches.items():
        trials[key] = int(tried["replicate"].value_counts().max())
    board = leaderboard(runs, trials, query.target, query.at, margin)
    by_entry, audited = dict(iter(finals.groupby(KEYS))), []
    for row in board.rows:
        key = row.sweep, row.entry_id
        facts = _audit(searches[key], by_entry[key]) if key in searches else None
        audited.append(replace(row, audit=facts))
    return replace(board, rows=tuple(audited))


def _compared(run: Row, history: History, query: Query) -> dict[Any, Any]:
    """Return a final run's row with further columns for leaderboards: score, curve, and costs to reach the target."""
    task, settings = run["metric"], json.loads(run["settings"])
    named = {"score": task, "best": f"best_{task}", "loss": "loss", "top5": "top5_accuracy"}
    end = {"worst_clients": "worst10", "client_spread": "spread"}.get(query.metric, query.metric)
    metric = named.get(query.metric, f"{TASKS[task].pooled}_{end}")
    name = f"test_{task if query.metric == 'best' else metric}"
    lost, score, curve = is_lost(run, name), run["test_score"], Curve()
    if (query.metric, query.at) != ("score", "rounds"):
        score, curve = _course(run, history, query, name, lost)
    # Metrics over clients are left out if the score is that of other evaluations.
    other = query.at != "rounds" or query.metric in ("best", "fine_tuned")
    clients = dict.fromkeys(("worst_clients", "client_spread"), nan) if other else {}
    aimed = query.target is not None and not lost
    reached = metrics.reach(history, task, query.target or 0.0) if aimed else {}
    excluded = {"partition_seed", "execution", "chunk", *json.loads(run["params"])}
    return {
        **run,
        "compared": metric,
        "score": score,
        "lost": lost,
        "curve": curve,
        "shared": dumps({"metric": settings.get("metric"), **without(settings, excluded)}),
        "warm": run["warm_start"] is not None,
        **clients,
        **dict.fromkeys(REACHED, nan),
        **reached,
    }


def _course(run: Row, history: History, query: Query, name: str, lost: bool) -> tuple[float, Curve]:
    """Return a run's score in the metric `name`, and its curve of (cost, value) pairs. The curve is empty if
    `query` compares at equal rounds, or if the run is `lost` (diverged). A lost run gets the score of the untrained model.
    """
    columns = {name, *COSTS[query.at]}
    evaluations = [entry for entry in history if columns & entry.keys()]
    for metric in ([] if lost else [name]) + ([metrics.CLOCK] if query.at == "seconds" else []):
        if not any(metric in entry for entry in evaluations):
            hint = ": give the level +speed(sigma)" if metric == metrics.CLOCK else ""
            where = f"sweep {run['sweep']!r} ({run['dataset']}, {run['heterogeneity']})"
            raise UserError(f"{metric} is not recorded in {where}{hint}")
    untrained = metrics.untrained(evaluations, name)
    if lost:
        return untrained, ()
    values, costs = list[float](), list[float]()
    for entry in evaluations:
        values.append(entry.get(name, untrained))
        costs.append(metrics.cost_until(entry, query.at))
    if query.metric == "best":
        better = max if direction(run["metric"]) == "maximize" else min
        values = list(accumulate(values, better))
    score = values[-1] if query.metric == "best" else fmean(values[1:][-metrics.LAST :])
    return score, () if query.at == "rounds" else tuple(zip(costs, values, strict=True))


def _standings(tables: Tables, entries: pd.DataFrame) -> tuple[Standing, ...]:
    """Rank entries of unfinished scenarios by their best validation score so far. Reference algorithms get no rank."""
    groups = defaultdict[Ongoing, list[tuple[float, Standing]]](list)
    for row in each(entries):
        study, sign = tables.facts[row.sweep].study, TASKS[row.metric].sign
        trials = tables.searches.get((row.sweep, row.entry_id), tables.finals.head(0))
        done = trials[(trials["status"] == Status.FINISHED) & (trials["kind"] == "search")]
        done = done.dropna(subset="val_score")
        scores = sign * done["val_score"]
        best = None if done.empty else done.iloc[int(scores.argmax())]
        shared = only(row._asdict(), Standing.__dataclass_fields__)
        standing = Standing(
            **shared | {"metric": f"val_{row.metric}"},
            rank=None,
            best=None if best is None else float(best["val_score"]),
            trials=len(trials),
            planned=study["trials"] * replicates_of(study) + confirms_of(study),
            seeds=finals_of(study),
            params={} if best is None else json.loads(best["params"]),
        )
        score = -inf if best is None or row.reference else scores.max()
        groups[standing.group].append((score, standing))
    ranked = []
    for group in groups.values():
        for score, standing in sorted(group, key=lambda pair: -pair[0]):
            rank = 1 + sum(other > score for other, _ in group) if score > -inf else None
            ranked.append(replace(standing, rank=rank))
    return tuple(ranked)


def _audit(trials: pd.DataFrame, finals: pd.DataFrame) -> Audit:
    """Return an entry's audit, which tells from trials and final runs whether its searches were fair."""
    entry, audits = finals["facts"].iloc[0], []
    for replicate, tried in trials[trials["kind"] == "search"].groupby("replicate"):
        runs = finals[finals["replicate"] == replicate]
        winner = int(runs["number"].iloc[0]) if len(runs) else None
        params = json.loads(runs["params"].iloc[0]) if len(runs) else {}
        scores = [*runs["val_score"].dropna()]
        audits.append(audit(tried, winner, params, entry.space, scores, TASKS[entry.metric].sign))
    facts = combined(audits)
    return replace(facts, findings=findings(facts))
