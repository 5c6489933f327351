"""The plain install: the first commands that people type, one fresh process a line."""

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from suite.cli.app import app
from tests.support.installed import Installed
from trials.algorithms import ALGORITHMS

pytestmark = pytest.mark.cold

MODELS = ("logreg", "mlp(16)", "mcmahan_cnn")
ALL = """
import suite
from trials.algorithms import ALGORITHMS

for at, name in enumerate(ALGORITHMS):
    model = ("logreg", "mlp(16)")[at % 2]
    done = suite.run(name, dataset="digits", model=model, settings={"rounds": 1})
    assert len(done.history) == 2, (name, done)
    print(name)
"""


def _names(command: Any, path: str = "") -> list[str]:
    inner = getattr(command, "commands", {})
    return [path] + [
        n for name, one in inner.items() for n in _names(one, f"{path} {name}".strip())
    ]


def test_what_is_installed_is_the_wheel(plain: Installed, tmp_path: Path):
    where = plain.types("python -c 'import suite, trials; print(suite.__file__)'", tmp_path)
    assert where.startswith(str(plain.folder))
    assert plain.types("python -c 'import numba' 2>/dev/null || echo none", tmp_path) == "none\n"


@pytest.mark.parametrize(("model", "rounds"), zip(MODELS, (1, 2, 3), strict=True))
def test_the_first_command(model, rounds, plain: Installed, tmp_path: Path):
    line = f"suite run --algorithm fedavg --dataset digits --model '{model}' --set rounds={rounds}"
    assert f"finished after {rounds} round{'s' * (rounds > 1)}, " in plain.types(line, tmp_path)


def test_every_algorithm(plain: Installed, tmp_path: Path):
    """In one process, which imports what they share once."""
    (tmp_path / "all.py").write_text(ALL)
    assert plain.types("python all.py", tmp_path).split() == list(ALGORITHMS)


def test_help_of_every_command(plain: Installed, tmp_path: Path):
    for command in _names(get_command(app)):
        assert "Usage" in plain.types(f"suite {command} --help", tmp_path)
