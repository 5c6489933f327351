"""`suite new` and `check`: an algorithm of one's own."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from suite.cli.options import PLAIN, Assign, Json
from suite.console import emit, out, program, say
from trials.common.errors import UserError

if TYPE_CHECKING:
    from suite.testing.algorithms import CheckFinding

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
        say(f"  {shlex.join([program(), *words])}")
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
    from suite.testing.kinds import ALGORITHM, defined, finding, kind_of
    from suite.yaml_files import assignments

    params = assignments(assign or ())
    findings: list[CheckFinding] = []
    for kind, name in defined(file) if file.endswith(".py") else [(kind_of(file), file)]:
        if kind == ALGORITHM and dataset is None:
            findings += _algorithm(name, params, reduces_to)
        else:
            findings.append(finding(kind, name, dataset))
    passed = all(each.ok for each in findings)
    if as_json:
        emit({"passed": passed, "checks": [vars(each) for each in findings]})
    else:
        _show(findings)
    raise typer.Exit(0 if passed else 1)


def _algorithm(name: str, params: dict[str, Any], reduces_to: str | None) -> "list[CheckFinding]":
    from suite.testing.algorithms import checks
    from trials import algorithms

    label, known = algorithms.label(name), algorithms.resolve(name).ranges()
    for key in params.keys() - known:
        raise UserError(f"--set {key}: {label} has {', '.join(known)}")
    say(f"two rounds of digits with {label}")
    return list(checks(name, params, reduces_to))


def _show(findings: "list[CheckFinding]") -> None:
    """Print a line for each thing that was found, with the models that it was found on."""
    models: dict[tuple[str, bool, str], list[str]] = {}
    for each in findings:
        models.setdefault((each.check, each.ok, each.detail), []).append(each.model)
    for (what, ok, detail), where in models.items():
        on = f" ({', '.join(where)})" if any(where) else ""
        out().print(f"{'ok   ' if ok else 'wrong'} {what}{on}: {detail}", **PLAIN)
