"""Listings of little or nothing, and what a narrow terminal shows of much."""

from pathlib import Path

import pytest

import suite
from suite.runs.single import Finished
from tests.support import foreign
from tests.support.commands import fault, suite_here
from trials.common.errors import UserError, unknown

NONE = "no tuned configuration matches; `suite tuned list` shows all, `suite sweep` makes more"


@pytest.fixture(scope="module")
def only_a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with one run of `suite run`, and no sweep."""
    folder = tmp_path_factory.mktemp("run")
    suite_here("run", "--set", "rounds=1", "--set", "clients=4", cwd=folder)
    return folder


def test_where_no_sweep_is_what_reads_one_says_so(only_a_run: Path) -> None:
    for words in ("tuned list", "tuned show", "tuned export out", "leaderboard"):
        said = fault(suite_here(*words.split(), cwd=only_a_run, code=2))
        assert said.startswith("there is no sweep in runs yet: run `suite sweep quickstart`, or")
    assert not (only_a_run / "out").exists()
    status = suite_here("status", cwd=only_a_run)
    assert (status.stdout, status.stderr) == (
        "",
        "no sweep in runs: start one with `suite sweep`, or name another place with --storage\n",
    )


def test_a_notebook_shows_a_run_without_its_data() -> None:
    done = suite.run("fedavg", rounds=1, clients=4)
    assert isinstance(done, Finished)
    assert repr(done).startswith("fedavg on digits · logreg · iid")
    assert len(repr(done)) < 200


def test_names_that_nothing_has(tmp_path: Path) -> None:
    """What has a name is said, of that kind alone and where it is near; or that there is nothing yet."""
    foreign.swept(tmp_path)
    storage = tmp_path / "runs"
    with pytest.raises(UserError, match=r"^unknown algorithm 'fedprx'\. Did you mean 'fedprox'\?$"):
        suite.tuned("fedprx", storage=storage)
    assert suite.tuned("fedprox", storage=storage) == []
    with pytest.raises(UserError, match=r"^unknown sweep 'nope'\. Known: s\.$"):
        suite.leaderboard("nope", storage=storage)
    assert str(unknown("sweep", "nope", ["pers"])) == "unknown sweep 'nope'. Known: pers."
    said = fault(suite_here("status", "x", "--storage", "nothing", cwd=tmp_path, code=2))
    assert said == "unknown sweep in nothing 'x'. There is none yet."
