"""`suite doctor`: whether everything that a sweep needs works here."""

import typer
from rich.console import Console
from rich.markup import escape

from suite.cli.options import RUNS, DataRoot, Json, Storage, Tracking
from suite.console import emit

app = typer.Typer()


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
