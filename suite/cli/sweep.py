"""`suite sweep`: the main job, and its plan."""

import shlex
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from suite import api
from suite.cli.options import PLAIN, RUNS, Assign, DataRoot, Json, Storage, Tracking
from suite.console import emit, out, say
from suite.tracking import without_user
from suite.yaml_files import assignments
from trials.run.outcome import ENDINGS

if TYPE_CHECKING:
    from suite.sweeps.sweep import Result

ADDRESS = "A running Ray cluster: HOST:PORT, or auto."


def sweep(
    study: str = typer.Argument("quickstart", help="A shipped study's name, or a YAML file."),
    name: str | None = typer.Option(None, help="The sweep's name. Default: its study's."),
    assign: Assign = None,
    minutes: float | None = typer.Option(None, help="Be over by then: the search is cut."),
    resume: bool = typer.Option(False, "--resume", help="Continue, or extend, this sweep."),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Check all, show the plan, start nothing."
    ),
    calibrate: bool = typer.Option(False, "--calibrate", help="The same, and measure the time."),
    smoke: bool = typer.Option(False, "--smoke", help="A tiny version in seconds, NAME-smoke."),
    address: str | None = typer.Option(None, envvar="RAY_ADDRESS", help=ADDRESS),
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Tune every algorithm of a study, run the best again, rank them.

    --set takes any key of a study: its lists (--set algorithms=fedavg,folb; datasets, models, heterogeneity),
    trials (of the search of each entry) and seeds (final runs of each entry), a shared setting (--set rounds=100),
    a range to search (--set search.lr=0.01..10), and what a trial gets (--set max_concurrent=4).

    Each key is an option, too: --algorithms fedavg,folb --trials 40 --rounds 100. `suite list studies` shows the
    studies, docs/reference.md all keys.
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
        words = ["suite", *map(without_user, sys.argv[1:])]
        again = shlex.join(words if resume else [*words, "--resume"])
        say(f"{result.ending.capitalize()}; everything is kept. Continue with: {again}")
        raise typer.Exit(130)
    if not as_json:
        place = ["--storage", str(storage)] if storage != RUNS else []
        if tracking_uri is not None:
            place += ["--tracking-uri", without_user(tracking_uri)]
        _conclude(result, place)
    raise typer.Exit(1 if result.summary.trials_failed else 0)


def _conclude(result: "Result", place: list[str]) -> None:
    """Print the last screen of a sweep: the leaderboard, what happened, what to do next, with the options of its `place`."""
    from reports.wording.formats import table

    shown, summary, board = out(), result.summary, result.leaderboard
    shown.print()
    commands = [["leaderboard", summary.name], ["report", summary.name], ["ui"]]
    if board is not None:
        shown.print(table(board, shown.width, "suite"), crop=False)
        for best in board.rows[:1]:
            entry = ["--algorithm", best.algorithm, "--dataset", best.dataset]
            entry += ["--model", best.model, "--heterogeneity", best.heterogeneity]
            commands.insert(1, ["run", "--tuned", *entry, "--seed", "1"])
    counts = {status: getattr(summary, f"trials_{status}") for status in ENDINGS}
    ended = [f"{count} {status}" for status, count in counts.items() if count]
    shown.print(
        f"{summary.entries} entries: {', '.join(ended) or 'no'} search trials, {summary.final_runs} final runs"
        f" in {summary.seconds:.0f} s. All of it is in {summary.storage}\nNext:",
        **PLAIN,
    )
    for command in commands:
        shown.print(f"  {shlex.join(['suite', *command, *place])}", **PLAIN)


def _plan_lines(plan: dict[str, Any]) -> list[str]:
    from reports.durations import spell
    from reports.wording.words import params_text

    entries, trials = plan["entries"], plan["trials_per_entry"]
    lines = []
    for entry in entries:
        published = f", {entry['published']} published" if entry["published"] else ""
        lines.append(f"{entry['name']}: starts from {params_text(entry['default'])}{published}")
    finals, lag = plan["final_runs_per_entry"], plan["lag"]
    modelled = max(entry["modelled"] for entry in entries)
    lines += [
        f"{len(entries)} entries, each {trials} search trials and {finals} final runs: {plan['trials']} runs of "
        f"{plan['rounds_per_run']} rounds in all, {plan['client_steps']:,} client steps if none is stopped early.",
        f"Search: {plan['searched_by']}. {lag} trials of an entry run at once; at most {modelled} of its {trials} trials "
        "are suggested by what earlier ones showed.",
        *(f"Warning: {warning}." for warning in plan["warnings"]),
    ]
    hours = "Hours: add --calibrate, which runs a few rounds of each entry"
    if plan["cpu_hours"] is not None:
        cpu, gpu, here = (3600 * plan[key] for key in ("cpu_hours", "gpu_hours", "hours"))
        gpus = f" and {spell(gpu)} of GPUs" if gpu else ""
        hours = f"About {spell(cpu)} of CPUs{gpus}: {spell(here)} here, and half a minute to start and end"
    memory = f"{plan['memory_bytes_per_trial'] / 1e6:,.0f} MB"
    if on_gpu := plan["gpu_memory_bytes_per_trial"]:
        memory += f" and {on_gpu / 1e6:,.0f} MB of a GPU at least"
    return [
        *lines,
        f"{hours}. Memory of a run: {memory}; {plan['trials_at_once']} run at once; checkpoints: "
        f"{plan['checkpoint_bytes'] / 1e6:,.1f} MB at most. Nothing was started.",
    ]
