"""The options that several commands have: each is written once, with one meaning."""

from pathlib import Path
from typing import Annotated

import typer

RUNS = Path("runs")
"""Where the store and all sweeps are, unless a person says otherwise."""

Storage = Annotated[Path, typer.Option(help="Folder of the MLflow store and of all sweeps.")]
Tracking = Annotated[
    str | None, typer.Option(help="MLflow tracking server instead of the store's file.")
]
DataRoot = Annotated[str | None, typer.Option(help="Folder of data sets (or SUITE_DATA).")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]

SweepName = Annotated[str | None, typer.Option("--name", help="A sweep's name.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        help="TAG=VALUE: only such final runs (algorithm, dataset, paper, ...). May be repeated."
    ),
]
Only = Annotated[str | None, typer.Option(help="Only this one.")]
"""One of the names that narrow tuned configurations down."""

CpusPerTrial = Annotated[float, typer.Option(min=0.1)]
GpusPerTrial = Annotated[float, typer.Option(min=0.0, help="Fractions share one GPU.")]
MaxConcurrent = Annotated[
    int | None, typer.Option(min=1, help="Trials at once; default: what fits.")
]
MemoryBudget = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        help="GB for the clients that are computed at once; default: 2, or half of a GPU's.",
    ),
]
