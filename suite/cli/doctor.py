"""`suite doctor`: whether everything that a sweep needs works here."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from suite.cli.options import RUNS, DataRoot, Json, Storage, Tracking
from suite.console import emit, out

app = typer.Typer()


@app.command()
def doctor(
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    gpu: Annotated[
        bool,
        typer.Option("--gpu", help="Instead: whether this machine's GPU computes as a CPU does."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check that everything a sweep needs works here. Exit code 1 if something does not."""
    if gpu:
        _gpu(as_json)
        return
    from suite.doctor import examine

    checks = examine(storage, tracking_uri, data_root)
    if as_json:
        emit([vars(check) for check in checks])
    else:
        for check in checks:
            mark = "[green]ok[/green]  " if check.ok else "[red]FAIL[/red]"
            out().print(
                f"{mark} {check.name}: {escape(check.detail)}", highlight=False, soft_wrap=True
            )
            if not check.ok and check.remedy:
                out().print(f"     {check.remedy}", highlight=False)
    raise typer.Exit(0 if all(check.ok for check in checks) else 1)


def _gpu(as_json: bool) -> None:
    """Each check as it ends, with its seconds and its table."""
    from suite.gpu_doctor import examine

    found = []
    for check in examine():
        found.append(check)
        if as_json:
            continue
        mark = "ok  " if check.ok else "FAIL"
        lines = [f"{mark} {check.name}: {check.detail} ({check.seconds:.0f} s)"]
        lines += ["     " + "  ".join(map(str, row.values())) for row in check.table]
        out().print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    if as_json:
        emit([asdict(check) for check in found])
    raise typer.Exit(0 if all(check.ok for check in found) else 1)
