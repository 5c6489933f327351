"""`suite bench`: what the suite costs on this machine."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from reports.terminal import Column, Kind
from suite.cli.options import RUNS, DataRoot, Json, MaxConcurrent, Storage
from suite.console import emit, out, show_table
from trials.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Measure what the suite costs on this machine.")

Runs = Annotated[int, typer.Option(min=1, help="How often each is measured; medians are shown.")]
Seconds = Annotated[float, typer.Option(min=0, help="How long each time, at least.")]
Plot = Annotated[Path | None, typer.Option(help="Picture to write: .svg, .png or .pdf.")]


@app.command("sweep", epilog="Example: suite bench sweep --study smoke")
def sweep(
    study: Annotated[str, typer.Option(help="The study to measure.")] = "quickstart",
    max_concurrent: MaxConcurrent = None,
    parallel: Annotated[
        bool, typer.Option("--parallel", help="Two trials at once against one, instead.")
    ] = False,
    pack: Annotated[
        bool, typer.Option("--pack", help="With packs (auto) against without, instead.")
    ] = False,
    turns: Annotated[
        int | None, typer.Option(min=1, help="With --pack: how often each runs; default 3.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Trials per minute of a sweep, against the same trials as a plain Tune function trainable."""
    from suite.bench import sweeps as bench
    from suite.execution.resources import Resources

    if parallel and (pack or max_concurrent is not None):
        raise UserError("--parallel: goes without --pack and --max-concurrent")
    if turns is not None and not pack:
        raise UserError("--turns: goes with --pack")
    if parallel:
        found = bench.parallel(study)
        if as_json:
            emit(found)
        else:
            out().print(
                f"{found['study']}, {found['trials']} trials: {found['trials_per_minute_1']:g} trials/min "
                f"one at a time, {found['trials_per_minute_2']:g} two at a time; ratio {found['ratio']:g}",
                highlight=False,
            )
        return
    if pack:
        found = bench.packed(study, Resources(max_concurrent=max_concurrent), turns or 3)
        if as_json:
            emit(found)
        else:
            out().print(
                f"{found['study']}, {found['trials']} trials: {found['trials_per_minute_packed']:g} "
                f"trials/min packed, {found['trials_per_minute_alone']:g} alone, from the first trial's "
                f"start; ratio {found['ratio']:g}. Whole sweeps take {found['seconds_packed']:g} and "
                f"{found['seconds_alone']:g} s",
                highlight=False,
                soft_wrap=True,
            )
        return
    found = bench.sweep(study, Resources(max_concurrent=max_concurrent))
    if as_json:
        emit(found)
    else:
        out().print(
            f"{found['study']}: {found['trials_per_minute']:g} trials/min over {found['trials']} trials "
            f"(recorded in MLflow); plain Tune function trainable: {found['plain_trials_per_minute']:g} "
            f"over {found['plain_trials']}; ratio {found['ratio']:g}",
            highlight=False,
        )


@app.command(
    "memory",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Example: suite bench memory smoke --datasets mnist --max-concurrent 2",
)
def memory(
    context: typer.Context,
    study: Annotated[str, typer.Argument(help="The study to measure.")] = "quickstart",
    as_json: Json = False,
) -> None:
    """Peak memory of a sweep, all its processes together (Linux); other options are the sweep's."""
    from suite.bench import sweeps as bench

    found = bench.memory(study, context.args)
    if as_json:
        emit(found)
    else:
        out().print(f"{found['study']}: {found['peak_bytes'] / 1e6:,.0f} MB at the peak")


@app.command("watch", epilog="Example: suite bench watch --study smoke --runs 3")
def watch(
    study: Annotated[str, typer.Option(help="The study to sweep.")] = "quickstart",
    runs: Annotated[int, typer.Option(min=1, help="Pairs of sweeps, alone and watched.")] = 3,
    as_json: Json = False,
) -> None:
    """What it costs a sweep that a page watches it: seconds watched over seconds alone."""
    from suite.bench.watched import watched

    found = watched(study, runs)
    if as_json:
        emit(found)
        return
    rows = [
        [str(i), *(f"{value:g}" for value in pair.values())]
        for i, pair in enumerate(found["pairs"], 1)
    ]
    heads = ["pair", "seconds alone", "watched", "ratio", "server's processor seconds"]
    heads += ["looks", "with news", "MB sent"]
    _table(f"{found['study']}, watched over alone: {found['ratio']:.3f} (median)", heads, rows)


