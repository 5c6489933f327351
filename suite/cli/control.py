"""Sweeps that another process runs: `suite status` and `stop`; and their pages, `suite ui`."""

import os
import secrets
import socket
import sys
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Thread
from typing import Annotated, Any

import typer

from suite.cli.options import PLAIN, RUNS, Json, Storage, Tracking
from suite.console import emit, out, say
from suite.formats import FormatError
from trials.common.errors import UserError, unknown

LEADERS = 3
"""Methods of a scenario that are named."""
PORT = 5000
BROWSER_SECONDS = 60.0
"""How long a browser has to start."""
Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help=f"Default: {PORT}, or one that is free."),
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]


def status(
    name: Annotated[
        str | None, typer.Argument(help="Name of a sweep or a study. Default: all.")
    ] = None,
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """Show how far sweeps are, and which methods lead.

    It works for sweeps of other processes too.
    """
    from suite.sweeps.status import of_study, sweeps
    from suite.sweeps.status import status as read

    own = [] if name is None else of_study(storage, name)
    if own:
        say(f"{name} is a study; its sweeps: {', '.join(own)}")
        found = [read(storage, each) for each in own]
    elif name is not None:
        found = [read(storage, name)]
    else:
        found = []
        for each in sweeps(storage):
            try:
                found.append(read(storage, each))
            except UserError as error:
                say(str(error) if isinstance(error, FormatError) else f"sweep {each}: {error}")
    if as_json:
        emit(found if name is None or own else found[0])
        return
    if not found:
        say(
            f"no sweep in {storage}: start one with `suite sweep`, or name another place with --storage"
        )
    for one in found:
        for line in [_standing(one), *_best(one)]:
            out().print(line, **PLAIN)


def _standing(one: dict[str, Any]) -> str:
    """How far a sweep is, in one line."""
    from reports.durations import spell

    counts = [f"{one[key]} {key}" for key in ("finished", "pruned", "diverged", "failed", "died")]
    shown = ", ".join(count for count in counts if not count.startswith("0 "))
    done = one["ended"] - one["superseded"]
    over = done >= one["expected"] and one["recorded"] >= one["ended"]
    state = "running" if one["running"] else "finished" if over else "not running here"
    state += f", asked to {one['asked_to']}" if one["asked_to"] else ""
    state += f", {one['superseded']} superseded" if one["superseded"] else ""
    if one["running"] and one["seconds_left"] is not None:
        state += f", {one['per_minute']:.0f} trials/min, about {spell(one['seconds_left'])} left"
    return (
        f"{one['name']}: {done}/{one['expected']} trials ({shown or 'none yet'}), "
        f"{one['recorded']} recorded; {state}, last event {one['idle_seconds']:.0f} s ago"
    )


def _best(one: dict[str, Any]) -> Iterator[str]:
    """The methods that validate best in each scenario of a sweep, in a line a scenario."""
    from trials.run.scenario import Scenario
    from trials.scoring.metrics import TASKS

    scenarios: dict[Scenario, list[dict[str, Any]]] = {}
    for entry in one["best"]:
        if entry["best"] is not None:
            scenario = Scenario(*(entry[part] for part in Scenario._fields))
            scenarios.setdefault(scenario, []).append(entry)
    for scenario, entries in scenarios.items():
        entries.sort(key=lambda entry: -TASKS[entry["metric"]].sign * entry["best"])
        names = (f"{e['name']} {e['best']:.4f}" for e in entries[:LEADERS])
        yield f"  {scenario}: best on validation {', '.join(names)}"


def stop(
    name: Annotated[str, typer.Argument(help="The sweep's name.")],
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="End at once, as Ctrl-C does; running trials are resumed later."
        ),
    ] = False,
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """End a sweep that another process runs; `--resume` continues it.

    Running trials finish, and no more start; with --now it ends within seconds.
    """
    from suite.sweeps.status import ask

    word = "cancel" if now else "stop"
    here = ask(storage, name, word)
    if as_json:
        emit({"name": name, "asked": word, "running": here})
    elif here:
        say(f"Asked sweep {name} to {word}; it answers within seconds.")
    else:
        say(
            f"No process on this machine runs sweep {name}. One on another machine, on the same "
            f"storage, will {word}; if there is none, nothing happens."
        )


def ui(
    name: Annotated[
        str | None, typer.Argument(help="A sweep, at whose page to begin. Default: all sweeps.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Port = None,
    open_page: Open = False,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
) -> None:
    """All pages at one address: sweeps, reports, Optuna's, MLflow's.

    It serves this machine only, unless --host says otherwise. Ctrl-C ends it.
    """
    from suite.sweeps.status import sweeps
    from suite.tracking.database import refuse_others
    from suite.ui import address
    from suite.ui import ui as serve

    if name is not None and name not in (known := sweeps(storage)):
        raise unknown(f"sweep in {storage}", name, known)
    refuse_others(tracking_uri or f"sqlite:///{(storage / 'mlflow.db').absolute()}")
    there = bind(host, port, PORT)
    token = secrets.token_urlsafe(24)
    page = site(there) + ("/" if name is None else address(name)) + f"?token={token}"
    say(f"Pages: {page}\nCtrl-C ends it.")
    screen = sys.platform == "darwin" or {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)
    if open_page and screen:
        Thread(target=_browse, args=(page, storage), daemon=True).start()
    serve(storage, tracking_uri, there, token)


def bind(host: str, port: int | None, usual: int) -> socket.socket:
    """Return a socket of this port, or of the usual one and, where that is taken, of any that is free. Raises
    `UserError` where the port that was asked for cannot be used, or none of the host.
    """
    for wanted in (usual, 0) if port is None else (port,):
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return socket.create_server((host, wanted), family=family)
        except OSError as error:
            reason = error.strerror or error
    where = f"--port {port}" if port is not None else f"--host {host}"
    raise UserError(f"{where}: cannot serve pages at {host}:{port or usual}: {reason}")


def site(there: socket.socket) -> str:
    """Return the address that a browser finds a socket at."""
    host, port, *_ = there.getsockname()
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def _browse(page: str, storage: Path) -> None:
    # Every account of the machine sees a command's arguments: the token goes in a file that only its owner reads,
    # in the storage where there is one, since browsers in a sandbox see no /tmp.
    folder = storage if os.access(storage, os.W_OK) else None
    with NamedTemporaryFile("w", dir=folder, prefix="ui-", suffix=".html") as file:
        print(f'<meta http-equiv="refresh" content="0; url={page}">', file=file, flush=True)
        webbrowser.open(Path(file.name).resolve().as_uri())
        time.sleep(BROWSER_SECONDS)
