"""Searches as Optuna's studies: what of a table each has, and where it is shown or written."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

import suite
from suite.results.study import export, refresh, study_of
from suite.results.table import TableFacts, TrialTable, rows_table
from suite.sweeps.journal.events import Requested
from suite.sweeps.tables import local_table, open_tables
from suite.ui import Dashboard
from tests.support.commands import fault, suite_here
from tests.support.journals import add
from tests.support.watched import asked, ended, swept
from trials.algorithm import Range
from trials.common.errors import UserError

NAME = "fedprox · digits · logreg · iid"


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """A sweep of 30 trials of each entry, the last one of each still to end; every seventh diverged."""
    swept(tmp_path / "runs", "night")
    return tmp_path / "runs"


def table_of(
    params: list[dict[str, Any]], space: dict[str, Range], metric: str = "accuracy", **columns: Any
) -> TrialTable:
    """A table of one entry with trials of these configurations."""
    rows = [
        {
            "kind": "search", "entry_id": "e", "metric": metric, "replicate": "", "trial_id": f"e-s{i}", "number": i,
            "status": "finished", "params": json.dumps(own), "val_score": i / 10, "seed": 3,
            "round": [0, 5], "val": [0.0, i / 10], **{name: of[i] for name, of in columns.items()},
        }
        for i, own in enumerate(params)
    ]  # fmt: skip
    entry = {"id": "e", "name": "a · d · m · iid", "algorithm": "a", "dataset": "d", "model": "m"}
    entry |= {"heterogeneity": "iid", "metric": metric, "reference": False, "space": space}
    facts = TableFacts(name="s", id="i", study_name="x", study={}, entries=[entry], began=0.0)
    return TrialTable(facts, rows_table(rows))


def test_a_study_has_what_the_table_has(storage: Path) -> None:
    study = suite.study("night", NAME, storage=storage)
    assert study.direction == optuna.study.StudyDirection.MAXIMIZE
    assert [trial.user_attrs["trial_id"][-5:] for trial in study.trials] == [
        f"s{i:04d}" for i in range(29)
    ]
    first, bad = study.trials[0], study.trials[6]
    assert first.params == {"lr": 0.01, "mu": 0.1}
    assert (first.state, first.value) == (TrialState.COMPLETE, 0.5)
    assert first.intermediate_values == {r: pytest.approx(0.5 * (r + 1) / 11) for r in range(11)}
    facts = {"status": "finished", "origin": "sampled", "seed": 0, "seconds": 1.5}
    assert facts.items() <= first.user_attrs.items()
    assert (bad.state, bad.value) == (TrialState.FAIL, None)
    assert bad.user_attrs["status"] == "diverged"
    assert study.user_attrs["algorithm"] == "fedprox"
    shares = optuna.importance.get_param_importances(study)
    assert set(shares) == {"lr", "mu"}, "values beyond the declared range leave none out"


def test_rows_are_in_the_order_of_trials_whenever_they_ended(storage: Path) -> None:
    entry = local_table(storage, "night").facts.entries[0].id
    late, last = asked(entry, 30, 0), asked(entry, 29, 0)
    add(storage / "night", Requested(request=late), ended(late, 30, 10), ended(last, 29, 10))
    ids = local_table(storage, "night").whole()["trial_id"].to_pylist()
    assert ids == sorted(ids)
    assert len(ids) == 60


def test_declared_ranges_are_widened() -> None:
    space = {
        "lr": Range("float", 0.001, 1.0, log=True),
        "steps": Range("int", 1, 10),
        "kind": Range("choice", choices=("a", ("b", 1))),
        "mix": Range("float", 0.0, 1.0),
    }
    params = [
        {"lr": 0.1, "steps": 3, "kind": "a", "mix": 0.5, "fixed": 1},
        {"lr": 0.03, "steps": 12, "kind": "c", "mix": "auto", "fixed": 1},
        {"lr": 5.0, "steps": 3, "kind": ["b", 1], "mix": 0.5, "fixed": 1},
    ]
    study = study_of(table_of(params, space), "a · d · m · iid")
    ranges = study.trials[0].distributions
    assert ranges["lr"] == optuna.distributions.FloatDistribution(0.001, 5.0, log=True)
    assert ranges["steps"] == optuna.distributions.IntDistribution(1, 12)
    assert ranges["kind"].choices == ("a", '["b", 1]', "c")
    assert [trial.params["lr"] for trial in study.trials] == [0.1, 0.03, 5.0]
    assert [trial.params["mix"] for trial in study.trials] == [0.5, "auto", 0.5]
    assert {trial.user_attrs["fixed"] for trial in study.trials} == {1}
    assert {len(trial.params) for trial in study.trials} == {4}


def test_states_the_direction_and_replicates_follow_the_table() -> None:
    space = {"lr": Range("float", 0.1, 1.0)}
    columns: dict[str, Any] = {
        "status": ["finished", "pruned", "failed", "finished"],
        "val_score": [0.3, 0.2, None, float("nan")],
        "error": [None, None, "Traceback\nValueError: no\n", None],
        "replicate": ["", "", "t1", "t1"],
        "number": [0, 1, 0, 1],
    }
    table = table_of([{"lr": 0.5}] * 4, space, metric="mse", **columns)
    first, second = (study_of(table, f"a · d · m · iid{own}") for own in ("", " · t1"))
    assert first.direction == optuna.study.StudyDirection.MINIMIZE
    assert [trial.state for trial in first.trials] == [TrialState.COMPLETE, TrialState.PRUNED]
    assert [trial.state for trial in second.trials] == [TrialState.FAIL, TrialState.FAIL]
    assert second.trials[0].user_attrs["error"] == "ValueError: no"
    with pytest.raises(UserError, match="unknown entry"):
        study_of(table, "a")


def test_an_export_opens_with_one_line(storage: Path, tmp_path: Path) -> None:
    words = ("export", "optuna", "night", "searches.db")
    done = suite_here(*words, cwd=tmp_path)
    assert done.stdout == "optuna-dashboard sqlite:///searches.db\n"
    place = f"sqlite:///{tmp_path / 'searches.db'}"
    read = optuna.load_study(study_name=f"night: {NAME}", storage=place)
    study = suite.study("night", NAME, storage=storage)
    for stored, trial in zip(read.trials, study.trials, strict=True):
        for name in ("number", "state", "value", "params", "distributions", "user_attrs"):
            assert getattr(stored, name) == getattr(trial, name)
    assert "does not exist yet" in fault(suite_here(*words, cwd=tmp_path, code=2))
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "searches.db"}
    with pytest.raises(UserError, match="no search trial of sweep s has ended"):
        export(table_of([], {}), tmp_path / "none.db")


def test_the_dashboard_gets_what_ended_since_behind_what_it_has(storage: Path) -> None:
    """A browser asks for the trials after the last that it has: their places do not change."""
    dashboard = Dashboard(storage)
    entry = local_table(storage, "night").facts.entries[0].id
    asks: Any = SimpleNamespace(path_params={"name": "night", "entry": entry})
    page = dashboard.page(asks).headers["location"]
    study = optuna.load_study(
        study_name="night: fedavg · digits · logreg · iid", storage=dashboard.studies
    )
    before = [trial.user_attrs["trial_id"] for trial in study.trials]
    late, last = asked(entry, 30, 0), asked(entry, 29, 0)
    add(storage / "night", Requested(request=late), ended(late, 30, 10), ended(last, 29, 10))
    refresh(dashboard.studies, open_tables(storage).tables)
    after = [trial.user_attrs["trial_id"] for trial in study.trials]
    assert after[:29] == before
    assert sorted(after[29:]) == [last.trial_id, late.trial_id]
    assert dashboard.page(asks).headers["location"] == page
    (storage / "night").rename(storage / "renamed")
    refresh(dashboard.studies, open_tables(storage).tables)
    assert dashboard.page(asks).headers["location"] == "/dashboard", "what went is shown no more"
