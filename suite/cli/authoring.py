"""`suite new` and `check`: an algorithm of one's own; `suite doctor`: whether a sweep works here."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from reports.table import Column, ColumnKind
from suite.cli.options import PLAIN, RUNS, Assign, DataRoot, Json, Storage, Tracking, folder
from suite.console import emit, out, program, say, show_table
from trials.common.errors import UserError

if TYPE_CHECKING:
    from suite.testing.algorithms import CheckFinding

new = typer.Typer(
    no_args_is_help=True, help="Start an algorithm of your own: its file and its test."
)


@new.command("algorithm", epilog="Example: suite new algorithm SlowMo")
def new_algorithm(
    name: Annotated[str, typer.Argument(help="Its class: SlowMo is written to slowmo.py.")],
    where: Annotated[
        Path, typer.Option("--folder", callback=folder, help="Where to write it.")
    ] = Path(),
    as_json: Json = False,
) -> None:
    """Write a commented algorithm that works, and its test."""
    from suite.authoring.new import new_algorithm

    made = new_algorithm(name, where)
    if as_json:
        emit([str(path) for path in made])
        return
    file, test = made
    say(f"Wrote {file} and {test}. Next:")
    for line in (
        [program(), "check", str(file), "--reduces-to", "fedavg", "--set", "beta=0"],
        [
            program(),
            "sweep",
            "quickstart",
            "--algorithms",
            f"fedavg,{file}:{name}",
            "--name",
            file.stem,
        ],
    ):
        say(f"  {shlex.join(line)}")
    say(
        f"Its test, {test}, runs with pytest (pip install pytest): python -m pytest {shlex.quote(str(test))}"
    )


def check(
    file: Annotated[str, typer.Argument(help="FILE.py, FILE.py:Class, or a name of `suite list`.")],
    assign: Assign = None,
    reduces_to: Annotated[
        str | None, typer.Option(help="With --set: a method that it must equal to the bit.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="The data set to check a model on. Default: digits.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check your own algorithm, model, data set or other plug-in.

    An algorithm runs two rounds on three models; executions, shapes, state and counted bytes are compared.
    --set takes its hyperparameters. Exit code 1 if something is wrong.
    """
    say(f"reading {file}")
    from suite.testing.kinds import ALGORITHM, defined, finding, kind_of
    from suite.yaml_files import assignments

    params = assignments(assign or ())
    found: list[CheckFinding] = []
    for kind, name in defined(file) if file.endswith(".py") else [(kind_of(file), file)]:
        if kind == ALGORITHM and dataset is None:
            found += _algorithm(name, params, reduces_to, as_json)
            continue
        found.append(one := finding(kind, name, dataset))
        if not as_json:
            out().print(f"{one.check}: {'' if one.ok else 'wrong: '}{one.detail}", **PLAIN)
    if as_json:
        emit({"passed": all(one.ok for one in found), "checks": [vars(one) for one in found]})
    raise typer.Exit(0 if all(one.ok for one in found) else 1)


def _algorithm(
    name: str, params: dict[str, Any], reduces_to: str | None, as_json: bool
) -> list["CheckFinding"]:
    from suite.testing.algorithms import checks
    from trials import algorithms

    cls = algorithms.resolve(name)
    if unknown := params.keys() - cls.ranges():
        raise UserError(
            f"--set {unknown.pop()}: {algorithms.label(name)} has {', '.join(cls.ranges())}"
        )
    found = list(checks(name, params, reduces_to))
    if not as_json:
        _show(algorithms.label(name), found)
    return found


def _show(label: str, found: Sequence["CheckFinding"]) -> None:
    """A row a check, a column a model; what is wrong once below."""
    models = list(dict.fromkeys(one.model for one in found))
    rows = []
    for what in dict.fromkeys(one.check for one in found):
        row = {one.model: one for one in found if one.check == what}
        rows.append([what, *(_mark(row.get(model)) for model in models)])
    columns = [Column(head, ColumnKind.WORDS) for head in ("", *models)]
    title = f"{label}: two rounds of digits"
    show_table(columns, rows, title=title)
    wrong: dict[tuple[str, str], list[str]] = {}
    for one in found:
        if not one.ok:
            wrong.setdefault((one.check, one.detail), []).append(one.model)
    for (what, detail), where in wrong.items():
        text = f"{what} ({', '.join(where)}): {detail}"
        out().print(text, **PLAIN)


def _mark(one: "CheckFinding | None") -> str:
    if one is None:
        return ""
    return one.detail if one.ok else "wrong"


def doctor(
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Check that everything a sweep needs works here.

    Exit code 1 if something does not.
    """
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
