"""`suite sweep`: the main job."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from suite.cli.options import (
    RUNS,
    CpusPerTrial,
    DataRoot,
    GpusPerTrial,
    Json,
    Log,
    MaxConcurrent,
    MemoryBudget,
    Storage,
    Tracking,
    Trust,
    ask_where_bare,
    finite,
    gigabytes,
)
from suite.cli.plan import show_plan
from suite.cli.watch import watched
from suite.console import emit, out, program, say
from trials.common.errors import UserError
from trials.run.outcome import ENDINGS, Status

if TYPE_CHECKING:
    from suite.execution.resources import Resources
    from suite.sweeps.journal.paths import SweepPaths
    from suite.sweeps.request import SweepRequest
    from suite.sweeps.result import Result

app = typer.Typer()

StudyName = Annotated[str, typer.Argument(help="A shipped study's name, or a path to a YAML file.")]
Name = Annotated[str | None, typer.Option(help="The sweep's name; default: the study's.")]
Algorithms = Annotated[
    str | None, typer.Option(help="Comma-separated; also path/to/file.py:Class.")
]
Listed = Annotated[str | None, typer.Option(help="Comma-separated.")]
Levels = Annotated[str | None, typer.Option(help="Comma-separated levels.")]
Trials = Annotated[int | None, typer.Option(help="Search trials per tuning of an entry.")]
Rounds = Annotated[int | None, typer.Option(help="Communication rounds per trial.")]
Seeds = Annotated[int | None, typer.Option(help="Final runs per tuning of an entry.")]
Tunings = Annotated[
    int | None,
    typer.Option(help="Independent searches per entry, each with final runs of its own."),
]
Partitions = Annotated[int | None, typer.Option(help="Partitions on which all that is done.")]
Splits = Annotated[int | None, typer.Option(help="Draws of the validation data, likewise.")]
Sampler = Annotated[
    str | None, typer.Option(help="A name (`suite list samplers`), or FILE.py:Class.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="none, or early stopping per entry: asha, hyperband, median."),
]
WarmStart = Annotated[
    str | None,
    typer.Option(help="A tuned file, a folder of them, or `nearest`: configurations to try first."),
]
Pack = Annotated[
    str | None,
    typer.Option(
        help="Trials computed together in one process at most, or auto; changes no result."
    ),
]
Ranges = Annotated[
    list[str] | None,
    typer.Option(
        "--range",
        metavar="NAME=LOW..HIGH",
        help="Search NAME there: lr of all algorithms, fedprox.mu of one. May be repeated.",
    ),
]
MemoryPerTrial = Annotated[
    float | None, typer.Option(min=0.1, callback=gigabytes, help="GB; default: an estimate.")
]
"""In GB, which a command gets in bytes."""
Address = Annotated[
    str | None,
    typer.Option(
        envvar="RAY_ADDRESS",
        help="A running Ray cluster (HOST:PORT, ray://HOST:PORT, auto); default: one of its own.",
    ),
]
Checkpoints = Annotated[
    str | None,
    typer.Option(help="Folder or URI (s3://...) that all nodes reach; default: in --storage."),
]
CheckpointSeconds = Annotated[
    float, typer.Option(min=0.0, callback=finite, help="How often a running trial saves its state.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue (or extend) a sweep of this name.")
]
Repair = Annotated[
    bool,
    typer.Option(
        "--repair", help="With --resume: set damaged lines of its journal aside, and go on."
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, show the plan, start nothing.")
]
Calibrate = Annotated[
    bool, typer.Option("--calibrate", help="With --dry-run: measure a few rounds of each entry.")
]
Smoke = Annotated[
    bool,
    typer.Option(
        "--smoke",
        help="2 rounds, 4 clients (natural: all there are), 3 trials, 2 seeds: seconds.",
    ),
]

Watch = Annotated[
    bool, typer.Option("--watch", help="Show it in the browser while it runs (suite watch).")
]


BARE = "This runs the study quickstart: seven methods on digits, about two minutes on two cores."


@app.command(
    epilog="Example: suite sweep quickstart --algorithms fedavg,folb --trials 8 --name small"
)
def sweep(
    study: StudyName = "quickstart",
    name: Name = None,
    algorithms: Algorithms = None,
    datasets: Listed = None,
    models: Listed = None,
    heterogeneity: Levels = None,
    trials: Trials = None,
    rounds: Rounds = None,
    seeds: Seeds = None,
    sampler: Sampler = None,
    scheduler: Scheduler = None,
    ranges: Ranges = None,
    warm_start: WarmStart = None,
    pack: Pack = None,
    tunings: Tunings = None,
    partitions: Partitions = None,
    splits: Splits = None,
    cpus_per_trial: CpusPerTrial = 1.0,
    gpus_per_trial: GpusPerTrial = 0.0,
    memory_per_trial: MemoryPerTrial = None,
    memory_budget: MemoryBudget = None,
    max_concurrent: MaxConcurrent = None,
    address: Address = None,
    checkpoints: Checkpoints = None,
    checkpoint_seconds: CheckpointSeconds = 60.0,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    log: Log = None,
    trust: Trust = False,
    resume: Resume = False,
    repair: Repair = False,
    dry_run: DryRun = False,
    calibrate: Calibrate = False,
    smoke: Smoke = False,
    watch: Watch = False,
    as_json: Json = False,
) -> None:
    """Tune every algorithm of a study fairly, run the best again with fresh seeds, rank them."""
    ask_where_bare("sweep", BARE)
    say(f"reading {study}")
    from suite.execution.resources import Resources
    from suite.sweeps.journal.paths import SweepPaths
    from suite.sweeps.request import SweepRequest

    files = tracking_uri, data_root, checkpoints, log
    paths = SweepPaths(storage, Path(study).stem if name is None else name, *files)
    values = (
        trials,
        rounds,
        seeds,
        sampler,
        scheduler,
        warm_start,
        pack,
        tunings,
        partitions,
        splits,
    )
    if repair and (dry_run or not resume):
        raise UserError("--repair: goes with --resume, and without --dry-run")
    if calibrate and not dry_run:
        raise UserError("--calibrate: goes with --dry-run")
    changes = _changes((algorithms, datasets, models, heterogeneity), values, storage)
    request = SweepRequest(study, paths, changes | _ranges(ranges), resume, smoke, repair)
    trial = cpus_per_trial, gpus_per_trial, max_concurrent, memory_per_trial
    resources = Resources(*trial, address, checkpoint_seconds, memory_budget)
    if dry_run:
        show_plan(request, resources, calibrate, as_json)
    else:
        _run(request, resources, watch, as_json)


def _changes(lists: Sequence[str | None], values: Sequence[Any], storage: Path) -> dict[str, Any]:
    """What the command line changes of the study, in the order of `LISTS` and `VALUES`."""
    from suite.studies.study import LISTS, VALUES
    from suite.sweeps.journal.third_party import spelled
    from trials.common.names import split_top

    texts = dict(zip(LISTS, lists, strict=True))
    listed = {key: split_top(text, ",") for key, text in texts.items() if text is not None}
    if "algorithms" in listed:
        listed["algorithms"] = [spelled(name, storage) for name in listed["algorithms"]]
    given = dict(zip(VALUES, values, strict=True))
    if given["pack"] is not None and given["pack"].isdecimal():
        given["pack"] = int(given["pack"])
    return {**listed, **{key: value for key, value in given.items() if value is not None}}


def _ranges(given: list[str] | None) -> dict[str, Any]:
    """The ranges that the command line changes of the study."""
    from trials.common.names import number

    found = {}
    for text in given or []:
        name, _, span = text.partition("=")
        try:
            low, high = (number(float, end) for end in span.split(".."))
        except ValueError:
            raise UserError(
                f"--range {text}: must be NAME=LOW..HIGH, as in --range lr=0.001..10"
            ) from None
        found[f"search.{name}"] = {"low": low, "high": high, "datasets": {}}
    return found


def _run(request: "SweepRequest", resources: "Resources", watching: bool, as_json: bool) -> None:
    with ExitStack() as stack:
        opened = partial(stack.enter_context, watched(request.paths)) if watching else lambda: None
        result = request.run(resources, opened)
    if as_json:
        emit(asdict(result.summary))
    if result.ending:
        words = [program(), *sys.argv[1:]]
        again = shlex.join(words if request.resume else [*words, "--resume"])
        say(f"{result.ending.capitalize()}; everything is kept. Continue with: {again}")
        raise typer.Exit(130)
    if not as_json:
        _conclude(result, request.paths)
    raise typer.Exit(1 if result.summary.trials_failed else 0)


def _conclude(result: "Result", paths: "SweepPaths") -> None:
    """The last screen of a sweep: what happened, the leaderboard, what to do next."""
    from reports.leaderboard.formats import table

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
    return [[program(), *command, *result.store.options] for command in commands]
