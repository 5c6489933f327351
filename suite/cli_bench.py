"""`suite bench`: what the suite costs on this machine."""

from typing import Annotated

import typer
from rich.console import Console

from suite.console import Json, emit

app = typer.Typer(no_args_is_help=True, help="Measure what the suite costs on this machine.")


@app.command("sweep", epilog="Example: suite bench sweep --study smoke")
def sweep(
    study: Annotated[str, typer.Option(help="The study to measure.")] = "quickstart",
    max_concurrent: Annotated[int | None, typer.Option(min=1)] = None,
    as_json: Json = False,
) -> None:
    """Trials per minute of a sweep, against the same trials as a plain Tune function trainable."""
    from suite import bench
    from suite.cluster import Resources

    found = bench.sweep(study, Resources(max_concurrent=max_concurrent))
    if as_json:
        emit(found)
    else:
        Console().print(
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
    from suite import bench

    found = bench.memory(study, context.args)
    if as_json:
        emit(found)
    else:
        Console().print(f"{found['study']}: {found['peak_bytes'] / 1e6:,.0f} MB at the peak")
