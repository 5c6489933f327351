"""`suite new` and `suite check`: an algorithm of one's own."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reports.terminal import Column, ColumnKind
from suite.cli.options import Json, folder
from suite.console import emit, out, program, say, show_table
from trials.common.errors import UserError

if TYPE_CHECKING:
    from suite.authoring.check import CheckFinding

app = typer.Typer()
new = typer.Typer(no_args_is_help=True, help="Files to start from.")
app.add_typer(new, name="new")


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


@app.command(epilog="Example: suite check slowmo.py --reduces-to fedavg --set beta=0")
def check(
    file: Annotated[str, typer.Argument(help="FILE.py, or FILE.py:Class; or an algorithm's name.")],
    assign: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE: a hyperparameter.")
    ] = None,
    reduces_to: Annotated[
        str | None, typer.Option(help="With --set: a method it is then equal to, to the bit.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run two rounds of an algorithm on three models and compare executions, shapes, state and counted
    bytes. Exit code 1 where something is wrong.
    """
    say(f"reading {file}")
    from suite.authoring.check import check as checked
    from suite.yaml_files import assigned
    from trials import algorithms

    names = [f"{file}:{each}" for each in algorithms.in_file(file)] if file.endswith(".py") else []
    params = dict(assigned(text) for text in assign or [])
    found: list[CheckFinding] = []
    for name in names or [file]:
        cls = algorithms.resolve(name)
        if unknown := params.keys() - cls.ranges():
            raise UserError(
                f"--set {unknown.pop()}: {algorithms.label(name)} has {', '.join(cls.ranges())}"
            )
        mine = list(checked(name, params, reduces_to))
        found += mine
        if not as_json:
            _show(algorithms.label(name), mine)
    if as_json:
        emit({"passed": all(one.ok for one in found), "checks": [vars(one) for one in found]})
    raise typer.Exit(0 if all(one.ok for one in found) else 1)


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
        out().print(text, markup=False, highlight=False, soft_wrap=True)


def _mark(one: "CheckFinding | None") -> str:
    if one is None:
        return ""
    return one.detail if one.ok else "wrong"
