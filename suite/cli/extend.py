"""`suite new` and `check`: an algorithm of one's own."""

import shlex
from pathlib import Path
from typing import Any

import typer

from suite.cli.options import PLAIN, Assign, Json
from suite.console import emit, out, say
from trials.common.errors import UserError

new = typer.Typer(
    no_args_is_help=True, help="Start an algorithm of your own: its file and its test."
)


@new.command("algorithm", epilog="Example: suite new algorithm SlowMo")
def new_algorithm(
    name: str = typer.Argument(help="Its class: SlowMo is written to slowmo.py."),
) -> None:
    """Write a commented algorithm that works, and its test, into this folder."""
    from suite.authoring.new import new_algorithm

    class_name, file, test = new_algorithm(name, Path())
    own = f"fedavg,{file}:{class_name}"
    say(f"Wrote {file} and {test}. Next:")
    for words in (
        ["check", str(file), "--reduces-to", "fedavg", "--set", "beta=0"],
        ["sweep", "quickstart", "--algorithms", own, "--name", file.stem],
    ):
        say(f"  {shlex.join(['suite', *words])}")
    say(f"Its test runs with pytest (pip install pytest): python -m pytest {test}")


def check(
    file: str = typer.Argument(help="FILE.py, FILE.py:Class, or a name of `suite list`."),
    assign: Assign = None,
    reduces_to: str | None = typer.Option(None, help="A method that it must equal to the bit."),
    dataset: str | None = typer.Option(None, help="What to check a model on. Default: digits."),
    as_json: Json = False,
) -> None:
    """Check your own algorithm, model, data set or other plug-in.

    An algorithm runs two rounds on three models; executions, shapes, state and counted bytes are compared.
    --set takes its hyperparameters. Exit code 1 if something is wrong.
    """
    say(f"reading {file}")
    from suite.testing.algorithms import checks
    from suite.testing.parts import ALGORITHM, defined, finding, kind_of
    from suite.yaml_files import assignments
    from trials.algorithms import resolve

    params = assignments(assign or ())
    findings: list[Any] = []
    for kind, name in defined(file) if file.endswith(".py") else [(kind_of(file), file)]:
        if kind == ALGORITHM and dataset is None:
            for key in params.keys() - resolve(name).ranges():
                raise UserError(f"--set {key}: {name} has {', '.join(resolve(name).ranges())}")
            findings += checks(name, params, reduces_to)
        else:
            findings.append(finding(kind, name, dataset))
    passed = all(each.ok for each in findings)
    if as_json:
        emit({"passed": passed, "checks": [vars(each) for each in findings]})
    else:
        for each in findings:
            word, on = "ok   " if each.ok else "wrong", f" ({each.model})" if each.model else ""
            out().print(f"{word} {each.check}{on}: {each.detail}", **PLAIN)
    raise typer.Exit(0 if passed else 1)
