"""`suite sweep`: the main job, and its plan."""

import os
import shlex
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from suite import api
from suite.cli.options import PLAIN, RUNS, Assign, DataRoot, Json, Storage, Tracking
from suite.console import emit, out, say
from suite.tracking.faults import without_user
from suite.yaml_files import assignments
from trials.run.outcome import ENDINGS, Status

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
        _conclude(result)
    raise typer.Exit(1 if result.summary.trials_failed else 0)


def _conclude(result: "Result") -> None:
    """Print the last screen of a sweep: the leaderboard, what happened, what to do next."""
    from reports.wording.tables import terminal

    shown, summary, board = out(), result.summary, result.leaderboard

    def command(*words: str) -> str:
        return shlex.join(["suite", *words, *result.tables.options])

    shown.print()
    if board is not None:
        more = command("leaderboard", summary.name)
        shown.print(terminal(board, shown.width, command=more), crop=False)
    counts = {status: getattr(summary, f"trials_{status}") for status in ENDINGS}
    others = [f"{count} {status}" for status, count in counts.items() if count]
    others = [text for text in others if not text.endswith(Status.FINISHED)]
    apart = f" ({', '.join(others)})" if others else ""
    folder = os.path.relpath(summary.storage)
    shown.print(
        f"{sum(counts.values())} trials{apart}, {summary.final_runs} final runs in {summary.seconds:.0f} s: "
        f"{folder if folder[:2] != '..' else summary.storage}\n"
        f"Next: {command('report', summary.name)}, {command('ui')}",
        **PLAIN,
    )
    for best in board.rows[:1] if board else ():
        entry = ["--algorithm", best.algorithm, "--dataset", best.dataset]
        entry += ["--model", best.model, "--heterogeneity", best.heterogeneity]
        shown.print(f"      {command('run', '--tuned', *entry, '--seed', '1')}", **PLAIN)


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
