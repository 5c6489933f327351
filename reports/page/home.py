"""The start page of `suite ui`: the progress of sweeps, the trials that run now, and the leaderboards so far."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from reports.leaderboard.board import ABOUT, ReportData
from reports.leaderboard.names import as_shown
from reports.page.page import look_of, page_legend, render, tables
from reports.table import Column, ColumnKind, Table, table
from reports.wording.tables import interim_tables
from reports.wording.words import HEADS, params_text, scored, spell
from trials.run.spec import Scenario

NOW = (
    Column("trial", ColumnKind.NAME),
    Column("algorithm", ColumnKind.WORDS),
    Column("round", ColumnKind.WORDS),
    Column("last score", better=1),
    Column("configuration", ColumnKind.WORDS),
    Column("scenario", ColumnKind.WORDS),
)
Status = Mapping[str, Any]
"""The status of a sweep, as a dict that `suite status --json` prints."""


def home_page(
    name: str | None,
    statuses: Sequence[Status],
    faults: Sequence[str],
    data: ReportData | None,
    links: Mapping[str, Mapping[str, str]],
    mlflow: str,
    nonce: str,
) -> str:
    """Return the HTML page of all sweeps, or of the sweep `name`, with leaderboards from `data`. `faults` are messages about
    unreadable sweeps. `links` has the addresses of further pages, by sweep, and `mlflow` the address of MLflow's pages.
    `nonce` marks the page's scripts as allowed by its content security policy.
    """
    if data:
        data = as_shown(data, data.board)
    return render(
        "home.html",
        title=name or "Sweeps and leaderboards",
        name=name,
        sweeps=[{**summary(status), "links": links[status["name"]]} for status in statuses],
        faults=faults,
        tables=tables(data, look_of(data)) if data else [],
        legend=page_legend(data.board) if data and data.board.rows else "",
        heads=[*HEADS.items()],
        standings=interim_tables(data.board) if data else [],
        about=ABOUT,
        mlflow=mlflow,
        nonce=nonce,
    )


def summary(status: Status) -> dict[str, Any]:
    """Return the data that the page shows about a sweep: state, trial counts, pace, and running trials."""
    done = status["ended"] - status["superseded"]
    over = done >= status["expected"] and status["recorded"] >= status["ended"]
    state = "running" if status["running"] else "finished" if over else "not running"
    if status["running"] and status["asked_to"]:
        state += f", asked to {status['asked_to']}"
    ends = ("pruned", "diverged", "failed", "died")
    counts = [f"{status[key]} {key}" for key in ends if status[key]]
    pace = ""
    if status["running"] and status["per_minute"] and status["seconds_left"] is not None:
        pace = f"about {spell(status['seconds_left'])} left, {status['per_minute']:.0f} runs/min"
    return {
        **{key: status[key] for key in ("name", "study", "running", "expected")},
        "done": done,
        "trials": ", ".join([f"{done} of {status['expected']}", *counts]),
        "state": state,
        "pace": pace,
        "now": running(status["now"], status["best"]),
        "entries": [(e["entry_id"], f"{e['name']} · {scenario(e)}") for e in status["best"]],
    }


def scenario(entry: Status) -> str:
    """Return the scenario of a sweep's entry as text."""
    return " · ".join(itemgetter(*Scenario._fields)(entry))


def running(now: Iterable[Status], entries: Iterable[Status]) -> Table:
    """Return a table of the running trials `now`. The scenario of each trial is taken from `entries`."""
    scenarios, rows = {entry["entry_id"]: scenario(entry) for entry in entries}, []
    for trial in now:
        cells = [
            trial["trial_id"].removeprefix(f"{trial['entry_id']}-"),
            trial["name"],
            f"{trial['round']} of {trial['rounds']}",
            scored(trial["score"], trial["metric"]),
            params_text(trial["params"]),
            scenarios.get(trial["entry_id"], ""),
        ]
        rows.append(cells)
    return table(NOW, rows)
