"""The Python interface: what the commands do and say, as typed results."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import suite
from suite.configurations.configuration import Tuned
from suite.studies.study import Study
from suite.sweeps.sweep import Result
from suite.tracking.store import Store
from tests.support import own_ray
from tests.support.commands import suite_here
from trials.common.errors import UserError

CONTENT: dict[str, Any] = {
    "algorithms": ["fedavg", "folb"],
    "datasets": ["digits"],
    "models": ["logreg"],
    "heterogeneity": ["labels(2)"],
    "trials": 2,
    "seeds": 2,
    "sampler": "random",
    "settings": {"rounds": 4, "clients": 4, "participation": 1.0, "execution": "batched"},
}
HEAVY = ("torch", "ray", "mlflow", "optuna", "pandas", "pydantic", "suite.api")


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api") / "runs"


@pytest.fixture(scope="module")
def swept(storage: Path) -> Result:
    own_ray.started()
    return suite.sweep(CONTENT, name="mine", storage=storage, max_concurrent=1, trials=3)


def timeless(history: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{k: v for k, v in entry.items() if not k.endswith("_seconds")} for entry in history]


def test_importing_it_loads_nothing_and_it_tells_what_it_has() -> None:
    script = f"import sys, suite; print([m for m in {HEAVY} if m in sys.modules], dir(suite))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    named = "leaderboard load load_model replay report run status stop study sweep trainable tuned"
    names = ["UserError", *named.split()]
    assert done.stdout.strip() == f"[] {names}", done.stderr
    assert all(getattr(suite, name) for name in names)
    with pytest.raises(AttributeError, match="module 'suite' has no attribute 'sweeep'"):
        suite.sweeep  # noqa: B018


def test_a_run_is_the_command_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("--algorithm", "fedprox", "--heterogeneity", "labels(2)", "--set", "mu=0.1")
    sizes = ("--set", "rounds=6", "--set", "clients=4", "--seed", 3)
    done = suite_here("run", *given, *sizes, "--no-record", "--json", cwd=tmp_path)
    command = json.loads(done.stdout)
    settings = {"clients": 4, "rounds": 6}
    run = suite.run(
        "fedprox", heterogeneity="labels(2)", settings=settings, seed=3, mu=0.1, rounds=6
    )
    assert not list(tmp_path.iterdir()), "nothing is recorded"
    assert timeless(run.history) == timeless(command["history"])
    assert run.status == command["status"] == "finished"
    for part in ("val", "test"):
        last_three = [entry[f"{part}_accuracy"] for entry in run.history[-3:]]
        assert getattr(run, f"{part}_score") == sum(last_three) / 3
    assert run.to_pandas()["round"].tolist() == [entry["round"] for entry in run.history]
    assert f"{run.test_score:.4f}" in repr(run)
    assert run.plot()._repr_html_().count("<svg") == 1
    recorded = Store(None, tmp_path / "here").get(run.record("here"))
    assert recorded.tags["kind"] == "run"
    assert recorded.tags["seed"] == "3"


WRONG: dict[str, Callable[[], Any]] = {
    "algorithm is <class": lambda: suite.run(Study),
    "dataset is {'x': 1}": lambda: suite.run(dataset={"x": 1}),
    "model: must be": lambda: suite.run(model=nn.Linear(2, 2)),
    "name: a study that is not a file needs one": lambda: suite.sweep(CONTENT),
    "unknown sweep in runs": lambda: suite.status({"x": 1}),
    "minutes is 0": lambda: suite.sweep("smoke", minutes=0),
}


@pytest.mark.parametrize("says", WRONG)
def test_what_is_no_name_is_refused_and_says_what_is(
    says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refused:
        WRONG[says]()
    assert str(refused.value).startswith(says)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow("the sweep that all here look at, on Ray")
def test_a_sweep_of_a_study_s_content(swept: Result, storage: Path) -> None:
    summary = swept.summary
    assert (summary.study, summary.name, summary.entries) == ("mine", "mine", 2)
    assert (summary.trials_finished, summary.final_runs, swept.ending) == (6, 4, "")
    assert Path(summary.storage) == storage.resolve() / "mine"
    assert set(swept.to_pandas()["algorithm"]) == {"fedavg", "folb"}
    journal = (storage / "mine" / "journal.jsonl").read_text()
    begun = json.loads(journal.splitlines()[0])["study"]
    assert begun["trials"] == 3
    assert begun["settings"]["rounds"] == 4, "a mapping's other keys stay"


def test_a_sweep_leaves_ray_and_tune_as_the_process_had_them(swept: Result) -> None:
    assert own_ray.cluster.ray.is_initialized()
    assert "TUNE_GLOBAL_CHECKPOINT_S" not in os.environ
    assert logging.getLogger("ray.tune").level < logging.CRITICAL


def test_a_leaderboard_is_the_command_s(swept: Result, storage: Path) -> None:
    # The same storage for both: the commands that findings name have it as it was given.
    done = suite_here("leaderboard", "mine", "--storage", storage, "--json", cwd=storage.parent)
    board = suite.leaderboard("mine", storage=storage)
    assert json.loads(json.dumps(board.as_dict())) == json.loads(done.stdout)
    only = suite.leaderboard("mine", where={"algorithm": "folb"}, storage=storage)
    assert [row.algorithm for row in only.rows] == ["folb"]
    table = board.to_pandas().set_index("algorithm")
    assert table.loc["folb", "mean"] == only.rows[0].mean


def test_a_report_a_status_and_a_replay_are_the_commands(swept: Result, storage: Path) -> None:
    report = suite.report(swept)
    assert report.page == storage / "report" / "mine" / "report.html" or report.page.is_file()
    assert "fedavg" in report.page.read_text()
    (one,) = suite.status(storage=storage)
    assert one["name"] == "mine"
    assert suite.status(swept)["expected"] == 10
    assert suite.stop(swept) is False, "nobody runs it"
    assert swept.leaderboard is not None
    run_id = swept.leaderboard.rows[0].runs[0]
    again = suite.replay(run_id, storage=storage)
    assert (again.exact, again.differences) == (True, [])


def test_tuned_configurations_are_a_list_and_can_be_run(swept: Result, storage: Path) -> None:
    found = suite.tuned(storage=storage)
    assert list(found) == list(swept.tuned)
    assert sorted(item.algorithm for item in found) == ["fedavg", "folb"]
    (folb,) = suite.tuned("folb", "digits", "logreg", "labels(2)", storage=storage)
    assert isinstance(folb, Tuned)
    assert found.to_pandas()["settings.rounds"].tolist() == [4, 4]
    assert folb.scores["test_by_seed"] == {s: suite.run(folb, seed=s).test_score for s in (1, 2)}
    changed = suite.run(folb, seed=1, heterogeneity="iid", rounds=2)
    assert (changed.spec.heterogeneity, changed.spec.params) == ("iid", folb.params)
    assert changed.history[-1]["round"] == 2


def test_a_sweep_is_continued_and_extended(swept: Result, storage: Path) -> None:
    with pytest.raises(UserError) as refused:
        suite.sweep(CONTENT, name="mine", storage=storage)
    assert str(refused.value).startswith("sweep 'mine' exists in ")
    study = Study.model_validate(CONTENT)
    more = suite.sweep(
        study, name="mine", storage=storage, max_concurrent=1, resume=True, trials=3, seeds=3
    )
    assert more.summary.final_runs == 6
    assert more.leaderboard is not None
    assert swept.leaderboard is not None
    assert [row.seeds for row in more.leaderboard.rows] == [3, 3]
    assert "mine was ranked before with 2 final runs per entry" in " ".join(more.leaderboard.notes)
    assert not any("ranked before" in note for note in swept.leaderboard.notes)