@app.command(
    "engine", epilog="Example: suite bench engine --workloads 784-10,cnn --plot engine.svg"
)
def engine(
    workloads: Annotated[str, typer.Option(help="Which ones, with commas between.")] = "all",
    peers: Annotated[
        str | None,
        typer.Option(help="fedjax, flwr, pfl, fedlab; or none. Default: all, none on cuda."),
    ] = None,
    peer_python: Annotated[
        str, typer.Option(help="The interpreter that has the peers, see benchmarks/README.md.")
    ] = sys.executable,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    executions: Annotated[
        str | None,
        typer.Option(help="compiled, batched, sequential. Default: none apart, all on cuda."),
    ] = None,
    runs: Runs = 5,
    seconds: Seconds = 1.0,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Local steps a second: the suite, a hand-written PyTorch loop, and installed peers."""
    from suite.bench import engine, plots

    plots.check(plot)
    plan = engine.Plan(
        _names(workloads, tuple(engine.WORKLOADS)),
        _names(peers or ("none" if device == "cuda" else "all"), engine.PEERS),
        peer_python,
        runs,
        seconds,
        device,
        _names(executions or ("all" if device == "cuda" else "none"), engine.EXECUTIONS),
    )
    found = engine.measure(plan)
    if plot is not None:
        plots.engine(found, plot)
    if as_json:
        emit(found)
        return
    rows = []
    for one in found["workloads"]:
        rows += [
            [
                one["workload"],
                row["system"],
                _short(row["steps_per_second"]),
                _short(row["samples_per_second"]),
                f"{row['ours_is_faster']:.2f}",
                f"{row['share_of_limit']:.2%}",
                f"{row['peak_bytes'] / 1e6:,.0f}",
            ]
            for row in one["systems"]
        ]
        rows += [[one["workload"], name, why] for name, why in one["failed"].items()]
        if (two := one["two_at_once"]) is not None:
            rate, ratio = _short(two["steps_per_second"]), f"{1 / two['ratio_to_one']:.2f}"
            rows.append([one["workload"], "two of ours", rate, "", ratio])
    rows += [["", name, "not installed"] for name in found["not_installed"]]
    heads = ["workload", "system", "steps/s", "samples/s", "ours / it", "of the limit", "peak MB"]
    _table("Medians, one thread each", heads, rows, words=2)


@app.command("latency", epilog="Example: suite bench latency --runs 1")
def latency(
    study: Annotated[str, typer.Option(help="The study to sweep and read.")] = "quickstart",
    runs: Runs = 5,
    as_json: Json = False,
) -> None:
    """Seconds that commands take from a cold process, beside imports, and what they may take."""
    from suite.bench.latency import latency

    found = latency(study, runs)
    if as_json:
        emit(found)
        return
    rows = [
        [
            row["command"],
            f"{row['seconds']:.2f}",
            f"{row['fastest']:.2f} to {row['slowest']:.2f}",
            "" if row["budget"] is None else f"{row['budget']:g}",
            {None: "", True: "yes", False: "no"}[row["met"]],
        ]
        for row in found["commands"]
    ]
    heads = ["command", "seconds", "range", "budget", "met"]
    _table(f"Cold processes, medians of {runs}", heads, rows)


@app.command("algorithms", epilog="Example: suite bench algorithms --json")
def algorithms(runs: Runs = 51, seconds: Seconds = 0.0, as_json: Json = False) -> None:
    """What a round of each algorithm costs, as a ratio to FedAvg's (logistic regression, 784-10)."""
    from suite.bench import scaling

    found = scaling.algorithms(runs, seconds)
    if as_json:
        emit(found)
        return
    rows = [
        [
            row["algorithm"],
            f"{1000 * row['seconds_a_round']:.2f}",
            f"{row['ratio']:.2f}",
            f"{row['ratio_of_sample_gradients']:.2f}",
        ]
        for row in found["algorithms"]
    ]
    rows += [[name, why] for name, why in found["skipped"].items()]
    heads = ["algorithm", "ms a round", "ratio to fedavg", "ratio of sample gradients"]
    _table("Cost of a round at 784-10", heads, rows)


@app.command("scaling", epilog="Example: suite bench scaling --plot scaling.svg")
def scaling(
    runs: Runs = 3,
    seconds: Seconds = 0.5,
    most: Annotated[int, typer.Option(min=100, help="Leave out points beyond this.")] = 10**7,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """How the time of a round grows with clients a round, clients in all, and weights."""
    from suite.bench import plots, scaling

    plots.check(plot)
    found = scaling.scaling(runs, seconds, most)
    if plot is not None:
        plots.scaling(found, plot)
    if as_json:
        emit(found)
        return
    rows = [
        [one["axis"], line["model"], f"{x:,}", f"{1000 * time:,.2f}", f"{slope:.2f}" if i else ""]
        for one in found["axes"]
        for line in one["lines"]
        for i, (x, time, slope) in enumerate(
            zip(one["points"], line["seconds_a_round"], [0.0, *line["slopes"]], strict=False)
        )
    ]
    heads = ["what grows", "model", "to", "ms a round", "slope (1: in proportion)"]
    _table("Time of a round", heads, rows, words=2)


@app.command("replication", epilog="Example: suite bench replication --tunings 16 --board 5")
def replication(
    tunings: Annotated[int, typer.Option(min=3, help="How often every method is tuned.")] = 16,
    board: Annotated[int, typer.Option(help="Tunings of a board whose intervals are asked.")] = 5,
    algorithms: Annotated[str | None, typer.Option(help="Comma-separated; default: 17.")] = None,
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """Tune digits iid many times: how often intervals of few tunings hold a method's mean."""
    from suite.bench.replication import replication

    listed = None if algorithms is None else [name.strip() for name in algorithms.split(",")]
    found = replication(storage, tunings, board, listed)
    if as_json:
        emit(found)
        return
    rows = [
        [
            row["algorithm"],
            f"{row['mean']:.4f}",
            f"{row['by_tuning']:.4f}",
            f"{row['by_seed']:.4f}",
            f"{row['covered']:.0%}",
            f"{row['covered_by_seeds']:.0%}",
        ]
        for row in found["methods"]
    ]
    heads = ["method", "mean", "sd by tuning", "sd by seed", "held", "held by seeds alone"]
    title = f"{found['cell']}: means over {tunings} tunings, held by intervals over {board}"
    _table(title, heads, rows)


@app.command("ranges", epilog="Example: suite bench ranges --study board_linear --trials 256")
def ranges(
    study: Annotated[str, typer.Option(help="The study whose ranges are checked.")] = "quickstart",
    trials: Annotated[int, typer.Option(min=10, help="Random trials of every entry.")] = 256,
    algorithms: Annotated[str | None, typer.Option(help="Comma-separated.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Comma-separated.")] = None,
    heterogeneity: Annotated[str | None, typer.Option(help="Comma-separated levels.")] = None,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Where the best of many random trials lie in their ranges; exit code 1 where an end cuts them off."""
    from suite.bench.ranges import ranges
    from trials.names import split_top

    lists = {"algorithms": algorithms, "datasets": datasets, "heterogeneity": heterogeneity}
    changes = {key: split_top(text, ",") for key, text in lists.items() if text is not None}
    found = ranges(storage, study, trials, changes, data_root)
    if as_json:
        emit(found)
    else:
        rows = [
            [
                one["name"],
                crowd["name"],
                f"{crowd['winner']:.4g}",
                f"{crowd['low']:.0%}",
                f"{crowd['high']:.0%}",
                crowd["end"] + " (cut)" * crowd["cut"] if crowd["end"] else "inside",
            ]
            for one in found["entries"]
            for crowd in one["crowds"]
        ]
        heads = ["entry", "hyperparameter", "winner", "at low end", "at high end", "winner is"]
        _table(f"{found['study']}: best tenth of {trials} random trials", heads, rows, words=2)
    if found["cut"]:
        raise typer.Exit(1)


@app.command("stopping", epilog="Example: suite bench stopping --name board_linear-ranges")
def stopping(
    name: Annotated[str, typer.Option(help="A finished sweep that stopped no trial.")],
    orders: Annotated[int, typer.Option(min=1, help="Shuffled orders of each search.")] = 20,
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """What each scheduler would have spared a sweep, and cost it: its recorded curves played again."""
    from suite.bench.stopping import stopping

    found = stopping(storage, name, orders)
    if as_json:
        emit(found)
        return
    rows = [
        [
            row["scheduler"],
            row["search"],
            *(
                f"{row[key]['mean']:.3f} ({row[key]['low']:.3f} to {row[key]['high']:.3f})"
                for key in ("share", "regret", "plain")
            ),
        ]
        for row in found["searches"]
    ]
    heads = ["scheduler", "search", "share of rounds", "regret", "regret of fewer trials"]
    _table(f"{name}: means and 90 % bands over {orders} orders", heads, rows, words=2)
    rows = [
        [
            row["scheduler"],
            *(f"{row[key]:.4f}" for key in ("share", "regret", "plain", "gain")),
            "" if row["gain_low"] is None else f"{row['gain_low']:.4f} to {row['gain_high']:.4f}",
            f"{row['worst']:.4f}",
        ]
        for row in found["schedulers"]
    ]
    heads = ["scheduler", "share of rounds", "regret", "regret of fewer trials", "gain"]
    heads += ["95 % over searches", "worst search"]
    _table(f"Means over {found['schedulers'][0]['searches']} searches", heads, rows)


def _names(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Names with commas between; `all` and `none` are what they say."""
    if text in ("all", "none"):
        return known if text == "all" else ()
    return tuple(name.strip() for name in text.split(","))


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _table(title: str, heads: list[str], rows: list[list[Any]], words: int = 1) -> None:
    """Print a table whose first `words` columns are words and the others numbers; short rows end early."""
    kinds = [Kind.WORDS if i < words else Kind.NUMBER for i in range(len(heads))]
    columns = list(map(Column, heads, kinds))
    whole = [[*row, *[""] * (len(heads) - len(row))] for row in rows]
    show_table(columns, whole, title=title)
