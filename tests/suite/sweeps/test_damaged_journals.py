"""Journals that are damaged or cut: the line is named, and what is left goes on, each trial with one run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.status import status
from suite.sweeps.sweep import Sweep
from suite.tracking.store import Store
from tests.support.commands import fault, runs_of, suite_here
from tests.support.foreign import little, play, swept
from trials.common.errors import UserError

Lines = list[bytes]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with a sweep of three search trials and a final run, all over."""
    return swept(tmp_path_factory.mktemp("sound"), trials=3).storage


@pytest.fixture
def place(sound: Path, tmp_path: Path) -> SweepPaths:
    """A copy of it."""
    shutil.copytree(sound, tmp_path / "runs")
    return SweepPaths(tmp_path / "runs", "s")


def without(lines: Lines, number: int) -> Lines:
    """The lines but for one, counted from 1."""
    return lines[: number - 1] + lines[number:]


FORMS: dict[str, tuple[Callable[[Lines], Lines], int]] = {
    "text": (lambda x: [*x[:2], b"soup", *x[3:]], 3),
    "half a line": (lambda x: [*x[:3], x[3][:40], *x[4:]], 4),
    "a field more": (lambda x: [x[0], x[1][:-1] + b',"later":1}', *x[2:]], 2),
    "a lost request": (lambda x: without(x, 2), 3),
    "a lost curve": (lambda x: without(x, 3), 3),
    "a lost trial": (lambda x: [line for line in x if b"-s0000" not in line], 2),
    "a request twice": (lambda x: [*x[:2], *x[1:]], 3),
    "an end twice": (lambda x: [*x[:4], *x[3:]], 5),
}
"""What is done to the lines, which are begin, request, curve, end, ..., and which is the first that cannot be there."""


def damage(place: SweepPaths, change: Callable[[Lines], Lines]) -> None:
    lines = change(place.journal.read_bytes().splitlines())
    place.journal.write_bytes(b"".join(line + b"\n" for line in lines))


def named(place: SweepPaths) -> int:
    """The first line that cannot be there; 0 where all can."""
    try:
        status(place.storage, "s")
    except UserError as error:
        return int(str(error).partition(f"{place.journal}, line ")[2].split(":")[0])
    return 0


@pytest.mark.parametrize("form", FORMS)
def test_the_line_is_named(place: SweepPaths, form: str) -> None:
    change, number = FORMS[form]
    damage(place, change)
    assert named(place) == number


def test_the_commands_say_it_and_status_shows_the_other_sweeps(place: SweepPaths) -> None:
    here = place.storage.parent
    shutil.copytree(place.folder, place.storage / "other")
    damage(place, FORMS["text"][0])
    (here / "mine.yaml").write_text(json.dumps(little(trials=3).model_dump(mode="json")))
    for command in (("status", "s"), ("sweep", "mine.yaml", "--name", "s", "--resume")):
        assert "journal runs/s/journal.jsonl, line 3: " in fault(
            suite_here(*command, cwd=here, code=2)
        )
    every = suite_here("status", cwd=here)
    assert "sweep s is left out: journal" in every.stderr
    assert every.stdout.startswith("other: 4/4 runs (4 finished)")


def numbers(place: SweepPaths) -> dict[str, dict[str, float]]:
    """The recorded metrics of each trial, which has one run; times left out."""
    runs = [run for run in runs_of(Store(None, place.storage), sweep="s") if "trial_id" in run.tags]
    assert len(runs) == len({run.tags["trial_id"] for run in runs}) == 4
    return {
        run.tags["trial_id"]: {k: v for k, v in run.metrics.items() if not k.endswith("_seconds")}
        for run in runs
    }


@pytest.mark.parametrize(
    "change", [lambda x: without(x, 2), lambda x: x[: len(x) // 2]], ids=["a line", "half"]
)
def test_what_is_lost_runs_again_in_the_place_of_its_former_run(
    place: SweepPaths, change: Callable[[Lines], Lines]
) -> None:
    """Without the lines that are named."""
    before = numbers(place)
    damage(place, change)
    while number := named(place):
        damage(place, lambda lines, n=number: without(lines, n))
    assert play(Sweep("s", little(trials=3), place, resume=True)).ending == ""
    seen = status(place.storage, "s")
    assert (seen["ended"], seen["recorded"], seen["finished"]) == (4, 4, 4)
    assert numbers(place) == before
    assert len(runs_of(Store(None, place.storage), kind="leaderboard")) == 1
