"""Journals that are damaged, shuffled, doubled, another's or a later version's: the line is said, and what
is left goes on.
"""

import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.status import status
from suite.sweeps.sweep import Sweep
from suite.tracking.store import Store
from tests.support import foreign
from tests.support.commands import fault, runs_of, suite_here
from tests.support.foreign import little, play, swept
from trials.common.errors import UserError
from trials.run.outcome import Status, TrialResult
from trials.run.spec import TrialSpec

Lines = list[bytes]
Form = tuple[Callable[[Lines], Lines], int | None, str]
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


def changed(part: str = "", **fields: object) -> Callable[[bytes], bytes]:
    """A line with other fields, of one of its parts where that is named; None takes one out."""

    def change(line: bytes) -> bytes:
        event = json.loads(line)
        told = {**(event[part] if part else event), **fields}
        told = {k: v for k, v in told.items() if v is not None}
        whole = {**event, part: told} if part else told
        return json.dumps(whole, separators=(",", ":")).encode()

    return change


def at(number: int, change: Callable[[bytes], bytes]) -> Callable[[Lines], Lines]:
    """The lines with one, counted from 1, replaced."""
    return lambda lines: [change(x) if n == number else x for n, x in enumerate(lines, 1)]


def no_object(number: int, change: Callable[[bytes], bytes]) -> Form:
    return at(number, change), number, "it is no JSON object"


def no_event(number: int, event: object) -> Form:
    says = f"{event!r} is no event of this version of suite"
    return at(number, changed(event=event)), number, says


def no_such(event: str, part: str = "", **fields: object) -> Form:
    """Fields that the event does not have; lines 1 to 4 are begin, ask 0, curve 0, end 0."""
    number = {"begin": 1, "request": 2, "end": 4}[event]
    says = f"its fields are not those of the event {event!r}"
    return at(number, changed(part, **fields)), number, says


FORMS: dict[str, Form] = {
    "text": no_object(3, lambda _: b"soup"),
    "a list": no_object(3, lambda _: b"[1]"),
    "deep": no_object(3, lambda _: b"[" * 200_000),
    "half a line": no_object(4, lambda line: line[:40]),
    "two in one": no_object(4, lambda line: line + line),
    "no event": no_event(3, None),
    "another event": no_event(3, "teleported"),
    "an event that is none": no_event(3, []),
    "a field more": no_such("request", later=1),
    "a field less": no_such("request", "request", params=None),
    "params of another kind": no_such("request", "request", params=[0.1]),
    "another kind of trial": no_such("request", "request", kind="dream"),
    "another status": no_such("end", "outcome", status="teleported"),
    "a history of another kind": no_such("end", "outcome", history=7),
    "a round that is none": no_such("end", "outcome", intermediates={"x": 1}),
    "no trial": no_such("end", trial_id=None),
    "a study that is none": no_such("begin", study=None),
    "no beginning": (lambda x: x[1:], 1, "the sweep has not begun"),
    "begun elsewhere": (
        lambda x: [*x[:1], changed(id="elsewhere")(x[0]), *x[1:]],
        2,
        "it is of another sweep",
    ),
    "a lost ask": (lambda x: [*x[:1], *x[2:]], 3, "trial {} was not asked for"),
    "a lost curve": (lambda x: [*x[:2], *x[3:]], 3, "the line before has no curve of trial {}"),
    "a lost trial": (
        lambda x: [line for line in x if b"-s0000" not in line],
        2,
        "{}, which comes before it, was not asked for",
    ),
    "a request twice": (lambda x: [*x[:2], *x[1:]], 3, "trial {} was asked for before"),
    "an end twice": (lambda x: [*x[:4], *x[3:]], 5, "trial {} has ended before"),
    "doubled": (lambda x: x + x[1:], None, "trial {} was asked for before"),
    "an end before its ask": (lambda x: [x[0], x[3], *x], 2, "trial {} was not asked for"),
    "another index": (
        at(2, changed("request", index=1)),
        2,
        "{} is no id of such a trial",
    ),
    "another trial's id": (
        at(2, changed("request", entry_id="elsewhere")),
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
    first = json.loads(place.journal.read_bytes().splitlines()[1])["request"]["trial_id"]
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
    runs = runs_of(Store(None, place.storage), sweep="s")
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
    [(at(3, lambda _: b"soup"), 2), (lambda x: [*x[:1], *x[2:]], 3), (lambda x: x + x[1:], None)],
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


def test_half_of_a_surrogate_pair_damages_no_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As in the name of a file that is not UTF-8; it has no JSON."""
    place, whole = SweepPaths(tmp_path / "runs", "s"), foreign.outcome

    def fails(spec: TrialSpec) -> TrialResult:
        return replace(whole(spec), status=Status.FAILED, error="no file \udcff")

    monkeypatch.setattr(foreign, "outcome", fails)
    play(Sweep("s", little(trials=1, retries=0), place), most=1)
    assert [result.fault for result in place.state().ended.values()] == ["no file ?"]
