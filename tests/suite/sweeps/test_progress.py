"""The progress display: what a terminal and a log file are shown."""

import io

import pytest
from rich.console import Console

from suite.search.trial import Ask
from suite.studies.entries import make_entries
from suite.studies.study import read_study
from suite.sweeps.progress import Progress

ENTRIES, PER_ENTRY = 14, 17
TRIALS = ENTRIES * PER_ENTRY


def progress() -> Progress:
    name, study = read_study("quickstart", {})
    return Progress(make_entries(study, name)[:ENTRIES], PER_ENTRY * ENTRIES, name)


def ask(shown: Progress, entry: int, index: int) -> Ask:
    (*ids,) = shown.entries
    return Ask(f"{entry}-{index}", ids[entry], "search", index, "sampled", {}, 0, 0)


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_live_table_fits_and_counts(width: int) -> None:
    shown = progress()
    for index, status in enumerate(("finished", "pruned", "diverged", "finished")):
        shown.asked(ask(shown, 0, index))
        shown.ended(ask(shown, 0, index), status, 0.5 + index / 10)
    shown.asked(ask(shown, 1, 0))
    console = Console(width=width, height=40, file=io.StringIO())
    console.print(shown._table())
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    first = next(line for line in lines if "fedavg" in line)
    assert [part for part in first.split() if part[0].isdigit()] == ["4", "1", "1", "0.8000"]
    assert all(name in lines[1] for name in ("done", "running", "pruned", "diverged", "best val"))
    text = " ".join(lines[-3:])
    assert f"4/{TRIALS} trials" in text
    assert "1 running" in text
    assert "left" in text


def test_many_cells_are_cut_to_the_screen() -> None:
    shown = progress()
    shown._console = Console(width=100, height=13, file=io.StringIO())
    console = Console(width=100, height=13, file=io.StringIO())
    console.print(shown._table())
    assert f"... and {ENTRIES - 5} more entries" in console.file.getvalue()


def test_trials_of_an_earlier_session_do_not_count_as_speed() -> None:
    shown = progress()
    for index in range(5):
        shown.ended(ask(shown, 0, index), "finished", 0.5, before=True)
    assert f"5/{TRIALS} trials" in shown._line()
    assert "0 trials/min" in shown._line()
