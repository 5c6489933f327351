"""What an algorithm's file gives and raises: its hook and its file are named, and nothing ends the process."""

from pathlib import Path

import pytest

from trials.common.errors import UserError
from trials.common.plugins import failure
from trials.run.spec import Scenario, canonical
from trials.run.trial import run
from trials.settings import Settings

FILE = """
from dataclasses import dataclass
from trials.algorithm import choice
from trials.algorithms.fedavg import FedAvg

class Unspeakable(Exception):
    def __str__(self):
        raise ValueError

@dataclass(frozen=True)
class Mine(FedAvg):
"""
GIVEN = {
    "init": "return None",
    "round": "return None",
    "scored": "return [state['w']]",
    "measured": "return 1.0",
    "personal": "return 3",
}
RAISED = ["StopIteration", "GeneratorExit", "SystemExit(0)", "Unspeakable"]


def mine(folder: Path, body: str) -> str:
    (folder / "mine.py").write_text(f"{FILE}    {body}\n")
    return f"{folder}/mine.py:Mine"


def begun(name: str) -> None:
    settings = Settings(rounds=1, clients=4, metric="personal")
    run(canonical(name, {}, Scenario("digits", "logreg", "iid"), settings, 0))


@pytest.mark.parametrize("hook", GIVEN)
def test_what_a_hook_gives_is_checked(tmp_path: Path, hook: str) -> None:
    name = mine(
        tmp_path, f"def {hook}(self, *given):\n        state = given[0]\n        {GIVEN[hook]}"
    )
    with pytest.raises(UserError, match=rf"mine\.py: Mine\.{hook}\(\) gives "):
        begun(name)


@pytest.mark.parametrize("fault", RAISED)
def test_what_a_hook_raises_is_an_error_of_its_file(tmp_path: Path, fault: str) -> None:
    name = mine(tmp_path, f"def round(self, *given):\n        raise {fault}")
    with pytest.raises(Exception) as raised:  # noqa: PT011
        begun(name)
    assert str(failure(raised.value)).startswith(f"{tmp_path}/mine.py failed: ")


@pytest.mark.parametrize(
    "body",
    [
        "widths: tuple = choice((64, 64), ((64, 64), (128, 32)))",
        "def measured(self, *given):\n        return {'acc@5 (%)': 1.0}",
        "k: str = choice('\\ud800', ('\\ud800', 'b'))",
        "rounds: int = choice(1, (1, 2))",
        "def measured(self, *given):\n        return {'round_seconds': 1.0}",
        *(
            f"def measured(self, *given):\n        return {{{entry}}}"
            for entry in ("'accuracy5': 'high'", "1: 1.0", "'test_accuracy': 1.0", "'round': 1.0")
        ),
    ],
)
def test_what_could_not_be_recorded_is_refused_before_the_first_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    monkeypatch.setattr("trials.engine.federation.Federation.begin", lambda *given: 1 / 0)
    with pytest.raises(UserError, match=r"mine\.py"):
        begun(mine(tmp_path, body))


def test_modules_that_lie_beside_a_file_are_found(tmp_path: Path) -> None:
    (tmp_path / "beside_mine.py").write_text("LATER = 1\n")
    name = mine(
        tmp_path,
        "from beside_mine import LATER\n\n    def init(self, fed):\n        import beside_mine\n        return super().init(fed)",
    )
    begun(name)
