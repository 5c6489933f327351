"""Sweeps that another process runs: `suite status` and `stop`; and their pages, `suite ui`."""

import secrets
from collections import defaultdict
from typing import Any

import typer

from suite import api
from suite.cli.options import PLAIN, RUNS, Json, Storage, Tracking
from suite.console import emit, out, say
from trials.common.errors import unknown

LEADERS = 3
"""Methods of a scenario that are named."""
PORT = 5000


def status(
    name: str | None = typer.Argument(None, help="A sweep or a study. Default: all."),
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """Show how far sweeps are, and which methods lead.

    It works for sweeps of other processes too.
    """
    standings = api.status(name, storage=storage)
    if as_json:
        emit(standings)
        return
    if not standings:
        say(
            f"no sweep in {storage}: start one with `suite sweep`, or name another place with --storage"
        )
    for standing in standings if isinstance(standings, list) else [standings]:
        for line in (_progress(standing), *_leaders(standing)):
            out().print(line, **PLAIN)


def _progress(standing: dict[str, Any]) -> str:
    """Return how far a sweep is, in one line: runs are those of its search and the final ones."""
    from reports.wording.words import spell

    kinds = ("finished", "pruned", "diverged", "failed", "died")
    counts = ", ".join(f"{standing[kind]} {kind}" for kind in kinds if standing[kind])
    done = standing["ended"] - standing["superseded"]
    over = done >= standing["expected"] and standing["recorded"] >= standing["ended"]
    state = "running" if standing["running"] else "finished" if over else "not running here"
    if standing["asked_to"]:
        state += f", asked to {standing['asked_to']}"
    if standing["running"] and standing["seconds_left"] is not None:
        left = spell(standing["seconds_left"])
        state += f", {standing['per_minute']:.0f} runs/min, about {left} left"
    return (
        f"{standing['name']}: {done}/{standing['expected']} runs ({counts or 'none yet'}), "
        f"{standing['recorded']} recorded; {state}, last event {standing['idle_seconds']:.0f} s ago"
    )


def _leaders(standing: dict[str, Any]) -> list[str]:
    """Return the methods that validate best in each scenario of a sweep, in a line a scenario."""
    from trials.run.spec import Scenario
    from trials.scoring.metrics import TASKS

    scenarios: dict[Scenario, list[dict[str, Any]]] = defaultdict(list)
    for entry in standing["best"]:
        if entry["best"] is not None:
            scenarios[Scenario(*(entry[part] for part in Scenario._fields))].append(entry)
    lines = []
    for scenario, entries in scenarios.items():
        entries.sort(key=lambda entry: -TASKS[entry["metric"]].sign * entry["best"])
        names = ", ".join(f"{entry['name']} {entry['best']:.4f}" for entry in entries[:LEADERS])
        lines.append(f"  {scenario}: best on validation {names}")
    return lines


def stop(
    name: str = typer.Argument(help="The sweep's name."),
    now: bool = typer.Option(False, "--now", help="End at once, as Ctrl-C does."),
    storage: Storage = RUNS,
) -> None:
    """End a sweep that another process runs; `--resume` continues it.

    Running trials finish, and no more start; with --now it ends within seconds.
    """
    word = "cancel" if now else "stop"
    if api.stop(name, now=now, storage=storage):
        say(f"Asked sweep {name} to {word}; it answers within seconds.")
    else:
        say(
            f"No process on this machine runs sweep {name}. One on another machine, on the same "
            f"storage, will {word}; if there is none, nothing happens."
        )


def ui(
    name: str | None = typer.Argument(None, help="A sweep, at whose page to begin."),
    host: str = typer.Option("127.0.0.1", help="Address to listen on."),
    port: int | None = typer.Option(
        None, min=1, max=65535, help=f"Default: {PORT}, or a free one."
    ),
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
) -> None:
    """Serve all pages at one address: sweeps, Optuna's, MLflow's.

    It serves this machine only, unless --host says otherwise. Ctrl-C ends it.
    """
    from suite.sweeps.status import sweeps
    from suite.ui import address, bind, site
    from suite.ui import ui as serve

    if name is not None and name not in sweeps(storage):
        raise unknown(f"sweep in {storage}", name, sweeps(storage))
    there, token = bind(host, port, PORT), secrets.token_urlsafe(24)
    page = site(there) + ("/" if name is None else address(name)) + f"?token={token}"
    say(f"Pages: {page}\nCtrl-C ends it.")
    serve(storage, tracking_uri, there, token)
