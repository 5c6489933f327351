"""The commands `suite sweep`, which tunes and ranks, and `status`, `stop` and `ui` for sweeps of other processes."""

import os
import secrets
import shlex
import sys
from collections import defaultdict
from dataclasses import asdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import typer

from suite import api
from suite.cli.options import PLAIN, RUNS, SCENARIO, Assign, DataRoot, Json, Storage, Tracking
from suite.console import emit, out, say
from suite.tracking import without_user
from suite.yaml_files import assignments
from trials.common.errors import unknown
from trials.run.outcome import ENDINGS

if TYPE_CHECKING:
    from suite.sweeps.sweep import Result

ADDRESS = "A running Ray cluster: HOST:PORT, or auto."
LEADERS = 3
"""How many algorithms of a scenario `suite status` names, the best first."""
PORT = 5000


def sweep(
    study: str = typer.Argument("quickstart", help="A shipped study's name, or a YAML file."),
    name: str | None = typer.Option(None, help="The sweep's name. Default: its study's."),
    assign: Assign = None,
    minutes: float | None = typer.Option(None, help="Search less, to end within these minutes."),
    resume: bool = typer.Option(False, "--resume", help="Continue, or extend, this sweep."),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Check everything, show the plan, start nothing."
    ),
    calibrate: bool = typer.Option(False, "--calibrate", help="As --dry-run, with measured times."),
    smoke: bool = typer.Option(False, "--smoke", help="Run a tiny version, named NAME-smoke."),
    address: str | None = typer.Option(None, envvar="RAY_ADDRESS", help=ADDRESS),
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Tune all algorithms of a study, and rank the tuned algorithms.

    A study lists algorithms, data sets, models and heterogeneity levels. --set changes any key of the study: a list (--set
    algorithms=fedavg,folb), trials (how many configurations each algorithm tries in each scenario), seeds (how often the best
    configuration runs again), a shared setting (--set rounds=100), a range to search (--set search.lr=0.01..10), or how many
    trials run at once (--set max_concurrent=4).

    Each key is an option, too: --algorithms fedavg,folb --trials 40 --rounds 100. `suite list studies` shows the shipped
    studies, and docs/reference.md all keys.
    """
    say(f"reading {study}")
    options: dict[str, Any] = {"name": name, "address": address, "resume": resume, "smoke": smoke}
    options |= {"storage": storage, "tracking_uri": tracking_uri, "data_root": data_root}
    values = assignments(assign or ())
    if dry_run or calibrate:
        request, resources = api.sweep_request(study, **options, **values)
        plan = request.plan(resources, calibrate)
        emit(plan) if as_json else out().print("\n".join(_plan_lines(plan)), **PLAIN)
        return
    result = api.sweep(study, minutes=minutes, **options, **values)
    if as_json:
        emit(asdict(result.summary))
    if result.ending:
        words = ["suite", *map(without_user, sys.argv[1:])]  # without passwords
        again = shlex.join(words if resume else [*words, "--resume"])
        say(f"{result.ending.capitalize()}; everything is kept. Continue with: {again}")
        raise typer.Exit(130)
    if not as_json:
        where = ["--storage", str(storage)] if storage != RUNS else []
        if tracking_uri is not None:
            where += ["--tracking-uri", without_user(tracking_uri)]
        _conclude(result, where)
    raise typer.Exit(1 if result.summary.trials_failed else 0)


def _conclude(result: "Result", where: list[str]) -> None:
    """Print a sweep's leaderboard, numbers of trials, and next commands. Each command ends with the storage options `where`."""
    from reports.wording.tables import terminal

    console, summary, board = out(), result.summary, result.leaderboard

    def command(*words: str) -> str:
        return shlex.join(["suite", *words, *where])

    console.print()
    if board is not None:
        more = command("leaderboard", summary.name)
        console.print(terminal(board, console.width, command=more), crop=False)
    total, others = summary.trials_finished, []
    for ending in ENDINGS[1:]:
        count = getattr(summary, f"trials_{ending}")
        total += count
        others += [f"{count} {ending}"] if count else []
    unfinished = f" ({', '.join(others)})" if others else ""
    # Relative only below the current folder: a path with .. is harder to read.
    folder = os.path.relpath(summary.storage)
    console.print(
        f"{total} trials{unfinished}, {summary.final_runs} final runs in {summary.seconds:.0f} s: "
        f"{folder if folder[:2] != '..' else summary.storage}\n"
        f"Next: {command('report', summary.name)}, {command('ui')}",
        **PLAIN,
    )
    for best in board.rows[:1] if board else ():
        entry: list[str] = []
        for key in SCENARIO:
            entry += (f"--{key}", getattr(best, key))
        console.print(f"      {command('run', '--tuned', *entry, '--seed', '1')}", **PLAIN)


