"""Two sweeps of one study, neither with its name: what commands say of them."""

from pathlib import Path

import pytest

from tests.support.commands import SINGLY, document, fault, study_file, suite_here

FEW = "--algorithms fedavg,fedprox --heterogeneity iid --trials 2 --set rounds=2"


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swept")
    study = study_file(folder)
    for name in ("one", "two"):
        suite_here("sweep", study, *FEW.split(), "--name", name, *SINGLY, cwd=folder)
    return folder


@pytest.mark.parametrize("command", ["leaderboard", "report"])
def test_leaderboard_and_report_take_a_sweep_or_a_study(swept: Path, command: str) -> None:
    one = suite_here(command, "one", "--json", cwd=swept)
    assert one.stderr == "reading the records\n"
    both = suite_here(command, "small", "--json", cwd=swept)
    assert "small is a study; its sweeps: one, two" in both.stderr
    said = fault(suite_here(command, "onee", "--json", cwd=swept, code=2))
    assert said == "unknown sweep 'onee'. Did you mean 'one'?"
    if command == "leaderboard":
        assert {row["sweep"] for row in document(one)["rows"]} == {"one"}
        by_option = suite_here(command, "--study", "small", "--json", cwd=swept)
        assert document(by_option) == document(both)
        only = document(suite_here(command, "one", "--algorithm", "fedavg", "--json", cwd=swept))
        assert [row["algorithm"] for row in only["rows"]] == ["fedavg"]


def test_status_takes_a_study_s_name_too(swept: Path) -> None:
    done = suite_here("status", "small", "--json", cwd=swept)
    assert done.stderr == "small is a study; its sweeps: one, two\n"
    assert [each["name"] for each in document(done)] == ["one", "two"]
    assert (
        "one: 8/8 runs (8 finished), 8 recorded; finished" in suite_here("status", cwd=swept).stdout
    )
