"""`suite sweep`: the main job, and its plan."""

import shlex
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from suite.cli.options import (
    RUNS,
    Assign,
    DataRoot,
    Json,
    Name,
    Storage,
    Tracking,
    ask_where_bare,
    finite,
)
from suite.console import emit, out, program, say
from suite.tracking.faults import without_user
from suite.yaml_files import assignments, value
from trials.common.errors import UserError
from trials.run.outcome import ENDINGS, Status

if TYPE_CHECKING:
    from suite.execution.resources import Resources
    from suite.search.sweep_search import SweepSearch
    from suite.studies.study import Study
    from suite.sweeps.journal.paths import SweepPaths
    from suite.sweeps.request import SweepRequest
    from suite.sweeps.result import Result

Listed = Annotated[str | None, typer.Option(help="Names with commas between them.")]
BARE = "This runs the study quickstart: seven methods on digits, about two minutes on two cores."


def sweep(
    study: Annotated[
        str, typer.Argument(help="A shipped study's name, or a path to a YAML file.")
    ] = "quickstart",
    name: Name = None,
    algorithms: Listed = None,
    datasets: Listed = None,
    models: Listed = None,
    heterogeneity: Listed = None,
    trials: Annotated[
        str | None, typer.Option(metavar="INTEGER", help="Search trials of each entry.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="INTEGER", help="Final runs of each entry.")
    ] = None,
    assign: Assign = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.1, callback=finite, help="Be over by then: the search is cut, final runs are not."
        ),
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

    --set takes any key of a study (--set sampler=random, --set tunings=5), a shared setting (--set
    rounds=100), a range to search (--set search.lr=0.01..10), and resources of trials (--set
    gpus_per_trial=0.25, --set max_concurrent=4, --set checkpoints=s3://bucket/sweeps).
    docs/reference.md lists the keys.
    """
    ask_where_bare("sweep", BARE)
    say(f"reading {study}")
    from suite.sweeps.journal.paths import SweepPaths
    from suite.sweeps.request import SweepRequest, changes, usual_name

    options = {
        "algorithms": algorithms,
        "datasets": datasets,
        "models": models,
        "heterogeneity": heterogeneity,
        "trials": trials and value(trials),
        "seeds": seeds and value(seeds),
    }
    asked = {key: text for key, text in options.items() if text is not None}
    given = assignments(assign or ())
    for key in asked.keys() & given:
        raise UserError(f"{key} is given by --{key} and by --set: give one of them")
    changed = changes(given | asked, address)
    own = usual_name(study, smoke) if name is None else name
    paths = SweepPaths(storage, own, tracking_uri, data_root, changed.checkpoints)
    request = SweepRequest(study, paths, changed.study, resume, smoke)
    if dry_run or calibrate:
        show_plan(request, changed.resources, calibrate, as_json)
        return
    result = request.run(changed.resources, minutes)
    if as_json:
        emit(asdict(result.summary))
    if result.ending:
        words = [program(), *map(without_user, sys.argv[1:])]
        again = shlex.join(words if request.resume else [*words, "--resume"])
        say(f"{result.ending.capitalize()}; everything is kept. Continue with: {again}")
        raise typer.Exit(130)
    if not as_json:
        _conclude(result, request.paths)
    raise typer.Exit(1 if result.summary.trials_failed else 0)


def _conclude(result: "Result", paths: "SweepPaths") -> None:
    """The last screen of a sweep: what happened, the leaderboard, what to do next."""
    from reports.wording.formats import table

    shown, summary = out(), result.summary
    ended = {status: getattr(summary, f"trials_{status}") for status in ENDINGS}
    counts = ", ".join(
        f"{count} {status}" for status, count in ended.items() if count or status == Status.FINISHED
    )
    shown.print()
    if result.leaderboard is not None:
        shown.print(table(result.leaderboard, shown.width, program()), crop=False)
    tuned = "" if result.leaderboard is None else f" Tuned configurations: {paths.folder / 'tuned'}"
    shown.print(
        f"{summary.entries} entries: {counts} search trials, {summary.final_runs} final runs"
        f" in {summary.seconds:.0f} s.{tuned}",
        highlight=False,
        soft_wrap=True,
    )
    if paths.models.exists():
        shown.print(f"Models: {paths.models}", highlight=False, soft_wrap=True)
    shown.print("Next:")
    for command in _next(result, paths):
        shown.print(f"  {shlex.join(command)}", highlight=False, soft_wrap=True, markup=False)


def _next(result: "Result", paths: "SweepPaths") -> list[list[str]]:
    """Commands that a person may want now."""
    commands = [["leaderboard", "--name", paths.name], ["report", paths.name], ["ui"]]
    if result.leaderboard is not None and result.leaderboard.rows:
        best = result.leaderboard.rows[0]
        entry = ["--algorithm", best.algorithm, "--dataset", best.dataset, "--model", best.model]
        entry += ["--heterogeneity", best.heterogeneity, "--seed", "1"]
        commands.insert(1, ["run", "--tuned", *entry])
    return [[program(), *command, *result.tables.options] for command in commands]


def show_plan(
    request: "SweepRequest", resources: "Resources", calibrate: bool, as_json: bool
) -> None:
    """Show what a sweep would do and take."""
    from suite.execution.estimate import Estimates
    from suite.execution.resources import local_slots
    from suite.search.sweep_search import SweepSearch
    from suite.studies.entries import load_data, make_entries

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
    found = []
    for number, entry in enumerate(entries, 1):
        if calibrate:
            say(f"measuring {number}/{len(entries)}: {entry.name}")
        found.append(estimates.entry(entry, calibrate))
    total = estimates.total(found, local_slots(resources))
    search = SweepSearch(entries, study)
    plan = {
        "study": study_name,
        "name": paths.name,
        "entries": [
            {
                "entry_id": of.entry.id,
                "name": of.entry.name,
                "default": of.proposer.known[0].params,
                "published": [start.origin for start in of.proposer.known].count("published"),
                "modelled": of.modelled,
                "outside": of.entry.outside(),
                "estimate": estimate,
            }
            for of, estimate in zip(search.firsts, found, strict=True)
        ],
        "trials_per_entry": study.trials,
        "sampler": study.sampler,
        **_learning(study, search),
        "final_runs_per_entry": study.seeds,
        "retries": study.retries,
        **total,
    }
    if as_json:
        emit(plan)
    else:
        _print(study, plan)


def _learning(study: "Study", search: "SweepSearch") -> dict[str, Any]:
    """When the search begins to learn."""
    from suite.studies.samplers import find_sampler, first_modelled, searched_by

    sampler = find_sampler(study.sampler)
    return {
        "startup": sampler.startup,
        "lag": search.lag,
        "modelled_from": first_modelled(sampler, search.lag),
        "searched_by": searched_by(study.sampler, study.trials, search.lag),
        "warnings": search.warnings,
    }


def _print(study: "Study", plan: dict[str, Any]) -> None:
    from reports.wording.words import params_text

    to = out()

    def line(text: str) -> None:
        to.print(text, highlight=False, markup=False)

    for entry in plan["entries"]:
        published = f", {entry['published']} published" if entry["published"] else ""
        line(f"{entry['name']}: starts from {params_text(entry['default'])}{published}")
    line(
        f"{len(plan['entries'])} entries, each {study.trials} search trials and {study.seeds} final runs"
        f"{_besides(study)}: {plan['trials']} trials of {study.settings.rounds} rounds, "
        f"{plan['client_steps']:,} client steps if none is stopped early."
    )
    line(
        f"Search: {plan['searched_by']}. Start-up: {plan['startup'] or 'none'} (trials told before "
        f"results shape what is suggested). Lag: {plan['lag']} (trials of an entry in flight at once). "
        f"Modelled: {max(entry['modelled'] for entry in plan['entries'])} of an entry's {study.trials} trials "
        "at most."
    )
    for warning in plan["warnings"]:
        line(f"Warning: {warning}.")
    on_gpu = plan["gpu_memory_bytes_per_trial"]
    gpu = f" and {_size(on_gpu)} of a GPU at least" if on_gpu else ""
    line(
        f"{_hours(plan)}. Memory {_size(plan['memory_bytes_per_trial'])}{gpu} a trial; checkpoints "
        f"{_size(plan['checkpoint_bytes'])} at most, one for each of {plan['trials_at_once']} running "
        "trials. Nothing was started."
    )


def _besides(study: Any) -> str:
    """What else an entry runs, or does not."""
    from suite.studies.samplers import find_sampler

    count = len(study.replicates)
    factors = {"tunings": study.tunings, "partitions": study.partitions, "splits": study.splits}
    varied = " x ".join(f"{levels} {name}" for name, levels in factors.items() if levels > 1)
    times = f", {count} times over ({varied})" if count > 1 else None
    confirm = study.confirm and f", {study.confirm.best * study.confirm.seeds} that confirm"
    grid = ", fewer where the grid is smaller" if find_sampler(study.sampler).grid else None
    return "".join(filter(None, (confirm, grid, times)))


def _hours(total: dict[str, Any]) -> str:
    if total["cpu_hours"] is None:
        return "Hours: add --calibrate, which runs a few rounds of each entry"
    from reports.durations import spell

    cpu, gpu, here = (3600 * total[key] for key in ("cpu_hours", "gpu_hours", "hours"))
    gpus = f", {spell(gpu)} of GPUs" if gpu else ""
    return (
        f"About {spell(cpu)} of CPUs{gpus}: {spell(here)} here for the trials alone, and about half a minute for "
        "start, records and leaderboard"
    )


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