def _plan_lines(plan: dict[str, Any]) -> list[str]:
    from reports.wording.words import params_text, spell

    entries, trials = plan["entries"], plan["trials_per_entry"]
    lines = []
    for entry in entries:
        published = f", {entry['published']} published" if entry["published"] else ""
        lines.append(f"{entry['name']}: starts from {params_text(entry['default'])}{published}")
    finals, lag = plan["final_runs_per_entry"], plan["lag"]
    modelled = max(entry["modelled"] for entry in entries)
    lines += [
        f"{len(entries)} entries (an algorithm in a scenario), each {trials} search trials and {finals} final runs: "
        f"{plan['trials']} runs of {plan['rounds_per_run']} rounds in all, with at most {plan['client_steps']:,} local steps of clients.",
        f"Search: {plan['searched_by']}. On any machine up to {lag} trials of an entry run at once, so at most {modelled} of its "
        f"{trials} trials are chosen by the results of earlier ones.",
        *map("Warning: {}.".format, plan["warnings"]),
    ]
    hours = "How long it takes: add --calibrate, which runs a few rounds of each entry"
    if plan["cpu_hours"] is not None:
        cpu, gpu, here = (3600 * plan[key] for key in ("cpu_hours", "gpu_hours", "hours"))
        gpus = f" and {spell(gpu)} of GPU time" if gpu else ""
        hours = f"About {spell(cpu)} of CPU time{gpus}: {spell(here)} here, and half a minute to start and end"
    memory = f"{plan['memory_bytes_per_trial'] / 1e6:,.0f} MB"
    if on_gpu := plan["gpu_memory_bytes_per_trial"]:
        memory += f" and at least {on_gpu / 1e6:,.0f} MB of a GPU"
    return [
        *lines,
        f"{hours}. Memory of a run: {memory}; {plan['trials_at_once']} run at a time here; checkpoints: "
        f"{plan['checkpoint_bytes'] / 1e6:,.1f} MB at most. Nothing was started.",
    ]


def status(
    name: str | None = typer.Argument(None, help="A sweep or a study. Default: all."),
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """Show each sweep's progress and its leading algorithms.

    The sweeps may run in other processes.
    """
    statuses = api.status(name, storage=storage)
    if as_json:
        emit(statuses)
        return
    if not statuses:
        say(f"no sweep in {storage}: `suite sweep` starts one, --storage names another folder")
    for progress in statuses if isinstance(statuses, list) else [statuses]:
        for line in (_progress(progress), *_leaders(progress)):
            out().print(line, **PLAIN)


def _progress(progress: dict[str, Any]) -> str:
    """Return one line of text on a sweep's progress: runs by status, state, and time left."""
    from reports.wording.words import spell

    kinds = ("finished", "pruned", "diverged", "failed", "died")
    counts = ", ".join(f"{progress[kind]} {kind}" for kind in kinds if progress[kind])
    done = progress["ended"] - progress["superseded"]
    complete = done >= progress["expected"] and progress["recorded"] >= progress["ended"]
    state = "running" if progress["running"] else "finished" if complete else "not running here"
    if progress["asked_to"]:
        state += f", asked to {progress['asked_to']}"
    if progress["running"] and progress["seconds_left"] is not None:
        left = spell(progress["seconds_left"])
        state += f", {progress['per_minute']:.0f} runs/min, about {left} left"
    runs = f"{done}/{progress['expected']} runs ({counts or 'none yet'})"
    last = f"last event {progress['idle_seconds']:.0f} s ago"
    return f"{progress['name']}: {runs}, {progress['recorded']} recorded; {state}, {last}"


def _leaders(progress: dict[str, Any]) -> list[str]:
    """Return one line of text for each scenario of a sweep, with its best algorithms by validation score."""
    from trials.run.spec import Scenario
    from trials.scoring.metrics import TASKS

    entries = [entry for entry in progress["best"] if entry["best"] is not None]
    entries.sort(key=lambda entry: -TASKS[entry["metric"]].sign * entry["best"])
    scores: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        scenario = Scenario(*itemgetter(*Scenario._fields)(entry))
        scores[str(scenario)].append(f"{entry['name']} {entry['best']:.4f}")
    return [f"  {at}: best on validation {', '.join(top[:LEADERS])}" for at, top in scores.items()]


def stop(
    name: str = typer.Argument(help="The sweep's name."),
    now: bool = typer.Option(False, "--now", help="End at once, as Ctrl-C does."),
    storage: Storage = RUNS,
) -> None:
    """End a sweep that another process runs.

    The same `suite sweep` command with --resume continues it. Running trials finish first, and no others start. With --now
    the sweep ends within seconds.
    """
    word = "cancel" if now else "stop"
    if api.stop(name, now=now, storage=storage):
        say(f"Asked sweep {name} to {word}; it reacts within seconds.")
    else:
        other = f"A process on another machine with the same storage will {word}"
        say(f"No process here runs sweep {name}. {other}; without one, nothing happens.")


def ui(
    name: str | None = typer.Argument(None, help="The sweep whose page to open first."),
    host: str = typer.Option("127.0.0.1", help="Address to listen on."),
    port: int | None = typer.Option(
        None, min=1, max=65535, help=f"Default: {PORT}, or a free one."
    ),
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
) -> None:
    """Serve the pages of sweeps, Optuna and MLflow at one address.

    Only this machine can open the pages, unless --host says otherwise. Ctrl-C ends the server.
    """
    from suite.sweeps.status import sweeps
    from suite.ui import address, bind, site
    from suite.ui import ui as serve

    if name is not None and name not in sweeps(storage):
        raise unknown(f"sweep in {storage}", name, sweeps(storage))
    # Other users of this machine can reach the port, but not guess the token.
    door, token = bind(host, port, PORT), secrets.token_urlsafe(24)
    page = site(door) + ("/" if name is None else address(name)) + f"?token={token}"
    say(f"Pages: {page}\nCtrl-C ends the server.")
    serve(storage, tracking_uri, door, token)
