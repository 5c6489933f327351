"""`suite sweep`: the main job, and its plan."""

import shlex
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from suite import api
from suite.cli.options import PLAIN, RUNS, Assign, DataRoot, Json, Storage, Tracking
from suite.console import emit, out, program, say
from suite.tracking.faults import without_user
from suite.yaml_files import assignments
from trials.run.outcome import ENDINGS

if TYPE_CHECKING:
    from suite.execution.resources import Resources
    from suite.sweeps.request import SweepRequest
    from suite.sweeps.result import Result


def sweep(
    study: Annotated[
        str, typer.Argument(help="A shipped study's name, or a path to a YAML file.")
    ] = "quickstart",
    name: Annotated[
        str | None, typer.Option(help="The sweep's name. Default: its study's.")
    ] = None,
    assign: Assign = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Be over by then: the search is cut, final runs are not."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue, or extend, the sweep of this name.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, show the plan, start nothing.")
    ] = False,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Like --dry-run, and measure how long it would take."),
    ] = False,
    smoke: Annotated[
        bool,
        typer.Option("--smoke", help="A tiny version, NAME-smoke: 2 rounds, 3 trials, 2 seeds."),
    ] = False,
    address: Annotated[
        str | None,
        typer.Option(envvar="RAY_ADDRESS", help="A running Ray cluster: HOST:PORT, or auto."),
    ] = None,
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
        request, resources = api.sweep_request(study, planned=True, **options, **values)
        show_plan(request, resources, calibrate, as_json)
        return
    result = api.sweep(study, minutes=minutes, **options, **values)
    if as_json:
        emit(asdict(result.summary))
    if result.ending:
        words = [program(), *map(without_user, sys.argv[1:])]
        again = shlex.join(words if resume else [*words, "--resume"])
        say(f"{result.ending.capitalize()}; everything is kept. Continue with: {again}")
        raise typer.Exit(130)
    if not as_json:
        _conclude(result)
    raise typer.Exit(1 if result.summary.trials_failed else 0)


def _conclude(result: "Result") -> None:
    """Print the last screen of a sweep: the leaderboard, what happened, what to do next."""
    from reports.wording.formats import table

    shown, summary, board = out(), result.summary, result.leaderboard
    shown.print()
    commands = [["leaderboard", summary.name], ["report", summary.name], ["ui"]]
    if board is not None:
        shown.print(table(board, shown.width, program()), crop=False)
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
        shown.print(f"  {shlex.join([program(), *command, *result.tables.options])}", **PLAIN)


def show_plan(
    request: "SweepRequest", resources: "Resources", calibrate: bool, as_json: bool
) -> None:
    """Show what a sweep would do and take."""
    from suite.execution.estimate import Estimates
    from suite.execution.resources import local_slots
    from suite.search.sweep_search import SweepSearch
    from suite.studies.entries import load_data, make_entries
    from suite.studies.samplers import find_sampler, first_modelled

    study_name, study = request.read()
    paths = request.paths
    if request.resume:
        for note in request.differences(study):
            say(note)
    elif paths.begun:
        say(
            f"Sweep {paths.name!r} exists in {paths.storage}: it needs --resume, or another --name."
        )
    paths.check(study.warm_start)
    entries = make_entries(study, f"study {study_name}")
    data = load_data(entries, paths.data_root, f"study {study_name}", study.replicates)
    estimates = Estimates(study, data, resources)
    measured = []
    for number, entry in enumerate(entries, 1):
        if calibrate:
            say(f"measuring {number}/{len(entries)}: {entry.name}")
        measured.append(estimates.entry(entry, calibrate))
    search, sampler = SweepSearch(entries, study), find_sampler(study.sampler)
    plan = {
        "study": study_name,
        "name": paths.name,
        "entries": [
            {
                "entry_id": first.entry.id,
                "name": first.entry.name,
                "default": first.proposer.known[0].params,
                "published": first.published,
                "modelled": first.modelled,
                "outside": first.entry.outside(),
                "estimate": estimate,
            }
            for first, estimate in zip(search.firsts, measured, strict=True)
        ],
        "trials_per_entry": study.trials,
        "final_runs_per_entry": study.seeds,
        "sampler": study.sampler,
        "startup": sampler.startup,
        "lag": search.lag,
        "modelled_from": first_modelled(sampler, search.lag),
        "searched_by": search.searched_by,
        "warnings": search.warnings,
        **estimates.total(measured, local_slots(resources)),
    }
    if as_json:
        emit(plan)
    else:
        out().print("\n".join(_plan_lines(plan, study.settings.rounds)), **PLAIN)


def _plan_lines(plan: dict[str, Any], rounds: int) -> list[str]:
    from reports.durations import spell
    from reports.wording.words import params_text

    entries, trials = plan["entries"], plan["trials_per_entry"]
    lines = []
    for entry in entries:
        published = f", {entry['published']} published" if entry["published"] else ""
        lines.append(f"{entry['name']}: starts from {params_text(entry['default'])}{published}")
    finals, lag = plan["final_runs_per_entry"], plan["lag"]
    more = " (what confirms and repeats is in it)" * (
        plan["trials"] != len(entries) * (trials + finals)
    )
    lines += [
        f"{len(entries)} entries, each {trials} search trials and {finals} final runs: {plan['trials']} runs of "
        f"{rounds} rounds{more}, {plan['client_steps']:,} client steps if none is stopped early.",
        f"Search: {plan['searched_by']}. {lag} trials of an entry run at once, and it learns once {plan['startup']} "
        f"have ended: at most {max(entry['modelled'] for entry in entries)} of an entry's {trials} trials are "
        "suggested by what was learnt.",
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
