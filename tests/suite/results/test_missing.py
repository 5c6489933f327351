"""Algorithms whose trials or final runs all failed: no row, and a word on why."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from reports.wording.words import rank_text
from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.results.report import read
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from suite.tracking.record import Record
from suite.tracking.store import Store
from tests.support import foreign
from tests.support.commands import fault, suite_here
from trials.run.outcome import Status
from trials.run.result import TrialResult
from trials.run.spec import TrialSpec

ERROR = 'Traceback:\n  File "mine.py", line 3, in round\n    raise\nValueError: not so\nnor so\n'
LOST = (
    "digits · logreg · iid: {} has no row, since none of its {} in s came to an end: {} failed "
    "(ValueError: not so)."
)


def sweep(folder: Path, broken: tuple[str, ...], seeds: tuple[int, ...]) -> None:
    """FedAvg and FedProx, where the trials of the `broken` with these seeds fail."""
    real = foreign.outcome

    def outcome(spec: TrialSpec) -> TrialResult:
        if spec.algorithm in broken and spec.seed in seeds:
            return TrialResult(Status.FAILED, error=ERROR)
        return real(spec)

    with patch.object(foreign, "outcome", outcome):
        foreign.swept(folder, algorithms=["fedavg", "fedprox"], retries=0)


@pytest.mark.parametrize(
    ("seeds", "kind", "count"), [((0, 1), "trials", 2), ((1,), "final runs", 1)]
)
def test_a_leaderboard_names_them_and_a_report_has_their_failures(
    tmp_path: Path, seeds: tuple[int, ...], kind: str, count: int
) -> None:
    sweep(tmp_path, ("fedprox",), seeds)
    store = Store(None, tmp_path / "runs")
    board = read_leaderboard(store)
    failures = read(store, Query(), "").failures
    assert [row.algorithm for row in board.rows] == ["fedavg"]
    assert board.notes == (LOST.format("fedprox", kind, count),)
    assert [one.error for one in failures] == ["ValueError: not so"] * count


def test_where_no_row_is_left_a_leaderboard_says_why(tmp_path: Path) -> None:
    sweep(tmp_path, ("fedavg", "fedprox"), (0, 1))
    for command in ("leaderboard", "report"):
        assert fault(suite_here(command, "s", cwd=tmp_path, code=2)) == "\n".join(
            [
                "there is no row to show",
                LOST.format("fedavg", "trials", 2),
                LOST.format("fedprox", "trials", 2),
            ]
        )


def test_what_other_sweeps_have_does_not_count(tmp_path: Path) -> None:
    """A sweep that was ended before its first final run, beside one that has some."""
    foreign.swept(tmp_path)
    place = SweepPaths(tmp_path / "runs", "t")
    foreign.play(Sweep("t", foreign.little(), place, resume=False), most=1)
    done = suite_here("leaderboard", "t", "--where", "algorithm=folb", cwd=tmp_path, code=2)
    assert fault(done) == "there are no final runs yet: finish the sweep with --resume"


@pytest.fixture
def altered(tmp_path: Path) -> Store:
    """A finished sweep of two methods with two final runs each."""
    foreign.swept(tmp_path, algorithms=["fedavg", "fedprox"], seeds=2)
    return Store(None, tmp_path / "runs")


def first_final(store: Store) -> Record:
    return store.find(kind="final", algorithm="fedavg")[0]


def delete(store: Store) -> None:
    store.client.delete_run(first_final(store).run_id)


def falsify(value: float) -> Callable[[Store], None]:
    return lambda store: store.log(
        first_final(store).run_id, history=[{"round": 2, "test_score": value}]
    )


@pytest.mark.parametrize(
    ("alter", "said"),
    [(delete, ""), (falsify(5.0), "metric test_score, which is no accuracy")],
    ids=["deleted", "no accuracy"],
)
def test_an_entry_without_all_its_final_runs_is_marked_and_not_ranked(
    altered: Store, capsys: pytest.CaptureFixture[str], alter: Any, said: str
) -> None:
    """It takes no part in any comparison, and the command that is named mends it."""
    before = read_leaderboard(altered)
    alter(altered)
    capsys.readouterr()
    fresh = Store(None, Path(altered.uri.removeprefix("sqlite:///")).parent)
    board = read_leaderboard(fresh)
    assert capsys.readouterr().err == (
        f"1 run of sweep s could not be read: {said}\n" if said else ""
    )
    rows = {row.algorithm: row for row in board.rows}
    assert (rows["fedprox"].rank, rows["fedavg"].rank, rows["fedavg"].seeds) == (1, None, 1)
    assert [rank_text(row) for row in board.rows] == ["1", "‡"]
    assert board.differences[0][1] == ()
    command = f"suite sweep s.yaml --resume {' '.join(fresh.options)}"
    assert board.notes == (
        f"‡ digits · logreg · iid: fedavg is not ranked: 1 of its 2 final runs can be read: `{command}` "
        "records the others again.",
    )
    asked = read_leaderboard(fresh, Query(where={"algorithm": "fedavg"}))
    assert asked.notes == board.notes
    storage = Path(altered.uri.removeprefix("sqlite:///")).parent
    foreign.play(
        Sweep(
            "s",
            foreign.little(algorithms=["fedavg", "fedprox"], seeds=2),
            SweepPaths(storage, "s"),
            resume=True,
        )
    )
    after = read_leaderboard(Store(None, storage))
    assert after.notes == before.notes == ()
    assert [(row.algorithm, row.rank, row.mean) for row in after.rows] == [
        (row.algorithm, row.rank, row.mean) for row in before.rows
    ]


def test_an_entry_with_a_final_run_too_many_is_not_ranked(altered: Store) -> None:
    run = first_final(altered)
    tags = {
        key: value for key, value in run.tags.items() if key not in ("run_status", "experiment_id")
    }
    again = altered.create(run.tags.experiment_id, "again", tags)
    course = altered.curve(run, ["test_accuracy"])
    altered.log(again, history=[*course, {"round": 2, "test_score": run.metrics["test_score"]}])
    altered.set_status(again, "FINISHED")
    board = read_leaderboard(altered)
    assert {row.algorithm: row.rank for row in board.rows} == {"fedprox": 1, "fedavg": None}
    assert board.notes == (
        "‡ digits · logreg · iid: fedavg is not ranked: it has 3 final runs, and s made 2: delete in MLflow "
        f"(`suite ui`) what is none of its own, one of {run.run_id}, {again}.",
    )


def test_an_entry_whose_final_runs_are_all_gone_has_no_row(altered: Store) -> None:
    for run in altered.find(kind="final", algorithm="fedavg"):
        altered.client.delete_run(run.run_id)
    command = f"suite sweep s.yaml --resume {' '.join(altered.options)}"
    assert read_leaderboard(altered).notes == (
        "digits · logreg · iid: fedavg has no row, since none of its final runs in s can be read: "
        f"`{command}` records them again.",
    )
