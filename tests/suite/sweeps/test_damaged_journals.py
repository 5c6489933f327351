"""Journals that are damaged, shuffled, doubled, another's or cut: the line is named, and what is left goes on, each trial
with one run.
"""

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


def changed(part: str = "", **fields: object) -> Callable[[bytes], bytes]:
    """A line with other fields, of one of its parts where that is named."""

    def change(line: bytes) -> bytes:
        event = json.loads(line)
        event = {**event, part: {**event[part], **fields}} if part else {**event, **fields}
        return json.dumps(event, separators=(",", ":")).encode()

    return change


def at(number: int, change: Callable[[bytes], bytes]) -> Callable[[Lines], Lines]:
    """The lines with one, counted from 1, replaced."""
    return lambda lines: [change(x) if n == number else x for n, x in enumerate(lines, 1)]


FORMS: dict[str, tuple[Callable[[Lines], Lines], int]] = {
    "text": (at(3, lambda _: b"soup"), 3),
    "half a line": (at(4, lambda line: line[:40]), 4),
    "a field more": (at(2, changed(later=1)), 2),
    "another status": (at(4, changed("outcome", status="teleported")), 4),
    "a lost ask": (lambda x: [x[0], *x[2:]], 3),
    "a lost curve": (lambda x: [*x[:2], *x[3:]], 3),
    "a lost trial": (lambda x: [line for line in x if b"-s0000" not in line], 2),
    "a request twice": (lambda x: [*x[:2], *x[1:]], 3),
    "an end twice": (lambda x: [*x[:4], *x[3:]], 5),
    "another index": (at(2, changed("request", index=1)), 2),
    "another entry's": (at(2, changed("request", entry_id="elsewhere")), 2),
}
"""What is done to the lines, which are begin, request, curve, end, ..., and which is the first that cannot be there."""


def damage(place: SweepPaths, change: Callable[[Lines], Lines]) -> None:
    lines = change(place.journal.read_bytes().splitlines())
    place.journal.write_bytes(b"".join(line + b"\n" for line in lines))


@pytest.mark.parametrize("form", FORMS)
def test_the_line_is_named(place: SweepPaths, form: str) -> None:
    change, number = FORMS[form]
    damage(place, change)
    assert f"{place.journal}, line {number}: " in named(place)


def test_the_commands_say_it_and_status_shows_the_other_sweeps(place: SweepPaths) -> None:
    here = place.storage.parent
    shutil.copytree(place.folder, place.storage / "other")
    damage(place, at(3, lambda _: b"soup"))
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
    assert len(runs) == len({run.tags["trial_id"] for run in runs})
    return {
        run.tags["trial_id"]: {k: v for k, v in run.metrics.items() if not k.endswith("_seconds")}
        for run in runs
    }


def named(place: SweepPaths) -> str:
    """What is said of the first line that cannot be there; "" where all can."""
    try:
        status(place.storage, "s")
    except UserError as error:
        return str(error)
    return ""


def test_without_the_named_lines_what_is_lost_runs_again(place: SweepPaths) -> None:
    before = numbers(place)
    damage(place, lambda x: [*x[:1], *x[2:]])
    while said := named(place):
        number = int(said.split("line ")[1].split(":")[0])
        damage(place, lambda lines, n=number: lines[: n - 1] + lines[n:])
    assert play(Sweep("s", little(trials=3), place, resume=True)).ending == ""
    seen = status(place.storage, "s")
    assert (seen["ended"], seen["recorded"], seen["finished"]) == (4, 4, 4)
    assert numbers(place) == before


def test_what_runs_again_takes_the_place_of_the_former_run(place: SweepPaths) -> None:
    """The journal lost its second half."""
    before = numbers(place)
    damage(place, lambda lines: lines[: len(lines) // 2])
    play(Sweep("s", little(trials=3), place, resume=True))
    assert numbers(place) == before
