"""The command line. Results go to standard output, everything else to standard error.

Exit codes: 0 done; 1 ran, but some trials crashed for good; 2 bad input, nothing was started;
3 halted by a fault around it (a full disk, say), state kept; 130 interrupted or stopped, state kept.
"""

import shlex
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from suite.cli import bench as cli_bench
from suite.cli import control as cli_control
from suite.cli import data as cli_data
from suite.cli import reproduce as cli_reproduce
from suite.cli import results as cli_reports
from suite.cli import transfer as cli_transfer
from suite.cli import tuned as cli_tuned
from suite.console import RUNS, DataRoot, Json, MemoryBudget, Storage, Tracking, emit, say
from suite.execution.stop_signal import HaltedError
from trials.errors import UserError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Federated-learning algorithms, tuned fairly, compared across papers, reused.",
    epilog="Start here: [bold]suite sweep quickstart[/bold]",
)
app.add_typer(cli_reports.app)
app.add_typer(cli_tuned.app, name="tuned")
app.add_typer(cli_data.app, name="data")
app.add_typer(cli_bench.app, name="bench")
app.add_typer(cli_control.app)
app.command(epilog="Example: suite reproduce folb/table1 --output results")(cli_reproduce.reproduce)
app.command(epilog="Example: suite transfer --algorithm fedprox --seeds 5")(cli_transfer.transfer)


class Listing(StrEnum):
    """What can be listed."""

    algorithms = "algorithms"
    datasets = "datasets"
    models = "models"
    heterogeneity = "heterogeneity"
    studies = "studies"
    papers = "papers"


