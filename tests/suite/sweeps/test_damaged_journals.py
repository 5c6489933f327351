"""Journals that are damaged, shuffled, doubled, another's or a later version's: the line is said, and what
is left goes on.
"""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.status import status
from suite.sweeps.sweep import Sweep
from suite.tracking.store import Store
from tests.support.commands import fault, suite_here
from tests.support.foreign import little, play, swept
from trials.common.errors import UserError

Lines = list[bytes]
REST = ". It is damaged, or a later version of suite wrote it"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with a sweep of three search trials and a final run, all over."""
    return swept(tmp_path_factory.mktemp("sound"), trials=3).storage


@pytest.fixture
def place(sound: Path, tmp_path: Path) -> SweepPaths:
    """A copy of it."""
    shutil.copytree(sound, tmp_path / "runs")
    return SweepPaths(tmp_path / "runs", "s")


def changed(**fields: object) -> Callable[[bytes], bytes]:
    """A line with other fields; None takes one out."""

    def change(line: bytes) -> bytes:
        told = {**json.loads(line), **fields}
        return json.dumps({k: v for k, v in told.items() if v is not None}).encode()

    return change


def at(number: int, change: Callable[[bytes], bytes]) -> Callable[[Lines], Lines]:
    """The lines with one, counted from 1, replaced."""
    return lambda lines: [change(x) if n == number else x for n, x in enumerate(lines, 1)]


def is_no_event(name: str) -> str:
    return f"its fields are not those of the event {name!r}"


# Lines 1 to 5: begin, ask 0, end 0, ask 1, end 1; recorded events come when they come.
FORMS = {
    "text": (at(3, lambda _: b"soup"), 3, "it is no JSON object"),
    "a list": (at(3, lambda _: b"[1]"), 3, "it is no JSON object"),
    "a number": (at(3, lambda _: b"7"), 3, "it is no JSON object"),
    "an empty line": (at(3, lambda _: b""), 3, "it is no JSON object"),
    "half a line": (at(3, lambda line: line[:40]), 3, "it is no JSON object"),
    "other bytes": (at(3, lambda _: bytes(range(128, 200))), 3, "it is no JSON object"),
    "zeros": (at(3, lambda line: bytes(len(line))), 3, "it is no JSON object"),
    "deep": (at(3, lambda _: b"[" * 200_000), 3, "it is no JSON object"),
    "a long number": (at(3, lambda _: b"9" * 5000), 3, "it is no JSON object"),
    "two in one": (at(3, lambda line: line + line), 3, "it is no JSON object"),
    "no event": (at(3, lambda _: b"{}"), 3, "None is no event of this version of suite"),
    "another event": (
        at(3, changed(event="teleported")),
        3,
        "'teleported' is no event of this version of suite",
    ),
    "an event that is none": (
        at(3, changed(event=[])),
        3,
        "[] is no event of this version of suite",
    ),
    "a field more": (at(2, changed(later=1)), 2, is_no_event("request")),
    "a field less": (at(2, changed(params=None)), 2, is_no_event("request")),
    "params of another kind": (at(2, changed(params=[0.1])), 2, is_no_event("request")),
    "an index of another kind": (at(2, changed(index="first")), 2, is_no_event("request")),
    "another kind of trial": (at(2, changed(kind="dream")), 2, is_no_event("request")),
    "another status": (at(3, changed(status="teleported")), 3, is_no_event("end")),
    "a history of another kind": (at(3, changed(history=7)), 3, is_no_event("end")),
    "a round that is none": (at(3, changed(intermediates={"x": 1})), 3, is_no_event("end")),
    "no trial": (at(3, changed(trial_id=None)), 3, is_no_event("end")),
    "a study that is none": (at(1, changed(study=None)), 1, is_no_event("begin")),
    "a warm start that is none": (at(1, changed(warm=[1])), 1, is_no_event("begin")),
    "no beginning": (lambda x: x[1:], 1, "the sweep has not begun"),
    "begun elsewhere": (
        lambda x: [*x[:1], changed(id="elsewhere")(x[0]), *x[1:]],
        2,
        "it is of another sweep",
    ),
    "a lost ask": (lambda x: [*x[:1], *x[2:]], 2, "trial {} was not asked for"),
    "a request twice": (lambda x: [*x[:2], *x[1:]], 3, "trial {} was asked for before"),
    "an end twice": (lambda x: [*x[:3], *x[2:]], 4, "trial {} has ended before"),
    "doubled": (lambda x: x + x[1:], None, "trial {} was asked for before"),
    "an end before its ask": (
        lambda x: [x[0], x[2], x[1], *x[3:]],
        2,
        "trial {} was not asked for",
    ),
    "an entry's first trial later": (
        at(2, changed(index=1)),
        2,
        "trial 0 of its entry was not asked for",
    ),
    "another trial's id": (
        at(2, changed(entry_id="elsewhere")),
        2,
        "{} is no id of such a trial",
    ),
}


def damage(place: SweepPaths, change: Callable[[Lines], Lines]) -> Lines:
    """Change the journal; the lines that it has then."""
    lines = change(place.journal.read_bytes().splitlines())
    place.journal.write_bytes(b"".join(line + b"\n" for line in lines))
    return lines


@pytest.mark.parametrize("form", FORMS)
def test_the_line_is_said_and_what_to_do(place: SweepPaths, form: str):
    change, number, says = FORMS[form]
    first = json.loads(place.journal.read_bytes().splitlines()[1])["trial_id"]
    number = number or len(place.journal.read_bytes().splitlines()) + 1
    damage(place, change)
    with pytest.raises(UserError) as said:
        status(place.storage, "s")
    expected = f"journal {place.journal}, line {number}: {says.format(first)}{REST}"
    assert str(said.value) == expected


def test_the_commands_say_it_and_status_shows_the_other_sweeps(place: SweepPaths):
    here = place.storage.parent
    shutil.copytree(place.folder, place.storage / "other")
    damage(place, at(3, lambda _: b"soup"))
    said = f"journal runs/s/journal.jsonl, line 3: it is no JSON object{REST}"
    assert fault(suite_here("status", "s", cwd=here, code=2)) == said
    every = suite_here("status", cwd=here)
    assert every.stderr == f"sweep s: {said}\n"
    assert every.stdout.startswith("other: 4/4 trials (4 finished)")
    (here / "mine.yaml").write_text(json.dumps(little(trials=3).model_dump(mode="json")))
    command = ("sweep", "mine.yaml", "--name", "s")
    assert fault(suite_here(*command, "--resume", cwd=here, code=2)).endswith(said)


def numbers(place: SweepPaths) -> dict[str, dict[str, float]]:
    """The recorded metrics of each trial, times left out."""
    runs = Store(None, place.storage).find(sweep="s")
    trials = [run for run in runs if "trial_id" in run.tags]
    assert len(trials) == len({run.tags["trial_id"] for run in trials})
    return {
        run.tags["trial_id"]: {k: v for k, v in run.metrics.items() if not k.endswith("_seconds")}
        for run in trials
    }


def without_bad_lines(place: SweepPaths) -> int:
    """Delete the line that is named until none is; how many they were."""
    for count in itertools.count():
        try:
            status(place.storage, "s")
        except UserError as error:
            number = int(str(error).split("line ")[1].split(":")[0])
            damage(place, lambda lines, at=number: lines[: at - 1] + lines[at:])
        else:
            return count
    raise AssertionError


@pytest.mark.parametrize(
    ("change", "deleted"),
    [
        (at(3, lambda _: b"soup"), 2),
        (lambda x: [*x[:1], *x[2:]], 3),
        (lambda x: x + x[1:], None),
    ],
    ids=["text", "a lost ask", "doubled"],
)
def test_without_the_named_lines_what_is_lost_runs_again(
    place: SweepPaths, change: Callable[[Lines], Lines], deleted: int | None
):
    before = numbers(place)
    damage(place, change)
    assert without_bad_lines(place) >= (deleted or 1)
    result = play(Sweep("s", little(trials=3), place, resume=True))
    assert result.ending == ""
    found = status(place.storage, "s")
    assert (found["ended"], found["recorded"], found["finished"]) == (4, 4, 4)
    assert numbers(place) == before
