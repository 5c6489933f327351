"""What a newcomer trips over: names, defaults, values without a meaning, statistics that differ."""

import sys
from pathlib import Path

import pytest
import typer

from suite.cli import options
from suite.sweeps.status import of_study
from tests.support.commands import SINGLY, document, fault, noted, study_file, suite_here
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError

MEANINGLESS = {
    ("fedprox", "mu"): -1,
    ("feddyn", "alpha"): -0.1,
    ("scaffold", "server_lr"): -1,
    ("safl", "epsilon"): 1.5,
    ("fedavgm", "beta"): -0.5,
    ("fedadam", "beta2"): 1.5,
    ("fedadagrad", "tau"): 0,
    ("fedagg", "sweeps"): 0,
    ("fedagg", "alpha"): 0,
    ("astw", "loop"): 0,
    ("safl", "L"): -1,
}


@pytest.mark.parametrize(("algorithm", "name"), MEANINGLESS)
def test_values_outside_what_an_equation_means_are_refused(algorithm, name):
    value = MEANINGLESS[algorithm, name]
    with pytest.raises(UserError) as refused:
        ALGORITHMS[algorithm].configured({name: value})
    rule = str(refused.value).removeprefix(f"{name} is {value!r}, but must be ")
    assert rule in ("at least 0", "at most 1", "above 0")


FEW = "--algorithms fedavg,fedprox --heterogeneity iid --trials 2 --set rounds=2"


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> Path:
    """Two sweeps of the study `small`, neither with its name."""
    folder = tmp_path_factory.mktemp("swept")
    study = study_file(folder)
    for name in ("one", "two"):
        suite_here("sweep", study, *FEW.split(), "--name", name, *SINGLY, cwd=folder)
    return folder


def test_what_mends_a_sweep_names_its_study_s_file_as_it_was_given(swept):
    rows = document(suite_here("leaderboard", "one", "--json", cwd=swept))["rows"]
    commands = {finding["command"] for row in rows for finding in row["audit"]["findings"]}
    assert f"suite sweep {swept / 'small.yaml'} --name one --resume --trials 20" in commands


@pytest.mark.parametrize("command", [("leaderboard", "--json"), ("report", "--json")])
def test_leaderboard_and_report_take_a_sweeps_name_alike(swept, command):
    word, *rest = command
    assert suite_here(word, "one", *rest, cwd=swept).stderr.startswith("reading the records\n")
    done = suite_here(word, "small", *rest, cwd=swept)
    first, second, *_ = done.stderr.splitlines()
    assert (first, second) == ("reading the records", "small is a study; its sweeps: one, two")
    known = "Did you mean 'one'?"
    said = fault(suite_here(word, "onee", *rest, cwd=swept, code=2))
    assert said == f"unknown sweep 'onee'. {known}"
    if word == "leaderboard":
        one = document(suite_here(word, "one", *rest, cwd=swept))
        assert one == document(suite_here(word, "--name", "one", *rest, cwd=swept))
        assert {row["sweep"] for row in one["rows"]} == {"one"}


def test_status_takes_a_studys_name_too(swept):
    storage = swept / "runs"
    assert of_study(storage, "small") == ["one", "two"]
    assert of_study(storage, "one") == of_study(storage, "none") == []
    done = suite_here("status", "small", "--json", cwd=swept)
    assert done.stderr == "small is a study; its sweeps: one, two\n"
    assert [each["name"] for each in document(done)] == ["one", "two"]
    assert document(suite_here("status", "one", "--json", cwd=swept))["name"] == "one"


def test_a_run_names_the_statistic_of_the_tuned_file_beside_its_own(swept):
    tuned = document(suite_here("tuned", "show", "--algorithm", "fedprox", "--json", cwd=swept))
    scores = tuned["scores"]
    words = ("run", "--tuned", "--algorithm", "fedprox", "--seed", 1, "--no-record")
    said = " ".join(suite_here(*words, cwd=swept).stdout.split())
    own = scores["test_by_seed"]["1"]
    assert f"test accuracy {own:.4f} (mean of the last 3 evaluations)" in said
    mean = scores["test_accuracy"]
    assert said.endswith(
        f"The configuration's test accuracy, mean of 2 seeds: {mean:.4f}; with seed 1: {own:.4f}"
    )


def test_a_resume_with_the_same_options_says_nothing_about_them(swept):
    again = ("sweep", "small.yaml", *FEW.split(), "--name", "one", *SINGLY, "--resume")
    assert noted(suite_here(*again, cwd=swept)) == []
    fewer = ("sweep", "small.yaml", "--name", "one", *SINGLY, "--resume")
    levels = ["iid", "labels(2)+system(steps=1..5)"]
    assert noted(suite_here(*fewer, cwd=swept)) == [
        f"{key} is {mine}, not {there} as in small.yaml: options extend a sweep."
        for key, mine, there in (
            ("algorithms", ["fedavg", "fedprox"], ["fedavg", "folb"]),
            ("heterogeneity", ["iid"], levels),
            ("trials", 2, 6),
            ("rounds", 2, 6),
        )
    ]


def test_a_command_with_nothing_says_what_it_does_and_asks_on_a_terminal(monkeypatch, capsys):
    class Terminal:
        def isatty(self):
            return True

    asked = []

    def confirm(text, **more):
        asked.append(text)
        return len(asked) > 1

    monkeypatch.setattr(typer, "confirm", confirm)
    options.ask_where_bare("run", "This runs it.")  # no terminal: nobody to ask
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(sys, "argv", ["suite", "run", "--seed", "1"])
    options.ask_where_bare("run", "This runs it.")
    assert asked == []
    monkeypatch.setattr(sys, "argv", ["suite", "run"])
    with pytest.raises(typer.Exit) as left:
        options.ask_where_bare("run", "This runs it.")
    assert left.value.exit_code == 130
    options.ask_where_bare("run", "This runs it.")
    assert asked == ["This runs it. Go on?"] * 2