@app.command(
    epilog="Example: suite sweep quickstart --algorithms fedavg,folb --trials 8 --name small"
)
def sweep(
    study: Annotated[
        str, typer.Argument(help="A shipped study's name, or a path to a YAML file.")
    ] = "quickstart",
    name: Annotated[
        str | None, typer.Option(help="The sweep's name; default: the study's.")
    ] = None,
    algorithms: Annotated[
        str | None, typer.Option(help="Comma-separated; also path/to/file.py:Class.")
    ] = None,
    datasets: Annotated[str | None, typer.Option(help="Comma-separated.")] = None,
    models: Annotated[str | None, typer.Option(help="Comma-separated.")] = None,
    heterogeneity: Annotated[str | None, typer.Option(help="Comma-separated levels.")] = None,
    trials: Annotated[int | None, typer.Option(help="Search trials per cell.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Communication rounds per trial.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Final runs per cell.")] = None,
    sampler: Annotated[
        str | None, typer.Option(help="tpe, gp, cmaes, random, grid or nsga2.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="none, early stopping per cell (asha, hyperband, median), or pbt: a population."
        ),
    ] = None,
    warm_start: Annotated[
        str | None,
        typer.Option(
            help="A tuned file, a folder of them, or `nearest`: configurations to try first."
        ),
    ] = None,
    cpus_per_trial: Annotated[float, typer.Option(min=0.1)] = 1.0,
    gpus_per_trial: Annotated[float, typer.Option(min=0.0, help="Fractions share one GPU.")] = 0.0,
    memory_per_trial: Annotated[
        float | None, typer.Option(min=0.1, help="GB; default: an estimate.")
    ] = None,
    memory_budget: MemoryBudget = None,
    max_concurrent: Annotated[int | None, typer.Option(min=1, help="Default: what fits.")] = None,
    address: Annotated[
        str | None,
        typer.Option(
            envvar="RAY_ADDRESS",
            help="A running Ray cluster (HOST:PORT, ray://HOST:PORT, auto); default: one of its own.",
        ),
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(help="Folder or URI (s3://...) that all nodes reach; default: in --storage."),
    ] = None,
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0.0, help="How often a running trial saves its state.")
    ] = 60.0,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue (or extend) a sweep of this name.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, show the plan, start nothing.")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="With --dry-run: measure a few rounds of each cell.")
    ] = False,
    smoke: Annotated[
        bool,
        typer.Option(
            "--smoke",
            help="2 rounds, 4 clients (natural: all there are), 3 trials, 2 seeds: seconds.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Tune every algorithm of a study fairly, run the best again with fresh seeds, rank them."""
    from trials.names import split_top

    lists = {
        "algorithms": algorithms,
        "datasets": datasets,
        "models": models,
        "heterogeneity": heterogeneity,
    }
    listed: dict[str, Any] = {k: split_top(v, ",") for k, v in lists.items() if v is not None}
    single = {
        "trials": trials,
        "settings.rounds": rounds,
        "seeds": seeds,
        "sampler": sampler,
        "scheduler": scheduler,
        "warm_start": warm_start,
    }
    given = {k: v for k, v in single.items() if v is not None}
    from suite.studies.study import Study, read_study, small
    from suite.sweeps.paths import Place
    from suite.sweeps.resume import resumed_study
    from suite.sweeps.sweep import Sweep

    place = Place(
        storage, Path(study).stem if name is None else name, tracking_uri, data_root, checkpoints
    )

    def read(overrides: dict[str, Any]) -> tuple[str, Study]:
        begun = resumed_study(place, overrides) if resume else None
        return begun or read_study(study, overrides)

    if smoke:
        sized = {k: v for k, v in given.items() if k == "scheduler"}
        given = small(read(listed | sized)[1]) | given
    study_name, content = read(listed | given)
    if resume:
        _differs(study, content)
    from suite.execution.cluster import Resources

    memory = None if memory_per_trial is None else round(memory_per_trial * 1e9)
    resources = Resources(
        cpus_per_trial,
        gpus_per_trial,
        max_concurrent,
        memory,
        address,
        checkpoint_seconds,
        memory_budget and memory_budget * 1e9,
    )
    if dry_run:
        if place.begun and not resume:
            say(f"Sweep {place.name!r} exists in {storage}: it needs --resume, or another --name.")
        cli_control.show_plan(study_name, content, place, resources, calibrate, as_json)
        return
    opened = Sweep(study_name, content, place, resume)
    for note in opened.search.warnings:
        say(note)
    result = opened.run(resources)
    summary = result.summary
    for note in opened.search.unmet:
        say(note)
    if as_json:
        emit(summary)
    if result.ending:
        words = ["suite", *sys.argv[1:]]
        again = shlex.join(words if resume else [*words, "--resume"])
        say(f"{result.ending.capitalize()}; everything is kept. Continue with: {again}")
        raise typer.Exit(130)
    if not as_json:
        _conclude(summary, result.board, place)
    raise typer.Exit(1 if summary["trials_failed"] else 0)


@app.command(
    epilog="Example: suite run --algorithm fedprox --set mu=0.1 --set lr=0.05 --heterogeneity 'dirichlet(0.3)'"
)
def run(
    config: Annotated[
        Path | None, typer.Argument(help="A configuration file, as --config.")
    ] = None,
    algorithm: Annotated[str | None, typer.Option(help="Default: fedavg.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Default: digits.")] = None,
    model: Annotated[str | None, typer.Option(help="Default: logreg.")] = None,
    heterogeneity: Annotated[str | None, typer.Option(help="Default: iid.")] = None,
    assign: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE: a hyperparameter or a setting.")
    ] = None,
    rounds: Annotated[int | None, typer.Option()] = None,
    clients: Annotated[int | None, typer.Option()] = None,
    seed: Annotated[int, typer.Option(min=0, help="Run seed.")] = 0,
    config_file: Annotated[
        Path | None, typer.Option("--config", help="A tuned or hand-written YAML file.")
    ] = None,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="Start from the best known configuration of the cell.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    memory_budget: MemoryBudget = None,
    record: Annotated[bool, typer.Option(help="Record the run in MLflow.")] = True,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Run one configuration and show its curve."""
    from suite.configurations import configuration as tuned_files
    from suite.configurations.library import select_tuned
    from suite.runs import single as runs
    from suite.tracking.store import Store
    from trials import algorithms
    from trials.spec import outside

    path = config_file or config
    base: dict[str, Any] = {"params": {}, "settings": {}}
    if path is not None:
        base = tuned_files.read(path).model_dump()
    elif tuned:
        found = cli_tuned.known(storage, tracking_uri)
        cell = (algorithm, dataset, model, heterogeneity)
        matching = select_tuned(found, *cell)
        if not matching:
            raise UserError(
                f"no tuned configuration matches {' '.join(filter(None, cell)) or 'anything'}: "
                "see `suite tuned list`, or make one with `suite sweep`"
            )
        base = matching[0].model_dump()
    if algorithm and base.get("algorithm", algorithm) not in (
        algorithm,
        algorithms.canonical(algorithm),
    ):
        raise UserError(f"--algorithm {algorithm}: {path} configures {base['algorithm']}")
    extra = {k: v for k, v in (("rounds", rounds), ("clients", clients)) if v is not None}
    request = runs.Request(
        algorithm=algorithm or base.get("algorithm", "fedavg"),
        dataset=dataset or base.get("dataset", "digits"),
        model=model or base.get("model", "logreg"),
        heterogeneity=heterogeneity or base.get("heterogeneity", "iid"),
        params=base["params"],
        settings={**base["settings"], **extra},
        assignments=tuple(assign or ()),
        seed=seed,
    )
    spec = request.spec()
    if reason := outside(algorithms.resolve(spec.algorithm), spec.settings):
        say(f"{spec.algorithm} runs outside its paper's setting: {reason}")
    store: Store | None = None

    def evaluated(entry: dict[str, float]) -> None:
        nonlocal store
        if record and store is None:  # not before: what is refused for its data leaves no store
            store = Store(tracking_uri, storage)
        _show_evaluation(entry)

    budget = memory_budget and memory_budget * 1e9
    done = runs.execute(spec, data_root, device, evaluated, budget)
    document = done.document()
    if store is not None:
        document["run_id"] = runs.record(store, done)
    if as_json:
        emit(document)
        return
    metric = done.data.dataset.task.metric
    last = done.simulation.history[-1]
    Console().print(
        f"{spec.algorithm} {spec.params} on {spec.dataset}, {spec.model}, {spec.heterogeneity}, seed {seed}: "
        f"{document['status']} after {last['round']} rounds, test {metric} {last['test_' + metric]:.4f}, "
        f"{document['seconds']} s ({document['evaluation_share']:.0%} of it evaluating)"
        + (f", run {document['run_id']}" if store else ""),
        highlight=False,
        markup=False,
    )


@app.command(epilog="Example: suite replay 0f3c... (a run id from the leaderboard's MLflow runs)")
def replay(
    run_id: Annotated[str, typer.Argument(help="A search, final or single run in MLflow.")],
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Run a recorded run again and compare every metric to the last bit. Exit code 1 if any differs."""
    from suite.runs import single as runs
    from suite.tracking.store import open_existing

    store = open_existing(tracking_uri, storage)
    done, differences = runs.replay(store, run_id, data_root, _show_evaluation)
    if as_json:
        emit({**done.document(), "identical": not differences, "differences": differences})
    elif differences:
        say("\n".join([f"{len(differences)} values differ:", *differences[:20]]))
    else:
        Console().print(
            f"run {run_id} repeated: every recorded metric is identical to the last bit"
        )
    raise typer.Exit(1 if differences else 0)


@app.command("list", epilog="Example: suite list algorithms --json")
def list_things(
    kind: Annotated[Listing, typer.Argument()],
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Algorithms as the page docs/algorithms.md.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List algorithms, data sets, models, heterogeneity levels, studies or papers."""
    from suite.catalog import algorithms_page, listing

    if markdown:
        if kind is not Listing.algorithms:
            raise UserError(f"--markdown is for algorithms, not for {kind.value}")
        sys.stdout.write(algorithms_page())
        return
    found = listing(kind.value)
    if as_json:
        emit(found)
        return
    shown = Table()
    columns = [key for key in found[0] if key not in ("published", "assumes")]
    for column in columns:
        shown.add_column(column)
    for item in found:
        shown.add_row(*(escape(_cell(item[column])) for column in columns))
    Console().print(shown)


@app.command()
def doctor(
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Check that everything a sweep needs works here. Exit code 1 if something does not."""
    from suite.doctor import examine

    checks = examine(storage, tracking_uri, data_root)
    if as_json:
        emit([vars(check) for check in checks])
    else:
        for check in checks:
            mark = "[green]ok[/green]  " if check.ok else "[red]FAIL[/red]"
            Console().print(
                f"{mark} {check.name}: {escape(check.detail)}", highlight=False, soft_wrap=True
            )
            if not check.ok and check.remedy:
                Console().print(f"     {check.remedy}", highlight=False)
    raise typer.Exit(0 if all(check.ok for check in checks) else 1)


def main() -> None:
    """Entry point of the `suite` command."""
    try:
        app()
    except UserError as error:
        say(f"error: {error}")
        sys.exit(2)
    except HaltedError as error:
        say(f"halted: {error}. {error.remedy}")
        sys.exit(3)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)


def _differs(study: str, content: Any) -> None:
    """Say where a resumed sweep's study is not what the file has now, which it does not go by."""
    from suite.studies.study import read_study

    with suppress(UserError):  # the file may be gone
        mine, there = _flat(content), _flat(read_study(study, {})[1])
        for key in [key for key in mine if mine[key] != there[key]]:
            say(f"{key} is {mine[key]}, not {there[key]} as in {study}: options extend a sweep.")


def _flat(study: Any) -> dict[str, Any]:
    found = study.model_dump(mode="json")
    settings = found.pop("settings")
    return {**found, **settings}


def _conclude(summary: dict[str, Any], board: Any, place: Any) -> None:
    """The last screen of a sweep: what happened, the leaderboard, what to do next."""
    from reports.leaderboard.formats import table

    out = Console()
    states = ("finished", "pruned", "diverged", "failed")
    counts = ", ".join(
        f"{summary['trials_' + s]} {s}" for s in states if summary["trials_" + s] or s == "finished"
    )
    out.print()
    if board is not None:
        out.print(table(board, out.width))
    out.print(
        f"{summary['cells']} cells: {counts} search trials, {summary['final_runs']} final runs"
        f" in {summary['seconds']:.0f} s. Tuned configurations: {place.folder / 'tuned'}",
        highlight=False,
        soft_wrap=True,
    )
    where = []
    if place.storage != RUNS:
        where += ["--storage", str(place.storage)]
    if place.tracking_uri:
        where += ["--tracking-uri", place.tracking_uri]
    commands = [["suite", "leaderboard", "--name", place.name], ["suite", "ui"]]
    if board is not None and board.rows:
        best = board.rows[0]
        cell = ["--algorithm", best.algorithm, "--dataset", best.dataset, "--model", best.model]
        cell += ["--heterogeneity", best.heterogeneity, "--seed", "1"]
        commands.insert(1, ["suite", "run", "--tuned", *cell])
    out.print("Next:")
    for command in commands:
        out.print(
            f"  {shlex.join([*command, *where])}", highlight=False, soft_wrap=True, markup=False
        )


def _show_evaluation(entry: dict[str, float]) -> None:
    scores = [
        f"{k} {v:.4f}"
        for k, v in entry.items()
        if k in ("train_loss", "val_accuracy", "test_accuracy", "val_mse", "test_mse")
    ]
    say(f"round {entry['round']:4d}  " + "  ".join(scores))


def _cell(value: Any) -> str:
    from suite.catalog import hyperparameter

    if isinstance(value, dict):
        return "\n".join(hyperparameter(name, given) for name, given in value.items())
    if isinstance(value, bool):
        return "yes" if value else ""
    return ", ".join(value) if isinstance(value, list) else str(value)
