"""`suite new` and `check`: an algorithm of one's own."""

import shlex
from pathlib import Path

import typer

from suite.cli.options import PLAIN, Assign, Json
from suite.console import emit, out, say

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
    from suite.testing.parts import findings
    from suite.yaml_files import assignments

    found = list(findings(file, assignments(assign or ()), reduces_to, dataset))
    passed = all(finding.ok for finding in found)
    if as_json:
        emit({"passed": passed, "checks": [vars(finding) for finding in found]})
    else:
        for finding in found:
            word, on = "ok   " if finding.ok else "wrong", finding.model and f" ({finding.model})"
            out().print(f"{word} {finding.check}{on}: {finding.detail}", **PLAIN)
    raise typer.Exit(0 if passed else 1)
