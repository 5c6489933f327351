"""A fresh install: the first commands that people type, one fresh process a line."""

from pathlib import Path

import pytest

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


def test_what_is_installed_is_the_wheel(fresh: Installed, tmp_path: Path):
    where = fresh.types("python -c 'import suite, trials; print(suite.__file__)'", tmp_path)
    assert where.startswith(str(fresh.folder))


@pytest.mark.parametrize(("model", "rounds"), zip(MODELS, (1, 2, 3), strict=True))
def test_the_first_command(model, rounds, fresh: Installed, tmp_path: Path):
    line = f"suite run --algorithm fedavg --dataset digits --model '{model}' --set rounds={rounds}"
    assert f"finished after {rounds} round{'s' * (rounds > 1)}, " in fresh.types(line, tmp_path)


def test_every_algorithm(fresh: Installed, tmp_path: Path):
    """In one process, which imports what they share once."""
    (tmp_path / "all.py").write_text(ALL)
    assert fresh.types("python all.py", tmp_path).split() == list(ALGORITHMS)
